package demi_test

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func advised(t testing.TB, c *demi.Checkpoint, o demi.Options, run *demi.RunOptions) *demi.Advice {
	t.Helper()
	a, err := demi.Advise(context.Background(), c, o, run)
	require.NoError(t, err)
	return a
}

func row(t testing.TB, a *demi.Advice, name string) *demi.TensorAdvice {
	t.Helper()
	for i := range a.Tensors {
		if a.Tensors[i].Name == name {
			return &a.Tensors[i]
		}
	}
	t.Fatalf("no advice for %q", name)
	return nil
}

// TestAdviceIsWhatConversionsReport: for every tensor of real checkpoints, and
// for the whole, to the bit.
func TestAdviceIsWhatConversionsReport(t *testing.T) {
	for _, path := range append(realWeights(t), filepath.Join(charlmDir, "model.gguf")) {
		for _, o := range []demi.Options{{}, {Rounding: kernels.Stochastic, Seed: 3, Pure: true}} {
			c := open(t, path)
			a := advised(t, c, o, nil)
			for _, cost := range a.Targets {
				o.Target = cost.Target
				_, records := mustConvert(t, c, o)
				summary := verify.Summarize(records)
				require.Equal(t, summary, cost.Summary, "%s %s", path, cost.Target)
				require.Equal(t, verify.NewFigures(&summary.Stats), cost.Figures)
				for _, r := range records {
					if r.Stats != nil {
						x := row(t, a, r.Name).Trial(tensor.FromName(r.To))
						require.Equal(t, *r.Stats, x.Stats, "%s to %s", r.Name, r.To)
						require.Equal(t, r.SizeOut, x.Size)
					}
					if cost.Target == demi.Auto && tensor.FromName(r.From).IsFloat() {
						require.Equal(t, r.To+" "+r.Reason, row(t, a, r.Name).To.String()+" "+row(t, a, r.Name).Reason)
					}
				}
			}
		}
	}
}

// TestAdviceDistinct: the values that are left are those of the output.
func TestAdviceDistinct(t *testing.T) {
	c := open(t, filepath.Join(charlmDir, "model.safetensors"))
	a := advised(t, c, demi.Options{}, nil)
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
		out, _ := mustConvert(t, c, demi.Options{Target: demi.To(d)})
		rows, err := demi.Scan(context.Background(), demi.FromSource(parse(t, out), demi.Safetensors), nil)
		require.NoError(t, err)
		for _, r := range rows {
			require.Equal(t, r.Values.Distinct, *row(t, a, r.Name).Trial(d).Distinct, r.Name)
		}
	}
	rows, err := demi.Scan(context.Background(), c, nil)
	require.NoError(t, err)
	for _, r := range rows {
		require.Equal(t, r, row(t, a, r.Name).ScanRow)
	}
}

// TestAdviceFacts: what holds of the types themselves.
func TestAdviceFacts(t *testing.T) {
	var inside []uint16
	for p := range 1 << 16 {
		abs := math.Abs(float64(math.Float32frombits(uint32(p) << 16)))
		if abs >= 0x1p-17 && abs <= 65280 {
			inside = append(inside, uint16(p))
		}
	}
	bf16 := func(f float32) uint16 { return uint16(math.Float32bits(f) >> 16) }
	m := new(mem).u16("inside", tensor.BF16, inside...).
		u16("below", tensor.BF16, bf16(0x1.fep-18)).
		u16("above", tensor.BF16, bf16(65536)).
		f32("largest", 65519.99).f32("overflow", 65520, -65520)
	a := advised(t, m.checkpoint(), demi.Options{}, nil)
	f16 := func(name string) tensor.Stats { return row(t, a, name).Trial(tensor.F16).Stats }
	require.Equal(t, int64(2*33*128), f16("inside").Count, "2^-17 to 2^16, without 65536")
	require.Zero(t, f16("inside").Changed)
	require.Zero(t, row(t, a, "inside").Trial(tensor.F16).Faint)
	require.Equal(t, int64(1), f16("below").Changed)
	require.Equal(t, int64(1), row(t, a, "below").Trial(tensor.F16).Faint)
	require.Equal(t, int64(1), f16("above").Overflowed)
	require.Zero(t, f16("largest").Overflowed)
	require.Equal(t, int64(2), f16("overflow").Overflowed)
}

