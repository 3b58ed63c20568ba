package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// A mapped is a Source that has its tensors in memory, but for empty ones.
type mapped struct {
	tensor.Source
	data []string
}

func (m mapped) Tensors() []tensor.Info { return make([]tensor.Info, len(m.data)) }
func (m mapped) Meta() tensor.Metadata  { return nil }
func (m mapped) Bytes(i int) ([]byte, func(), bool) {
	return []byte(m.data[i]), func() {}, m.data[i] != ""
}

// unmapped is a Source that knows nothing of memory.
type unmapped struct{ tensor.Source }

// A join of one source, for names that are not looked at.
func TestBytes(t *testing.T) {
	m := mapped{data: []string{"a", "", "c"}}
	j, err := tensor.Join([]tensor.Source{m})
	require.NoError(t, err)
	for _, src := range []tensor.Source{m, j} {
		for i, want := range m.data {
			p, release, ok := tensor.Bytes(src, i)
			require.Equal(t, want != "", ok)
			require.Equal(t, want, string(p))
			require.NotNil(t, release)
		}
	}
	j, err = tensor.Join([]tensor.Source{unmapped{m}})
	require.NoError(t, err)
	for _, src := range []tensor.Source{unmapped{m}, j} {
		p, release, ok := tensor.Bytes(src, 0)
		require.False(t, ok)
		require.Nil(t, p)
		require.Nil(t, release)
	}
}
