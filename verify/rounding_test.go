package verify_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func explain(t *testing.T, x []float32, to tensor.DType, got []byte, workers int) *verify.Explanation {
	t.Helper()
	n := int64(len(x))
	r := measure(t, new(source).add("w", tensor.F32, bytes32(x), n), new(source).add("w", to, got, n), verify.Options{Explain: true, Workers: workers})
	return r.Explanations[0]
}

// Each rounding is found from its output alone, with values beyond the range
// and below it.
func TestRoundingIsFound(t *testing.T) {
	x := gauss(4, 200_001, 0.02)
	x[3], x[70_000], x[70_001] = 1e6, -3e38, 3.4e38
	x[5], x[150_000] = 1e-7, -3e-39
	x[9] = 1.0009765625 + 1.0/2048 // a tie of F16
	x[10] = 1 + 1.0/256            // a tie of BF16
	for _, to := range []tensor.DType{tensor.F16, tensor.BF16} {
		for _, name := range verify.Roundings() {
			if name == "faithful" {
				continue
			}
			got := narrow(to, x, modeOf(t, name))
			for _, workers := range []int{1, 5} {
				e := explain(t, x, to, got, workers)
				require.Contains(t, e.Rules, name, "%v", to)
				require.Nil(t, e.Deviation)
				require.NotContains(t, e.Rules, map[bool]string{true: "nearest-away", false: "nearest-even"}[name == "nearest-even"])
			}
		}
		stochastic := narrow(to, x, kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.NewStream(1, "w")})
		require.Equal(t, []string{"faithful"}, explain(t, x, to, stochastic, 3).Rules)
	}
}

func modeOf(t *testing.T, name string) (m kernels.Mode) {
	t.Helper()
	for _, suffix := range []string{"+flush", "+saturate"} {
		if n := len(name) - len(suffix); n > 0 && name[n:] == suffix {
			name = name[:n]
			m.Flush, m.Saturate = m.Flush || suffix == "+flush", m.Saturate || suffix == "+saturate"
		}
	}
	var err error
	m.Rounding, err = kernels.ParseRounding(name)
	require.NoError(t, err)
	return m
}

// One value that no rounding gives is found, with what it should be.
func TestDeviationIsNamed(t *testing.T) {
	x := gauss(5, 300_000, 0.02)
	got := narrow(tensor.BF16, x, kernels.Mode{})
	const at = 234_567
	want := math.Float32frombits(uint32(binary.LittleEndian.Uint16(got[2*at:])) << 16)
	got[2*at] ^= 0x40
	e := explain(t, x, tensor.BF16, got, 4)
	require.Empty(t, e.Rules)
	require.EqualValues(t, at, e.Deviation.Index)
	require.Equal(t, float64(x[at]), e.Deviation.Ref)
	require.InDelta(t, float64(x[at]), float64(want), 1e-3)
	require.Equal(t, explain(t, x, tensor.BF16, got, 1), e)
	// Of faithful and nearest-even, which both go on until there, the first is named.
	require.Equal(t, "nearest-even", e.Deviation.Rule)
	require.Equal(t, float64(want), e.Deviation.Want)
}

// What comes back to the bit is explained by everything, and NaN by NaN.
func TestExactIsExplainedByAll(t *testing.T) {
	x := []float32{1, -2, 0.5, float32(math.Inf(-1)), math.Float32frombits(0x7fc12345)}
	got := narrow(tensor.BF16, x, kernels.Mode{})
	binary.LittleEndian.PutUint16(got[8:], 0xffff) // as torch 1.13 writes NaN
	require.Equal(t, verify.Roundings(), explain(t, x, tensor.BF16, got, 1).Rules)
	require.Equal(t, []string{"nearest-even", "nearest-away", "zero", "up", "down"}, verify.Simplest(verify.Roundings()))
	require.Equal(t, []string{"up+flush"}, verify.Simplest([]string{"up+flush", "faithful"}))
	require.Equal(t, []string{"faithful"}, verify.Simplest([]string{"faithful"}))
}

// Rules of a checkpoint are those that all tensors have in common.
func TestExplainedIsWhatAllHaveInCommon(t *testing.T) {
	x := gauss(6, 1000, 0.02)
	h := func(r kernels.Rounding) []byte { return narrow(tensor.F16, x, kernels.Mode{Rounding: r}) }
	ref := new(source).add("a", tensor.F32, bytes32(x), 1000).add("i", tensor.I32, bytes32(x), 1000).add("b", tensor.F32, bytes32(x), 1000)
	same := new(source).add("a", tensor.F16, h(kernels.Down), 1000).add("i", tensor.I32, bytes32(x), 1000).add("b", tensor.F16, h(kernels.Down), 1000)
	rules, first := measure(t, ref, same, verify.Options{Explain: true}).Explained()
	require.Empty(t, first)
	require.Equal(t, []string{"down"}, verify.Simplest(rules))
	mixed := new(source).add("a", tensor.F16, h(kernels.Down), 1000).add("i", tensor.I32, bytes32(x), 1000).add("b", tensor.F16, h(kernels.Up), 1000)
	rules, first = measure(t, ref, mixed, verify.Options{Explain: true}).Explained()
	require.Empty(t, first)
	require.Equal(t, []string{"faithful"}, rules)
	mixed.data[2][500] ^= 0x80
	rules, first = measure(t, ref, mixed, verify.Options{Explain: true}).Explained()
	require.Empty(t, rules)
	require.Equal(t, "b", first)
}
