package safetensors_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// manyInfos returns n tensors with names as models have them, each of 4 KiB
// that no file needs to have.
func manyInfos(n int) []tensor.Info {
	infos := make([]tensor.Info, n)
	for i := range infos {
		infos[i] = tensor.Info{Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/256, i%256),
			DType: tensor.F32, Shape: []int64{32, 32}, Size: 4096}
	}
	return infos
}

// sparse is a file of which the header alone is stored; the rest reads as 0.
type sparse struct{ head []byte }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	return len(p), nil
}

func manyTensors(t testing.TB, n int) (sparse, int64) {
	t.Helper()
	l, err := safetensors.Plan(manyInfos(n), nil, nil)
	require.NoError(t, err)
	return sparse{l.Header}, l.Size
}

// TestOpenManyTensors: 100,000 tensors take less than 10 times the header's
// size in memory.
func TestOpenManyTensors(t *testing.T) {
	r, size := manyTensors(t, 100_000)
	header := uint64(len(r.head))
	total := allocated(func() {
		f, err := safetensors.NewFile(r, size, nil)
		require.NoError(t, err)
		require.Len(t, f.Tensors(), 100_000)
	})
	require.Less(t, total, 10*header, "all that was ever allocated")
	t.Logf("header of %d bytes, %.1f times that allocated", header, float64(total)/float64(header))
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{5, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, size := manyTensors(b, n)
			b.SetBytes(int64(len(r.head)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := safetensors.NewFile(r, size, nil)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkOpenFile5(b *testing.B) {
	name := filepath.Join(b.TempDir(), "a.safetensors")
	r, size := manyTensors(b, 5)
	p := make([]byte, size)
	_, err := r.ReadAt(p, 0)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(name, p, 0o600))
	for b.Loop() {
		f, err := safetensors.Open(name, nil)
		require.NoError(b, err)
		f.Close()
	}
}

func BenchmarkPlan(b *testing.B) {
	infos := manyInfos(100_000)
	b.ReportAllocs()
	for b.Loop() {
		_, err := safetensors.Plan(infos, nil, nil)
		require.NoError(b, err)
	}
}

// BenchmarkStream reads the tensors of a file of 2 GiB, beside plain reads of
// the same ranges.
func BenchmarkStream(b *testing.B) {
	const tensors, block = 8, 512 << 10
	size := int64(256 << 20)
	infos := make([]tensor.Info, tensors)
	for i := range infos {
		infos[i] = tensor.Info{Name: fmt.Sprint(i), DType: tensor.F32, Shape: []int64{size / 4}, Size: size}
	}
	name := filepath.Join(b.TempDir(), "a.safetensors")
	sink := safetensors.Create(name, nil)
	require.NoError(b, sink.Begin(infos, nil))
	buf := make([]byte, block)
	for i := range infos {
		for off := int64(0); off < size; off += block {
			require.NoError(b, sink.Write(i, off, buf))
		}
	}
	require.NoError(b, sink.Finish(nil))
	f, err := safetensors.Open(name, nil)
	require.NoError(b, err)
	defer f.Close()
	plain, err := os.Open(name)
	require.NoError(b, err)
	defer plain.Close()
	stream := func(data func(i int) (io.ReaderAt, int64)) func(*testing.B) {
		return func(b *testing.B) {
			b.SetBytes(tensors * size)
			for b.Loop() {
				for i := range infos {
					r, from := data(i)
					for off := int64(0); off < size; off += block {
						_, err := r.ReadAt(buf, from+off)
						require.NoError(b, err)
					}
				}
			}
		}
	}
	b.Run("tensors", stream(func(i int) (io.ReaderAt, int64) { return f.Data(i), 0 }))
	b.Run("pread", stream(func(i int) (io.ReaderAt, int64) {
		_, off := f.Place(i)
		return plain, off
	}))
}
