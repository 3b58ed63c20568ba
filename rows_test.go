package demi_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// A typed is a Source whose tensors have the descriptions given.
type typed struct {
	*mem
	infos []tensor.Info
}

func (s *typed) Tensors() []tensor.Info { return s.infos }

// typedTensor is a tensor of that description in a checkpoint of its own; its
// bytes count up.
func typedTensor(in tensor.Info) *demi.Tensor {
	data := make([]byte, in.Size)
	for i := range data {
		data[i] = byte(i)
	}
	c := demi.FromSource(&typed{new(mem).add(memTensor{data: data}), []tensor.Info{in}}, demi.Safetensors)
	return first(c)
}

var (
	q4 = tensor.Foreign{Name: "Q4_0", ID: 2, BlockElems: 32, BlockBytes: 18}
	q6 = tensor.Foreign{Name: "Q6_K", ID: 14, BlockElems: 256, BlockBytes: 210}
)

func TestRows(t *testing.T) {
	for _, c := range []struct {
		in         tensor.Info
		rows, size int64
		refused    string
	}{
		{tensor.Info{DType: tensor.F32, Shape: []int64{5, 2, 3}, Size: 120}, 5, 24, ""},
		{tensor.Info{DType: tensor.BF16, Shape: []int64{7}, Size: 14}, 7, 2, ""},
		{tensor.Info{DType: tensor.Bool, Shape: []int64{0, 9}}, 0, 9, ""},
		{tensor.Info{DType: tensor.F64, Shape: []int64{3, 0}}, 3, 0, ""},
		{tensor.Info{DType: tensor.F4, Shape: []int64{3, 2}, Size: 3}, 3, 1, ""},
		{tensor.Info{DType: tensor.F6E2M3, Shape: []int64{2, 4}, Size: 6}, 2, 3, ""},
		{tensor.Info{DType: tensor.Opaque, Foreign: q4, Shape: []int64{4, 64}, Size: 144}, 4, 36, ""},
		{tensor.Info{DType: tensor.Opaque, Foreign: q6, Shape: []int64{2, 2, 256}, Size: 840}, 2, 420, ""},

		{tensor.Info{DType: tensor.F32, Size: 4}, 0, 0, "no dimensions"},
		{tensor.Info{DType: tensor.F4, Shape: []int64{2, 3}, Size: 3}, 0, 0, "rows of shape [3] of F4 are not whole bytes"},
		{tensor.Info{DType: tensor.F6E3M2, Shape: []int64{4}, Size: 3}, 0, 0, "rows of shape [] of F6_E3M2 are not whole bytes"},
		{tensor.Info{DType: tensor.Opaque, Foreign: q4, Shape: []int64{64}, Size: 36}, 0, 0, "rows of shape [] of Q4_0 are not whole blocks of 32"},
		{tensor.Info{DType: tensor.Opaque, Foreign: q4, Shape: []int64{8, 16}, Size: 72}, 0, 0, "rows of shape [16] of Q4_0 are not whole blocks of 32"},
		{tensor.Info{DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "ggml_type_77", ID: 77}, Shape: []int64{8, 16}, Size: 72}, 0, 0, "blocks of type ggml_type_77 are not known"},
		{tensor.Info{DType: tensor.U8, Shape: []int64{0, math.MaxInt64, 3}}, 0, 0, "are not whole bytes"},
		{tensor.Info{DType: tensor.Invalid, Shape: []int64{1}}, 0, 0, "are not whole bytes"},
	} {
		c.in.Name = "x"
		x := typedTensor(c.in)
		rows, size, err := x.Rows()
		if c.refused != "" {
			require.ErrorIs(t, err, tensor.ErrUnsupported)
			require.ErrorContains(t, err, `tensor "x": not supported: no rows to read: `)
			require.ErrorContains(t, err, c.refused)
			require.ErrorIs(t, x.ReadRows(nil, 0), tensor.ErrUnsupported)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int64{c.rows, c.size}, []int64{rows, size}, c.in.TypeName())
		requireRows(t, x, rows, size)
	}
}

