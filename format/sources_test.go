package format_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
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

func sources(list ...format.SourceHeader) func() ([]format.SourceHeader, error) {
	return func() ([]format.SourceHeader, error) { return list, nil }
}

func TestSourcesThatCannotBe(t *testing.T) {
	m := keptSet()
	name := filepath.Join(t.TempDir(), "a.demi")
	bad := format.SourceHeader{Name: "s", Bytes: []byte("header"), Tensors: []format.SourceTensor{{Name: "x", Offset: 5}}}
	require.ErrorContains(t, m.write(format.Create(name, &format.WriteOptions{Sources: sources(bad)}), 1<<20), `"x" at 5 overlaps`)
	failing := func() ([]format.SourceHeader, error) { return nil, io.ErrUnexpectedEOF }
	require.ErrorIs(t, m.write(format.Create(name, &format.WriteOptions{Sources: failing}), 1<<20), io.ErrUnexpectedEOF)
	require.NoFileExists(t, name)
}

// TestSetInParts: a set that an earlier run has written in part is completed,
// with the same bytes as one that was written at once.
func TestSetInParts(t *testing.T) {
	m := keptSet()
	whole, parts := t.TempDir(), t.TempDir()
	require.NoError(t, m.write(format.CreateSet(whole, "m", 132, nil), 1<<20))
	s := format.CreateSet(parts, "m", 132, nil)
	files, err := s.Files(m.infos, m.meta)
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.Error(t, s.FinishFile(0, nil), "its tensors have not come")
	for i := range files[0].To {
		require.NoError(t, s.Write(i, 0, m.data[i]))
	}
	require.NoError(t, s.FinishFile(0, nil))
	require.Error(t, s.FinishFile(0, nil))
	require.FileExists(t, filepath.Join(parts, files[0].Name))
	s.Abort()

	s = format.CreateSet(parts, "m", 132, nil)
	_, err = s.Files(m.infos, m.meta)
	require.NoError(t, err)
	s.Keep(0)
	require.NoError(t, s.Begin(m.infos, m.meta))
	for i := files[0].To; i < len(m.infos); i++ {
		require.NoError(t, s.Write(i, 0, m.data[i]))
	}
	require.NoError(t, s.Finish(nil))
	require.Equal(t, dirBytes(t, whole), dirBytes(t, parts))
}

// TestKeptFileOfAnotherSet: a file that is there but of other values than those
// that are written is not taken.
func TestKeptFileOfAnotherSet(t *testing.T) {
	m, other := keptSet(), keptSet()
	other.data[0] = make([]byte, len(m.data[0]))
	dir := t.TempDir()
	require.NoError(t, other.write(format.CreateSet(dir, "m", 50, nil), 1<<20))
	s := format.CreateSet(dir, "m", 50, nil)
	_, err := s.Files(m.infos, m.meta)
	require.NoError(t, err)
	s.Keep(1)
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.NoError(t, s.Write(0, 0, m.data[0]))
	require.NoError(t, s.Write(2, 0, m.data[2]))
	require.ErrorIs(t, s.Finish(nil), tensor.ErrChanged)
}

func dirBytes(t *testing.T, dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(raw)
	}
	return files
}

func restore(t *testing.T, h format.SourceHeader, src tensor.Source, want []byte) {
	m := &model{infos: src.Tensors(), meta: src.Meta()}
	for i := range m.infos {
		m.data = append(m.data, dataOf(t, src, i))
	}
	o := &format.WriteOptions{Sources: sources(h)}
	dir := t.TempDir()
	require.NoError(t, m.write(format.CreateSet(dir, "one", 0, o), 1<<20))
	require.NoError(t, m.write(format.CreateSet(dir, "many", 132, o), 1<<20))
	for _, path := range []string{"one.demi", "many.demi.index.json"} {
		s, err := format.OpenSet(filepath.Join(dir, path), nil)
		require.NoError(t, err)
		defer s.Close()
		list, err := s.Sources()
		require.NoError(t, err)
		require.Equal(t, []format.SourceHeader{h}, list)
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
	require.ErrorContains(t, h.Restore(&out, f), `"a" at 20 overlaps what is before it, up to 23`)
	h.Tensors = []format.SourceTensor{{Name: "b", Offset: 28}}
	require.ErrorContains(t, h.Restore(&out, f), `"b" of 7 bytes at 28 ends beyond the file, of 30`)
	require.ErrorIs(t, h.Restore(&out, f), tensor.ErrFormat)
}

// TestVerifySources: what the sources of a file or a set say of tensors is held
// against these.
func TestVerifySources(t *testing.T) {
	source := func(tensors ...format.SourceTensor) *writeOptions {
		return &writeOptions{Sources: sources(format.SourceHeader{Name: "s", Size: 200, Bytes: []byte("header"), Tensors: tensors})}
	}
	for want, o := range map[string]*writeOptions{
		"":                   source(format.SourceTensor{Name: "a", Offset: 8}, format.SourceTensor{Name: "b", Offset: 88}, format.SourceTensor{Name: "c", Offset: 128}),
		`"b" at 87 overlaps`: source(format.SourceTensor{Name: "a", Offset: 8}, format.SourceTensor{Name: "b", Offset: 87}),
		`"c" of 20 bytes at 181 ends beyond the file, of 200`: source(format.SourceTensor{Name: "c", Offset: 181}),
		`"zz" is not there`: source(format.SourceTensor{Name: "zz", Offset: 8}),
	} {
		dir := t.TempDir()
		for _, limit := range []int64{0, 50} {
			require.NoError(t, keptSet().write(format.CreateSet(dir, "m", limit, o), 1<<20))
			path := filepath.Join(dir, "m.demi")
			if limit > 0 {
				path += ".index.json"
			}
			s, err := format.OpenSet(path, nil)
			require.NoError(t, err)
			defer s.Close()
			if err = s.Verify(t.Context(), 1); want == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, tensor.ErrFormat)
			require.ErrorContains(t, err, want)
			var place *tensor.FileError
			require.ErrorAs(t, err, &place)
		}
	}
}
