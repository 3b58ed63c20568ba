package format_test

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// TestBeginRefuses: all that cannot be written, in one error, before a file is
// made; then Begin may be called again.
func TestBeginRefuses(t *testing.T) {
	infos := []tensor.Info{
		{Name: "twice", DType: tensor.U8, Shape: []int64{1}, Size: 1},
		{Name: "twice", DType: tensor.U8, Shape: []int64{1}, Size: 1},
		{Name: "wrong size", DType: tensor.F32, Shape: []int64{3}, Size: 13},
		{Name: "no type", Shape: []int64{3}, Size: 3},
		{Name: "half a byte", DType: tensor.F4, Shape: []int64{3}, Size: 2},
		{Name: "negative", DType: tensor.U8, Shape: []int64{-3}, Size: -3},
		{Name: "negative opaque", DType: tensor.Opaque, Shape: []int64{3}, Size: -3},
		{Name: "partial block", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q", BlockElems: 32, BlockBytes: 18}, Shape: []int64{33}, Size: 36},
		{Name: "two types", DType: tensor.U8, Foreign: tensor.Foreign{Name: "Q"}, Shape: []int64{1}, Size: 1},
		{Name: "dimensions", DType: tensor.U8, Shape: make([]int64, 1<<16), Size: 0},
		{Name: "too large", DType: tensor.U8, Shape: []int64{math.MaxInt64}, Size: math.MaxInt64},
		{Name: "too large together", DType: tensor.Opaque, Shape: []int64{1 << 62}, Size: 1 << 62},
		{Name: "too large together 2", DType: tensor.Opaque, Shape: []int64{1 << 62}, Size: 1 << 62},
	}
	meta := tensor.Metadata{{Key: "a", Value: 1}, {Key: "b", Value: "x"}, {Key: "b", Value: "x"},
		{Key: "c", Value: tensor.Array{Elem: tensor.KindU32, Len: 2, Raw: make([]byte, 7)}},
		{Key: "d", Value: tensor.Array{Elem: tensor.KindString, Len: 1 << 30, Raw: make([]byte, 8)}},
		{Key: "e", Value: tensor.Array{Elem: tensor.KindArray}}}
	dir := t.TempDir()
	s := format.Create(filepath.Join(dir, "a.demi"), nil)
	err := s.Begin(infos, meta)
	for _, want := range []string{"twice", "wrong size", "no type", "half a byte", "negative", "negative opaque", "partial block", "two types",
		"dimensions", `"too large"`, `"too large together 2"`, `"a" has a value of type int`, `key "b" comes twice`, `"c": `, `"d": `, `"e": `} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), `"too large together":`)
	entries, _ := filepath.Glob(filepath.Join(dir, "*"))
	require.Empty(t, entries)
	require.Error(t, s.Write(0, 0, nil))
	require.Error(t, s.Finish(nil))
	require.Error(t, format.Create("x", &format.WriteOptions{Align: 96}).Begin(nil, nil))
	require.Error(t, format.Create("x", &format.WriteOptions{Align: 128 << 10}).Begin(nil, nil))
	require.Error(t, format.Create("x", &format.WriteOptions{Level: 77}).Begin(nil, nil))
}

// TestOrder: bytes that do not come next are refused, and those that do may
// still come.
// TestIndexTooLong: what readers would not take is refused before there is a
// file.
func TestIndexTooLong(t *testing.T) {
	const size = format.MaxIndex / 8 << 17
	infos := []tensor.Info{{Name: "w", DType: tensor.U8, Shape: []int64{size}, Size: size}}
	dir := t.TempDir()
	err := format.Create(filepath.Join(dir, "a.demi"), nil).Begin(infos, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "readers take 1073741824: write a set")
	require.NoFileExists(t, filepath.Join(dir, "a.demi"))
	infos[0].Size, infos[0].Shape = size/2, []int64{size / 2}
	infos = append(infos, infos[0])
	infos[1].Name = "v"
	require.Error(t, format.Create(filepath.Join(dir, "a.demi"), nil).Begin(infos, nil))
	s := format.CreateSet(dir, "a", size/2, nil)
	require.NoError(t, s.Begin(infos, nil))
	s.Abort()
}

func TestOrder(t *testing.T) {
	m := keptSet()
	var out bytes.Buffer
	s := format.NewWriter(&out, nil)
	require.True(t, s.Ordered())
	require.Error(t, s.Write(0, 0, []byte{1}))
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.Error(t, s.Begin(m.infos, m.meta))
	for _, w := range []struct {
		i   int
		off int64
		n   int
	}{{1, 0, 1}, {0, 1, 1}, {0, 0, 81}, {0, -1, 1}, {-1, 0, 1}, {3, 0, 1}, {0, math.MaxInt64, 1}} {
		require.Error(t, s.Write(w.i, w.off, make([]byte, w.n)), w)
	}
	require.NoError(t, s.Write(0, 0, m.data[0][:5]))
	enc, e := s.NewTileEncoder(), &format.Encoded{}
	require.Error(t, enc.Encode(e, 0, 0, m.data[0][:5]), "no whole tile")
	require.Error(t, enc.Encode(e, 7, 0, nil))
	require.NoError(t, enc.Encode(e, 0, 0, m.data[0]))
	require.Error(t, s.Append(0, 0, e), "some of it has come")
	require.NoError(t, s.Write(0, 5, m.data[0][5:]))
	require.Error(t, s.Append(0, 0, e), "it has come")
	require.NoError(t, enc.Encode(e, 1, 0, m.data[1]))
	require.NoError(t, s.Append(1, 0, e))
	require.NoError(t, s.Write(2, 0, m.data[2]))
	require.NoError(t, s.Finish(nil))
	require.Error(t, s.Finish(nil))
	require.True(t, bytes.Equal(m.bytes(t, nil), out.Bytes()))
}

var errFull = errors.New("disk full")

// A limited writer fails after n bytes.
type limited struct{ n int }

func (w *limited) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteErrors: an error of the output stays, wherever it comes.
func TestWriteErrors(t *testing.T) {
	m := &model{}
	m.add("a", tensor.U8, random(3<<20, 1), 3<<20)
	whole := len(m.bytes(t, nil))
	for n := 0; n < whole; n += 100_000 {
		s := format.NewWriter(&limited{n}, &format.WriteOptions{Level: codec.None})
		require.ErrorIs(t, m.write(s, 1<<17), errFull)
		require.Error(t, s.Finish(nil))
	}
	require.Error(t, m.write(format.Create(filepath.Join(t.TempDir(), "no", "a.demi"), nil), 1<<20))
}
