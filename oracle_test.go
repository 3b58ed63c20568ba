package demi_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/charlm"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// TestBytesAreNumPys converts the trained checkpoint, as safetensors and as
// GGUF, both written by other programs, and compares the hash of every
// tensor's bytes with that of NumPy's and ml_dtypes' conversion.
func TestBytesAreNumPys(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(charlmDir, "oracle.json"))
	require.NoError(t, err)
	var oracle map[string]map[string]map[string]any
	require.NoError(t, json.Unmarshal(raw, &oracle))
	require.Len(t, oracle, 2)
	for _, x := range []struct {
		key   string
		dtype tensor.DType
		round kernels.Rounding
	}{
		{"bf16", tensor.BF16, kernels.NearestEven}, {"f16", tensor.F16, kernels.NearestEven},
		{"bf16_zero", tensor.BF16, kernels.TowardZero}, {"f16_zero", tensor.F16, kernels.TowardZero},
		{"f32", tensor.F32, kernels.NearestEven},
	} {
		for file, hashes := range oracle {
			t.Run(file+"/"+x.key, func(t *testing.T) {
				dst := filepath.Join(t.TempDir(), "out"+filepath.Ext(file))
				_, err := convertFile(t, filepath.Join(charlmDir, file), dst,
					demi.Options{Target: demi.To(x.dtype), Rounding: x.round, Pure: true}, nil)
				require.NoError(t, err)
				out := values(t, open(t, dst).Source())
				require.Len(t, out, len(hashes))
				for name, b := range out {
					sum := sha256.Sum256(b)
					require.Equal(t, hashes[name][x.key], hex.EncodeToString(sum[:]), name)
				}
			})
		}
	}
}

// TestBytesOfRealWeights compares every value of real checkpoints with
// x448/float16 and with BF16 rounding written for this test.
func TestBytesOfRealWeights(t *testing.T) {
	for _, path := range realWeights(t) {
		for _, to := range []tensor.DType{tensor.F16, tensor.BF16} {
			t.Run(fmt.Sprint(filepath.Base(path), to), func(t *testing.T) {
				c := open(t, path)
				before := values(t, c.Source())
				out, records := mustConvert(t, c, demi.Options{Target: demi.To(to), Pure: true})
				after := values(t, parse(t, out))
				for _, r := range records {
					if r.From != "F32" {
						continue
					}
					compareValues(t, r.Name, to, before[r.Name], after[r.Name])
				}
			})
		}
	}
}

func compareValues(t *testing.T, name string, to tensor.DType, before, after []byte) {
	t.Helper()
	require.Len(t, after, len(before)/2, name)
	for i := range len(before) / 4 {
		x := binary.LittleEndian.Uint32(before[4*i:])
		got := binary.LittleEndian.Uint16(after[2*i:])
		want := uint16(float16.Fromfloat32(math.Float32frombits(x)))
		if to == tensor.BF16 {
			want = nearestBF16(x)
		}
		if got != want {
			t.Fatalf("%s[%d]: %#08x became %#04x, want %#04x", name, i, x, got, want)
		}
	}
}

// nearestBF16 tries the two neighbours of a number and takes the nearer one,
// or the even one. It is not for NaN, nor for values that overflow.
func nearestBF16(x uint32) uint16 {
	low, high := uint16(x>>16), uint16(x>>16)+1
	value := func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }
	f := float64(math.Float32frombits(x))
	below, above := math.Abs(f-value(low)), math.Abs(value(high)-f)
	if below < above || below == above && low%2 == 0 {
		return low
	}
	return high
}

// TestHeldOutLoss runs the converted model on text that it was not trained on.
// The tolerances are about ten times what was measured.
func TestHeldOutLoss(t *testing.T) {
	m, err := charlm.Load(charlmDir)
	require.NoError(t, err)
	for _, x := range []struct {
		dtype     tensor.DType
		round     kernels.Rounding
		tolerance float64
	}{
		{tensor.F32, kernels.NearestEven, 1e-5},
		{tensor.F16, kernels.NearestEven, 5e-5},
		{tensor.BF16, kernels.NearestEven, 5e-4},
		{tensor.BF16, kernels.Stochastic, 1e-3},
	} {
		out, _ := mustConvert(t, open(t, filepath.Join(charlmDir, "model.safetensors")),
			demi.Options{Target: demi.To(x.dtype), Rounding: x.round, Seed: 1})
		c := demi.FromSource(parse(t, out), demi.Safetensors)
		loss := heldOutLoss(t, m, c)
		t.Logf("%v %v: loss %.6f, %+.6f", x.dtype, x.round, loss, loss-m.HeldOut.SubsetLoss)
		require.InDelta(t, m.HeldOut.SubsetLoss, loss, x.tolerance, "%v %v", x.dtype, x.round)
	}
}

// heldOutLoss runs the weights of c.
func heldOutLoss(t *testing.T, m *charlm.Model, c *demi.Checkpoint) float64 {
	t.Helper()
	loss, err := m.Loss(func(name string) ([]float32, error) {
		w, ok := c.Tensor(name)
		if !ok {
			return nil, fmt.Errorf("no tensor %q", name)
		}
		x := make([]float32, w.Info().Elements())
		return x, w.Float32s(x, 0)
	})
	require.NoError(t, err)
	return loss
}
