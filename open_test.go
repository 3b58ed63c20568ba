package demi_test

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// TestOpenIsTheSame opens one model in every way it is stored.
// TestDamagedSignature: a store that came through a transfer as text is still
// said to be one.
func TestDamagedSignature(t *testing.T) {
	p, err := os.ReadFile("testdata/demi/v1/scalar.demi")
	require.NoError(t, err)
	for _, head := range []string{"\x09Demi\r\n\x1a\n", "\x89Demi\n\x1a\n", "\xc2\x89Demi\r\n\x1a\n", "\xef\xbf\xbdDemi\r\n\x1a\n"} {
		name := filepath.Join(t.TempDir(), "m.demi")
		require.NoError(t, os.WriteFile(name, append([]byte(head), p[9:]...), 0o600))
		_, err := demi.Open(name, nil)
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.ErrorContains(t, err, "a Demi store whose signature is damaged")
	}
}

func TestOpenIsTheSame(t *testing.T) {
	want := values(t, open(t, filepath.Join(charlmDir, "model.safetensors")).Source())
	require.Len(t, want, 30)
	sharded := filepath.Join(charlmDir, "sharded")
	shards, err := filepath.Glob(filepath.Join(sharded, "*.safetensors"))
	require.NoError(t, err)
	require.Greater(t, len(shards), 1)
	for _, path := range append(shards, sharded, filepath.Join(sharded, "model.safetensors.index.json")) {
		c := open(t, path)
		require.Equal(t, demi.Safetensors, c.Format())
		require.Len(t, c.Sections(), len(shards))
		require.Equal(t, want, values(t, c.Source()), path)
	}
	c := open(t, filepath.Join(charlmDir, "model.gguf"))
	require.Equal(t, demi.GGUF, c.Format())
	require.Equal(t, 30, c.Len())
	q, ok := c.Tensor("token_embd.weight")
	require.True(t, ok)
	require.Equal(t, int64(len(want["model.embed_tokens.weight"])), q.Info().Size)
}

func TestSectionsAddUp(t *testing.T) {
	for _, path := range []string{"model.safetensors", "model.gguf", "sharded"} {
		c := open(t, filepath.Join(charlmDir, path))
		for _, s := range c.Sections() {
			info, err := os.Stat(s.File)
			require.NoError(t, err)
			require.Equal(t, info.Size(), s.Size)
			require.Equal(t, s.Size, s.Header+s.Tensors+s.Extra)
			require.GreaterOrEqual(t, s.Extra, int64(0))
		}
	}
}

func TestOpenTellsByContent(t *testing.T) {
	dir := t.TempDir()
	gguf, err := os.ReadFile(filepath.Join(charlmDir, "model.gguf"))
	require.NoError(t, err)
	path := filepath.Join(dir, "misnamed.safetensors")
	require.NoError(t, os.WriteFile(path, gguf, 0o666))
	require.Equal(t, demi.GGUF, open(t, path).Format())

	_, err = demi.Open(filepath.Join(dir, "missing"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = demi.Open(t.TempDir(), nil)
	require.Error(t, err, "an empty directory")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.gguf"), gguf, 0o666))
	_, err = demi.Open(dir, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "name one")
	_, err = demi.Open(os.DevNull, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

func TestTensorReads(t *testing.T) {
	x := weights(200_000, 1)
	m := new(mem).f32("a", x...).f64("d", 0.1, 1).zeros("i", tensor.I32, 4)
	c := m.checkpoint()
	a, ok := c.Tensor("a")
	require.True(t, ok)
	got := make([]float32, 150_000)
	require.NoError(t, a.Float32s(got, 50_000))
	require.Equal(t, x[50_000:], got)
	require.NoError(t, a.Float32s(nil, 200_000))
	require.Error(t, a.Float32s(got, 50_001))
	require.Error(t, a.Float32s(got, -1))
	require.Error(t, a.Float32s(got[:1], math.MaxInt64))

	for _, to := range []tensor.DType{tensor.BF16, tensor.F16} {
		file, _ := mustConvert(t, c, demi.Options{Target: demi.To(to), Pure: true})
		h, ok := demi.FromSource(parse(t, file), demi.Safetensors).Tensor("a")
		require.True(t, ok)
		half, want := make([]uint16, len(x)), make([]float32, len(x))
		if to == tensor.F16 {
			kernels.F32ToF16(half, x, kernels.Mode{})
			kernels.F16ToF32(want, half)
		} else {
			kernels.F32ToBF16(half, x, kernels.Mode{})
			kernels.BF16ToF32(want, half)
		}
		wide := make([]float32, len(x))
		require.NoError(t, h.Float32s(wide, 0))
		require.Equal(t, want, wide)
	}
	d, _ := c.Tensor("d")
	two := make([]float32, 2)
	require.NoError(t, d.Float32s(two, 0))
	require.Equal(t, []float32{0.1, 1}, two)
	i, _ := c.Tensor("i")
	require.ErrorIs(t, i.Float32s(two, 0), tensor.ErrUnsupported)
	_, ok = c.Tensor("nothing")
	require.False(t, ok)

	p := make([]byte, 8)
	n, err := a.ReadAt(p, a.Info().Size-4)
	require.Equal(t, 4, n)
	require.Equal(t, io.EOF, err)
}

func TestConcurrentReadsAndClose(t *testing.T) {
	c, err := demi.Open(filepath.Join(charlmDir, "sharded"), nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			buf := make([]float32, 128)
			for range 20 {
				for x := range c.Tensors() {
					if x.Float32s(buf, 0) != nil {
						return
					}
				}
			}
		})
	}
	c.Close()
	wg.Wait()
	x, _ := c.Tensor("model.norm.weight")
	require.ErrorIs(t, x.Float32s(make([]float32, 1), 0), fs.ErrClosed)
}