// requireRows reads every run of rows, and asks for what there is not.
func requireRows(t *testing.T, x *demi.Tensor, rows, size int64) {
	t.Helper()
	for from := range rows {
		for to := from; to <= rows; to++ {
			p := make([]byte, (to-from)*size)
			require.NoError(t, x.ReadRows(p, from))
			for i, b := range p {
				require.Equal(t, byte(int(from*size)+i), b)
			}
		}
	}
	require.NoError(t, x.ReadRows(nil, rows))
	for _, from := range []int64{-1, rows + 1, math.MaxInt64, math.MinInt64} {
		require.ErrorContains(t, x.ReadRows(nil, from), fmt.Sprintf("rows %d to %d of %d", from, from, rows))
	}
	if size > 1 {
		require.ErrorContains(t, x.ReadRows(make([]byte, size+1), 0), "is not whole rows")
	}
	require.Error(t, x.ReadRows(make([]byte, rows*size+max(size, 1)), 0))
}

// TestBlock: number and geometry of a type come through every container.
func TestBlock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	infos := []tensor.Info{
		{Name: "q4", DType: tensor.Opaque, Foreign: q4, Shape: []int64{3, 64}, Size: 108},
		{Name: "q6", DType: tensor.Opaque, Foreign: q6, Shape: []int64{256}, Size: 210},
		{Name: "h", DType: tensor.BF16, Shape: []int64{2}, Size: 4},
	}
	sink := gguf.Create(path, nil)
	require.NoError(t, sink.Begin(infos, nil))
	for i, in := range infos {
		require.NoError(t, sink.Write(i, 0, bytes.Repeat([]byte{byte(i)}, int(in.Size))))
	}
	require.NoError(t, sink.Finish(nil))
	store := filepath.Join(dir, "m.demi")
	_, err := convertFile(t, path, store, demi.Options{Target: demi.Keep, Format: demi.Demi}, nil)
	require.NoError(t, err)
	for _, path := range []string{path, store} {
		c := open(t, path)
		for name, want := range map[string]tensor.Foreign{"q4": q4, "q6": q6, "h": {Name: "BF16", ID: 30, BlockElems: 1, BlockBytes: 2}} {
			x, ok := c.Tensor(name)
			require.True(t, ok)
			got, ok := x.Block()
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		x, _ := c.Tensor("q4")
		row := make([]byte, 36)
		require.NoError(t, x.ReadRows(row, 2))
		require.Equal(t, make([]byte, 36), row)
	}
}

// TestBlockOfSafetensors: a name that ggml has counts if the size is right.
func TestBlockOfSafetensors(t *testing.T) {
	header := `{"a":{"dtype":"Q4_0","shape":[2,32],"data_offsets":[0,36]},"b":{"dtype":"Q4_0","shape":[2,32],"data_offsets":[36,73]},` +
		`"c":{"dtype":"Q4_0","shape":[31],"data_offsets":[73,91]},"d":{"dtype":"F8_NEW","shape":[2],"data_offsets":[91,93]},"e":{"dtype":"U8","shape":[1],"data_offsets":[93,94]},` +
		`"f":{"dtype":"I8","shape":[1],"data_offsets":[94,95]}}`
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, os.WriteFile(path, append(file, make([]byte, 95)...), 0o666))
	c, err := demi.Open(path, &demi.OpenOptions{Lenient: true})
	require.NoError(t, err)
	defer c.Close()
	for name, want := range map[string]tensor.Foreign{"a": q4, "b": {}, "c": {}, "d": {}, "e": {}, "f": {Name: "I8", ID: 24, BlockElems: 1, BlockBytes: 1}} {
		x, ok := c.Tensor(name)
		require.True(t, ok)
		got, ok := x.Block()
		require.Equal(t, want, got, name)
		require.Equal(t, want.Name != "", ok)
	}
}