// TestAdviceChoice: which target, and which single type.
func TestAdviceChoice(t *testing.T) {
	w := weights(4096, 7)
	for _, x := range []struct {
		name            string
		m               *mem
		o               demi.Options
		choice, oneType string
	}{
		{"weights", new(mem).rows("w", 2, w...), demi.Options{},
			"auto: 1 F32 becomes F16", "f16: nothing leaves its range, and its error is smaller: SNR 73.7 dB, not 55.6"},
		{"F32 with 16-bit values", new(mem).rows("w", 2, 1, 0x1p100, 3, 4).rows("v", 2, 1, 2, 3, 4), demi.Options{},
			"exact: every value comes back, nothing is lost", "bf16: F16: 1 overflow in w"},
		{"values of both", new(mem).rows("w", 2, 1, 2, 3, 4), demi.Options{},
			"exact: every value comes back, nothing is lost", "bf16: its error is not larger: nothing is lost"},
		{"16-bit types", new(mem).u16("w", tensor.F16, 0x3c01), demi.Options{},
			"exact: no tensor that may be narrowed has more than 16 bits", "f16: nothing leaves its range, and its error is smaller: nothing is lost"},
		{"outliers", new(mem).rows("a", 2, with(weights(64, 1), 1e5)...).rows("b", 2, repeat(64, 1e-6, 1e-5)...).rows("w", 2, w...).f32("i", 1, 2), demi.Options{},
			"auto: 3 F32 become BF16, 1 F32 becomes F16", "bf16: F16: 2 tensors suffer, the first: 1 overflow in a"},
		{"strict", new(mem).rows("w", 2, w...), demi.Options{MaxRelErr: 1e-6},
			"exact: no tensor can be narrowed within the limits", "f16: nothing leaves its range, and its error is smaller: SNR 73.7 dB, not 55.6"},
		{"too small", new(mem).rows("w", 2, w...), demi.Options{TargetPercent: 10},
			"exact: the target size cannot be reached: 1638 bytes are wanted, and 8192 are the least that the limits allow", "f16: nothing leaves its range, and its error is smaller: SNR 73.7 dB, not 55.6"},
		{"epsilon", new(mem).f32("e", 1e-12), demi.Options{}, "auto: 1 F32 becomes BF16", "bf16: F16: error 1, in BF16 0.0019, in e"},
	} {
		x.o.Target = demi.Auto
		a := advised(t, x.m.checkpoint(), x.o, nil)
		require.Equal(t, x.choice, string(a.Choice.Target)+": "+a.Choice.Reason, x.name)
		require.Equal(t, x.oneType, string(a.OneType.Target)+": "+a.OneType.Reason, x.name)
	}
}

// TestAdviceSeesRules: the figures are those of the options, policies aside.
func TestAdviceSeesRules(t *testing.T) {
	m := new(mem).rows("w", 2, weights(64, 1)...).rows("wide", 2, 1e30, 1, 2, 3).f32("bias", 1, 2, 3).u16("h", tensor.BF16, 0x3f80)
	a := advised(t, m.checkpoint(), demi.Options{
		Target: demi.To(tensor.F16), Pure: true, Overflow: demi.OverflowError, OnNaN: demi.NaNError, Rules: rules(t, "wide=f64", "bias=keep"),
	}, nil)
	require.Equal(t, "rule wide=f64", row(t, a, "wide").Reason)
	require.NotNil(t, row(t, a, "wide").Trial(tensor.F64), "a type of a rule is tried, too")
	require.Equal(t, tensor.F32, row(t, a, "bias").To)
	for _, x := range a.Targets {
		require.Zero(t, x.Summary.Stats.Overflowed, x.Target)
	}
}

func TestAdviceIsTheSameForAnyWorkers(t *testing.T) {
	m := new(mem).f32("a", weights(300_000, 3)...).f64("b", 1, 2, math.NaN(), 0.1).f32("c").zeros("i", tensor.I32, 5).
		rows("d", 7, weights(70_000, 4)...).u16("h", tensor.F16, 1, 2, 0x7c00)
	var first string
	for _, run := range []demi.RunOptions{{Workers: 1}, {Workers: 2}, {Workers: 8}, {MaxMemory: 4 << 20}} {
		text, err := json.Marshal(advised(t, m.checkpoint(), demi.Options{Pure: true, Rounding: kernels.Stochastic}, &run))
		require.NoError(t, err)
		if first == "" {
			first = string(text)
		}
		require.Equal(t, first, string(text))
	}
	_, err := demi.Advise(context.Background(), m.checkpoint(), demi.Options{}, &demi.RunOptions{MaxMemory: 1000})
	require.ErrorIs(t, err, tensor.ErrLimit)
	_, err = demi.Advise(context.Background(), demi.FromSource(shortMem{m}, demi.Safetensors), demi.Options{}, nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	require.Empty(t, advised(t, new(mem).checkpoint(), demi.Options{}, nil).Tensors)
}

// TestAdviceBeyondFloat64: squares of the values are not finite in float64, and
// the document is JSON all the same.
func TestAdviceBeyondFloat64(t *testing.T) {
	a := advised(t, new(mem).f64("w", 1e300, -1e300, 1).checkpoint(), demi.Options{Overflow: demi.OverflowSaturate}, nil)
	for _, x := range a.Tensors[0].Trials {
		require.Nil(t, x.RelErr, "%s", x.Type)
	}
	_, err := json.Marshal(a)
	require.NoError(t, err)
}
