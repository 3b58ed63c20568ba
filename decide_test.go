package demi_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// decided returns the types and reasons after the values have been looked at.
func decided(t *testing.T, m *mem, o demi.Options) map[string]string {
	t.Helper()
	c := m.checkpoint()
	p, err := demi.NewPlan(c, o)
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	require.Zero(t, p.Undecided())
	got := map[string]string{}
	for _, x := range p.Tensors {
		got[x.In.Name] = x.Out.DType.String() + ": " + x.Reason
	}
	return got
}

func TestExactNarrowsWhatComesBack(t *testing.T) {
	m := new(mem).f32("both", 0, 1, -2.5, float32(math.Inf(1))).
		f32("bf16", 1, 0x1p100, 0x1p-126).
		f32("neither", 1, 1e30, 1.00001).
		f64("f64 fits f32", 1, 1.00000011920928955078125).
		f64("f64 alone", 0.1).
		f64("f64 fits bf16", 1e0, 0x1p100).
		zeros("empty", tensor.F32, 0).
		zeros("i", tensor.I64, 3)
	require.Equal(t, map[string]string{
		"both": "BF16: exact: all values fit BF16", "bf16": "BF16: exact: all values fit BF16",
		"neither":       "F32: exact: of 3 values 2 do not fit BF16, 2 F16",
		"f64 fits f32":  "F32: exact: all values fit F32",
		"f64 alone":     "F64: exact: of 1 values 1 do not fit BF16, 1 F16",
		"f64 fits bf16": "BF16: exact: all values fit BF16",
		"empty":         "BF16: exact: all values fit BF16",
		"i":             "I64: not a float to cast",
	}, decided(t, m, demi.Options{}))
}

func TestExactTakesTheTypeThatSavesMore(t *testing.T) {
	const f16Only, bf16Only = 1 + 0x1p-10, 0x1p100
	m := new(mem).f32("a", f16Only, f16Only, 0).f32("b", bf16Only).f32("c", 1)
	got := decided(t, m, demi.Options{})
	require.Contains(t, got["a"], "F16: ")
	require.Contains(t, got["b"], "F32: ")
	require.Contains(t, got["c"], "F16: ")
	m = new(mem).f32("a", f16Only, f16Only).f32("b", bf16Only, bf16Only)
	require.Contains(t, decided(t, m, demi.Options{})["b"], "BF16: ", "a tie goes to BF16")
}

// A signalling NaN would come back quiet; a quiet one whose payload fits
// comes back.
func TestExactLooksAtNaN(t *testing.T) {
	quiet, low, signalling := math.Float32frombits(0x7fc00000), math.Float32frombits(0x7fc00001), math.Float32frombits(0x7f800000|1<<17)
	got := decided(t, new(mem).f32("quiet", quiet).f32("low", low).f32("signalling", signalling), demi.Options{})
	require.Contains(t, got["quiet"], "BF16: ")
	require.Contains(t, got["low"], "F32: ")
	require.Contains(t, got["signalling"], "F32: ")
}

// The bytes that exact writes give the source back when they are widened.
func TestExactGivesTheSourceBack(t *testing.T) {
	x := weights(200_000, 1)
	for i := range x {
		x[i] = math.Float32frombits(math.Float32bits(x[i]) &^ 0xffff)
	}
	m := new(mem).f32("w", x...).f32("v", weights(70_000, 2)...)
	narrow, records := mustConvert(t, m.checkpoint(), demi.Options{})
	wide, _ := mustConvert(t, demi.FromSource(parse(t, narrow), demi.Safetensors), demi.Options{Target: demi.To(tensor.F32), Pure: true})
	require.Equal(t, values(t, m), values(t, parse(t, wide)))
	for _, r := range records {
		if r.Name == "w" {
			require.Equal(t, "BF16", r.To)
			require.Zero(t, r.Stats.Changed)
		} else {
			require.Equal(t, "F32", r.To)
		}
	}
}

func TestOverflowPolicies(t *testing.T) {
	inf := float32(math.Inf(1))
	m := new(mem).f32("fits", 1, 65519, inf).f32("over", 1, -65520, 70000)
	f16 := demi.Options{Target: demi.To(tensor.F16)}
	out := func(o demi.Options) []float32 {
		file, _ := mustConvert(t, m.checkpoint(), o)
		c := demi.FromSource(parse(t, file), demi.Safetensors)
		x, ok := c.Tensor("over")
		require.True(t, ok)
		got := make([]float32, 3)
		require.NoError(t, x.Float32s(got, 0))
		return got
	}
	require.Equal(t, []float32{1, -inf, inf}, out(f16))
	f16.Overflow = demi.OverflowSaturate
	require.Equal(t, []float32{1, -65504, 65504}, out(f16))
	f16.Overflow = demi.OverflowKeep
	require.Equal(t, []float32{1, -65520, 70000}, out(f16))
	require.Equal(t, map[string]string{
		"fits": "F16: target type", "over": "F32: kept: 2 of 3 values are beyond the range of F16",
	}, decided(t, m, f16))
	f16.Overflow = demi.OverflowError
	_, _, err := convert(t, m.checkpoint(), f16, nil)
	require.ErrorIs(t, err, demi.ErrOverflow)
	require.ErrorContains(t, err, `tensor "over"`)
	require.NotContains(t, err.Error(), `"fits"`)
	f16.Rounding = kernels.TowardZero
	_, _, err = convert(t, new(mem).f32("x", 65520, 65535).checkpoint(), f16, nil)
	require.NoError(t, err, "toward zero, that is in range")
}

func TestConvertWantsADecidedPlan(t *testing.T) {
	c := new(mem).f32("w", 1).checkpoint()
	p, err := demi.NewPlan(c, demi.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, p.Undecided())
	_, err = demi.Convert(context.Background(), c, demi.NewWriter(nil, p, c, nil), p, nil)
	require.ErrorContains(t, err, "Decide")
}

// Values that change after they were looked at must not become lossy in
// silence.
func TestSourceChangesAfterDecide(t *testing.T) {
	for _, o := range []demi.Options{{}, {Target: demi.To(tensor.F16), Overflow: demi.OverflowError}, {Target: demi.To(tensor.F16), Overflow: demi.OverflowKeep}} {
		m := new(mem).f32("w", 1, 2, 3)
		c := m.checkpoint()
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		require.NoError(t, p.Decide(context.Background(), c, nil))
		m.tensors[0].data = f32Bytes([]float32{1, 2, 1e30})
		dir := t.TempDir()
		sink, err := demi.Create(dir+"/out.safetensors", p, c, nil)
		require.NoError(t, err)
		_, err = demi.Convert(context.Background(), c, sink, p, nil)
		require.ErrorIs(t, err, tensor.ErrChanged)
		require.ErrorContains(t, err, `tensor "w"`)
		require.Empty(t, names(t, dir))
	}
}
