package dequant_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/dequant"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

const samples = "../../testdata/dequant"

func openSafetensors(t testing.TB, name string) tensor.Source {
	s, err := safetensors.Open(filepath.Join(samples, name), nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func openGGUF(t testing.TB) tensor.Source {
	s, err := gguf.Open(filepath.Join(samples, "quantised.gguf"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func read(t testing.TB, s tensor.Source) map[string][]byte {
	all := map[string][]byte{}
	for i, in := range s.Tensors() {
		p := make([]byte, in.Size)
		require.NoError(t, tensor.ReadFull(s, i, p, 0))
		all[in.Name] = p
	}
	return all
}

func shapes(s tensor.Source) map[string][]int64 {
	all := map[string][]int64{}
	for _, in := range s.Tensors() {
		all[in.Name] = in.Shape
	}
	return all
}

// sameFloats compares to the bit, but for the bits of NaN.
func sameFloats(t testing.TB, want, got []byte, name string) {
	require.Len(t, got, len(want), name)
	for i := 0; i < len(want); i += 4 {
		x, y := binary.LittleEndian.Uint32(want[i:]), binary.LittleEndian.Uint32(got[i:])
		f, g := math.Float32frombits(x), math.Float32frombits(y)
		if x != y && !(f != f && g != g) {
			require.Failf(t, "different", "%s: element %d is %v (%08x), want %v (%08x)", name, i/4, g, y, f, x)
		}
	}
}

// The values are those of gguf-py, NumPy and ml_dtypes.
func TestValues(t *testing.T) {
	for name, src := range map[string]tensor.Source{
		"quantised.safetensors":     openGGUF(t),
		"float8-values.safetensors": openSafetensors(t, "float8.safetensors"),
	} {
		s, err := dequant.New(src, dequant.Options{})
		require.NoError(t, err)
		expected := openSafetensors(t, name)
		require.Equal(t, shapes(expected), shapes(s))
		got := read(t, s)
		for tensor, want := range read(t, expected) {
			sameFloats(t, want, got[tensor], tensor)
		}
		require.Empty(t, s.Kept())
	}
}

func TestNames(t *testing.T) {
	s, err := dequant.New(openSafetensors(t, "float8.safetensors"), dequant.Options{})
	require.NoError(t, err)
	require.Equal(t, "F8_E5M2", s.From("w"))
	require.Empty(t, s.From("norm.weight"))
	require.Contains(t, s.Scales(), "block.weight_scale_inv")
	require.Contains(t, s.Scales(), "comfy.scale_weight")
	require.Contains(t, s.Scales(), "scaled_fp8")
	require.NotContains(t, s.Scales(), "tensor.input_scale", "it scales what comes in, not the weights")
	require.Len(t, s.Scales(), 15)
}

// Any part of a tensor reads as that part of the whole.
func TestReadAt(t *testing.T) {
	for _, src := range []tensor.Source{openGGUF(t), openSafetensors(t, "float8.safetensors")} {
		s, err := dequant.New(src, dequant.Options{})
		require.NoError(t, err)
		whole := read(t, s)
		for i, in := range s.Tensors() {
			r, want := s.Data(i), whole[in.Name]
			for off := int64(0); off < in.Size; off += 1 + off/7 {
				p := make([]byte, min(in.Size-off, 1+off%1031))
				n, err := r.ReadAt(p, off)
				require.Equal(t, len(p), n)
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
				}
				require.True(t, bytes.Equal(want[off:off+int64(n)], p), "%s: %d bytes at %d", in.Name, n, off)
			}
			n, err := r.ReadAt(make([]byte, 10), in.Size-3)
			require.Equal(t, 3, n)
			require.Equal(t, io.EOF, err)
			_, err = r.ReadAt(make([]byte, 1), in.Size)
			require.Equal(t, io.EOF, err)
			_, err = r.ReadAt(make([]byte, 1), -1)
			require.Error(t, err)
		}
	}
}

// A store says itself how large the blocks of a type are, and may lie.
func TestForeignBlocks(t *testing.T) {
	for _, block := range [][2]int64{{0, 0}, {32, 0}, {0, 34}, {1 << 40, 34}, {64, 34}, {32, 18}} {
		lie := tensor.Info{Name: "w", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q8_0", ID: 8, BlockElems: block[0], BlockBytes: block[1]},
			Shape: []int64{max(block[0], 32)}, Size: max(block[1], 34)}
		_, err := dequant.New(zeros{lie}, dequant.Options{})
		require.ErrorIs(t, err, tensor.ErrFormat, "%v", block)
	}
	s, err := dequant.New(zeros{{Name: "w", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q8_0", BlockElems: 32, BlockBytes: 34}, Shape: []int64{32}, Size: 34}}, dequant.Options{})
	require.NoError(t, err)
	require.Equal(t, make([]byte, 128), read(t, s)["w"])
}

// zeros has tensors of zeros.
type zeros []tensor.Info

func (s zeros) Tensors() []tensor.Info    { return s }
func (s zeros) Data(i int) io.ReaderAt    { return bytes.NewReader(make([]byte, s[i].Size)) }
func (s zeros) Meta() tensor.Metadata     { return nil }
func (s zeros) Place(int) (string, int64) { return "memory", 0 }
func (s zeros) Close() error              { return nil }

// A summed source has a sum for each tensor: its number.
type summed struct{ tensor.Source }

type sum struct {
	tensor.Sum
	of int
}

func (summed) Sums(i int) ([]tensor.Sum, bool) { return []tensor.Sum{sum{of: i}}, true }
func (summed) OtherSums() []tensor.Sum         { return []tensor.Sum{sum{of: -1}} }

// What is decoded has the checksums of its values and of its scales, none of
// which is that of the decoded bytes.
func TestSums(t *testing.T) {
	under := openSafetensors(t, "float8.safetensors")
	s, err := dequant.New(summed{under}, dequant.Options{})
	require.NoError(t, err)
	seen := map[int]bool{}
	for i, in := range s.Tensors() {
		sums, whole := s.Sums(i)
		require.Equal(t, s.From(in.Name) == "", whole, in.Name)
		require.Equal(t, in.Name, under.Tensors()[sums[0].(sum).of].Name)
		require.Len(t, sums, map[bool]int{true: 1, false: 2}[whole], in.Name)
		for _, x := range sums {
			seen[x.(sum).of] = true
		}
	}
	for i, in := range under.Tensors() {
		require.True(t, seen[i] || strings.HasSuffix(in.Name, "scaled_fp8"), in.Name)
	}
	require.Equal(t, []tensor.Sum{sum{of: -1}}, s.OtherSums())
}
