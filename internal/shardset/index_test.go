package shardset_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// A source has tensors in files: pairs of both names.
type source struct {
	tensor.Source
	pairs [][2]string
}

func (s source) Tensors() (infos []tensor.Info) {
	for _, p := range s.pairs {
		infos = append(infos, tensor.Info{Name: p[0]})
	}
	return infos
}

func (s source) Place(i int) (file string, offset int64) {
	return filepath.Join("d", s.pairs[i][1]), 0
}

// TestCompare: how an index and its files disagree.
func TestCompare(t *testing.T) {
	s := source{pairs: [][2]string{{"a", m1}, {"b", m1}, {"c", m2}}}
	for _, c := range []struct {
		index   map[string]string
		changed []string
		want    string // "" if they agree
	}{
		{map[string]string{"a": m1, "b": m1, "c": m2}, nil, ""},
		{map[string]string{"a": m1, "b": m1, "c": m2, "d": m1}, nil, `1 tensor of the index is in no part: "d" (in ` + m1 + `)`},
		{map[string]string{"a": m1, "c": m2}, nil, `1 tensor of the parts is not in the index: "b" (in ` + m1 + `)`},
		{map[string]string{"a": m1, "b": m2, "c": m2}, nil, `1 tensor is in another part: "b" (in ` + m1 + `, not in ` + m2 + `)`},
		{map[string]string{"a": m1, "b": m1, "c": m2}, []string{m2, m1}, `2 parts have another digest: ` + m1 + `, ` + m2},
		{map[string]string{"y": m2, "x": m1, "c": m1}, []string{m1}, `2 tensors of the index are in no part: "x" (in ` + m1 + `), "y" (in ` + m2 + `); ` +
			`2 tensors of the parts are not in the index: "a" (in ` + m1 + `), "b" (in ` + m1 + `); ` +
			`1 tensor is in another part: "c" (in ` + m2 + `, not in ` + m1 + `); 1 part has another digest: ` + m1},
	} {
		err := sets.Compare(ix, c.index, s, c.changed)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.EqualError(t, err, ix+": invalid file: the index is stale: "+c.want)
	}
}
