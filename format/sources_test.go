package format_test

import (
	"bytes"
	"crypto/sha256"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// headerOf describes a file whose tensors are those of src.
func headerOf(name string, file []byte, header int64, src tensor.Source) format.SourceHeader {
	h := format.SourceHeader{Name: name, Size: int64(len(file)), SHA256: sha256.Sum256(file), Bytes: file[:header]}
	for i, in := range src.Tensors() {
		_, off := src.Place(i)
		h.Tensors = append(h.Tensors, format.SourceTensor{Name: in.Name, Offset: off})
	}
	return h
}

// TestRestore: a store gives a safetensors file and a GGUF file back, byte for
// byte, also from a set.
func TestRestore(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	m.infos, m.data = m.infos[:22], m.data[:22] // no foreign ones
	var st, gg bytes.Buffer
	strings := &model{infos: m.infos, data: m.data, meta: m.meta[:1]}
	order := safetensors.Order(m.infos, nil)
	sorted := &model{meta: strings.meta}
	for _, i := range order {
		sorted.infos, sorted.data = append(sorted.infos, m.infos[i]), append(sorted.data, m.data[i])
	}
	require.NoError(t, sorted.write(safetensors.NewWriter(&st, nil), 1<<20))
	src, err := safetensors.NewFile(bytes.NewReader(st.Bytes()), int64(st.Len()), nil)
	require.NoError(t, err)
	restore(t, headerOf("m.safetensors", st.Bytes(), src.Header().DataStart, src), src, st.Bytes())

	small := &model{meta: tensor.Metadata{{Key: "general.name", Value: "x"}, {Key: "words", Value: stringArray("a", "b")}}}
	small.add("a", tensor.F32, asF32(weights(33, 1)), 33)
	small.add("b", tensor.BF16, asBF16(weights(64, 2)), 2, 32)
	require.NoError(t, small.write(gguf.NewWriter(&gg, nil), 1<<20))
	g, err := gguf.NewFile(bytes.NewReader(gg.Bytes()), int64(gg.Len()), nil)
	require.NoError(t, err)
	restore(t, headerOf("m.gguf", gg.Bytes(), g.Header().DataStart, g), g, gg.Bytes())
}

func restore(t *testing.T, h format.SourceHeader, src tensor.Source, want []byte) {
	m := &model{infos: src.Tensors(), meta: src.Meta()}
	for i := range m.infos {
		m.data = append(m.data, dataOf(t, src, i))
	}
	o := &format.WriteOptions{Sources: []format.SourceHeader{h}}
	dir := t.TempDir()
	require.NoError(t, m.write(format.CreateSet(dir, "one", 0, o), 1<<20))
	require.NoError(t, m.write(format.CreateSet(dir, "many", 132, o), 1<<20))
	for _, path := range []string{"one.demi", "many.demi.index.json"} {
		s, err := format.OpenSet(filepath.Join(dir, path), nil)
		require.NoError(t, err)
		defer s.Close()
		list, err := s.Sources()
		require.NoError(t, err)
		require.Equal(t, o.Sources, list)
		var out bytes.Buffer
		require.NoError(t, list[0].Restore(&out, s))
		require.True(t, bytes.Equal(want, out.Bytes()))
	}
}

func TestRestoreRefuses(t *testing.T) {
	f := mustOpen(t, keptBytes(t)["sources.demi"])
	list, err := f.Sources()
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, list[0].Restore(&out, f))
	require.Equal(t, append(append(append([]byte("0123456789abcdef"), dataOf(t, f, 1)...), 0), append(dataOf(t, f, 0), 0, 0)...), out.Bytes())
	require.NoError(t, list[1].Restore(&out, f))

	h := list[1]
	h.SHA256[0]++
	require.ErrorIs(t, h.Restore(&out, f), format.ErrChecksum)
	h = list[0]
	h.Tensors = []format.SourceTensor{{Name: "zz", Offset: 16}}
	require.ErrorContains(t, h.Restore(&out, f), `"zz" is not there`)
	h.Tensors = []format.SourceTensor{{Name: "b", Offset: 16}, {Name: "a", Offset: 20}}
	require.ErrorContains(t, h.Restore(&out, f), "byte 20 comes after byte 23")
	h.Tensors = []format.SourceTensor{{Name: "b", Offset: 28}}
	require.ErrorContains(t, h.Restore(&out, f), "byte 30 comes after byte 35")
}
