package demi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/charlm"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// rows adds a matrix of F32 with so many rows.
func (m *mem) rows(name string, rows int, x ...float32) *mem {
	return m.add(memTensor{name, tensor.F32, []int64{int64(rows), int64(len(x) / rows)}, f32Bytes(x)})
}

// with returns weights with some of them replaced, from the first.
func with(x []float32, values ...float32) []float32 {
	copy(x, values)
	return x
}

// linspace returns n values from lo to hi, as numpy.linspace does in float64.
func linspace(lo, hi float64, n int) (x []float32) {
	for i := range n {
		x = append(x, float32(lo+(hi-lo)*float64(i)/float64(n-1)))
	}
	return x
}

func repeat(n int, x ...float32) (all []float32) {
	for len(all) < n {
		all = append(all, x...)
	}
	return all[:n]
}

var auto = demi.Options{Target: demi.Auto}

// TestAutoReasons: one tensor for each way to a type. sglang#37133: the router
// bias has 9 distinct values in BF16 and 64 in F16.
func TestAutoReasons(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	w := func() []float32 { return weights(4096, 7) }
	m := new(mem).
		rows("weights", 64, w()...).
		rows("one overflows", 64, with(w(), 65520)...).
		rows("65519 does not", 64, with(w(), 65519)...).
		rows("Inf and NaN pass", 64, with(w(), inf, -inf, nan)...).
		rows("1 % is faint", 100, with(linspace(0.1, 0.2, 4000), repeat(40, 0x1.8p-18)...)...).
		rows("more is faint", 100, with(linspace(0.1, 0.2, 4000), repeat(41, 0x1.8p-18)...)...).
		rows("2^-17 is not", 100, with(linspace(0.1, 0.2, 4000), repeat(41, 0x1p-17)...)...).
		rows("zeros are not faint", 64, with(w(), make([]float32, 2000)...)...).
		rows("only BF16 holds them", 2, 1, 0x1p100, 0x1p-100, 2).
		rows("only F16 holds them", 2, 1+0x1p-10, 3, 2, 1).
		rows("both hold them", 2, 1, 2, 3, 4).
		f32("e_score_correction_bias", linspace(6.817, 7.063, 256)...).
		f32("norm of ones", repeat(256, 1)...).
		f32("few values", repeat(256, 0.1, 0.2, 0.7)...).
		f32("one to zero", 1, 2, 0x1p-26, 1e30).
		f32("more than are counted", weights(20_000, 3)...).
		f32("no small vector", weights(65_537, 3)...).
		rows("neither", 1, 1.1e38, 3.4e38).
		f64("F64", append(make([]float64, 100), 0.1, 1e39)...).
		f64("F64 bias", 7.01, 7.0101, 7.0102).
		f32("F16 merges two", 1+0x1.fcp-9, 1+0x1.04p-8).
		f32("one value is faint", 0.3, 0.7, 0x1.8p-18).
		zeros("empty", tensor.F32, 0).
		zeros("half", tensor.F16, 4).
		zeros("i", tensor.I64, 3)
	require.Equal(t, map[string]string{
		"weights":                 "F16: auto: error 0.00021, BF16 0.0017",
		"one overflows":           "BF16: auto: F16: 1 overflow",
		"65519 does not":          "F16: auto: error 0.00023, BF16 0.00026",
		"Inf and NaN pass":        "F16: auto: error 0.00021, BF16 0.0017",
		"1 % is faint":            "F16: auto: error 0.00021, BF16 0.0017",
		"more is faint":           "BF16: auto: F16: 1.02 % faint",
		"2^-17 is not":            "F16: auto: error 0.00021, BF16 0.0017",
		"zeros are not faint":     "F16: auto: error 0.00021, BF16 0.0016",
		"only BF16 holds them":    "BF16: auto: all values fit BF16",
		"only F16 holds them":     "F16: auto: all values fit F16",
		"both hold them":          "BF16: auto: all values fit BF16",
		"e_score_correction_bias": "F32: auto: F16: 64 of 256 distinct; BF16: 9 of 256 distinct",
		"norm of ones":            "BF16: auto: all values fit BF16",
		"few values":              "F16: auto: error 0.00028, BF16 0.0011",
		"one to zero":             "BF16: auto: F16: 1 overflow",
		"more than are counted":   "F32: auto: F16: 9020 distinct are left; BF16: 2063 distinct are left",
		"no small vector":         "F16: auto: error 0.00021, BF16 0.0017",
		"neither":                 "F32: auto: F16: 2 overflow; BF16: 1 overflow",
		"F64":                     "F64: auto: F16: 1 overflow; BF16: 1 overflow",
		"F64 bias":                "F32: auto: F16: 1 of 3 distinct; BF16: 1 of 3 distinct",
		"F16 merges two":          "F32: auto: F16: 1 of 2 distinct; BF16: coarser than F16",
		"one value is faint":      "F16: auto: error 0.00026, BF16 0.0015",
		"empty":                   "BF16: auto: all values fit BF16",
		"half":                    "F16: auto: it has 16 bits",
		"i":                       "I64: not a float to cast",
	}, decided(t, m, demi.Options{Target: demi.Auto, Pure: true}))
}

// TestAutoLimits: the limit of the error, stochastic rounding and flushed
// subnormals have a say.
func TestAutoLimits(t *testing.T) {
	w := func(o demi.Options, x ...float32) string {
		o.Target = demi.Auto
		return decided(t, new(mem).rows("w", 2, x...), o)["w"]
	}
	x := weights(4096, 7)
	require.Equal(t, "F16: auto: BF16: error 0.0017", w(demi.Options{MaxRelErr: 0.001}, x...))
	require.Equal(t, "F32: auto: F16: error 0.00021; BF16: error 0.0017", w(demi.Options{MaxRelErr: 0.0001}, x...))
	require.Equal(t, "F32: auto: F16: 1 overflow; BF16: error 0.0016", w(demi.Options{MaxRelErr: 0.0001}, 1e5, 1, 1, 1))
	require.Equal(t, "F16: auto: error 0.00029, BF16 0.0024", w(demi.Options{Rounding: kernels.Stochastic}, x...))
	small := repeat(100, 0.3, 0.5, 0x1.8p-15, 0.4)
	require.Equal(t, "F16: auto: error 0.00015, BF16 0.0012", w(demi.Options{}, small...))
	require.Equal(t, "BF16: auto: F16: 25.00 % faint", w(demi.Options{Flush: true}, small...))
	require.Equal(t, "BF16: auto: F16: 1 overflow", w(demi.Options{Overflow: demi.OverflowSaturate}, 1e5, 1, 1, 1.0001))
}

// TestAutoComesLast: rules, presets and the cast table have the first word.
func TestAutoComesLast(t *testing.T) {
	m := new(mem).rows("w.weight", 2, weights(4096, 7)...).rows("ruled.weight", 2, 1e6, 1, 2, 3).
		f32("q_norm.weight", 1, 2, 3).f32("bias", 1, 1, 1)
	o := demi.Options{Target: demi.Auto, Rules: rules(t, "ruled=f16", "bias=f64"), Preset: "llm"}
	got := decided(t, m, o)
	require.Equal(t, "F16: rule ruled=f16", got["ruled.weight"])
	require.Equal(t, "F64: rule bias=f64", got["bias"])
	require.Equal(t, "F32: preset llm: "+normRule, got["q_norm.weight"])
	require.Equal(t, "F16: auto: error 0.00021, BF16 0.0017", got["w.weight"])
	got = decided(t, m, demi.Options{Target: demi.Auto, Format: demi.GGUF, ContainerOnly: true})
	require.Equal(t, "F32: llama.cpp keeps it wide", got["bias"])
	require.Equal(t, "BF16: auto: all values fit BF16", decided(t, m, auto)["q_norm.weight"])
	m.u16("half", tensor.BF16, 0x3f80)
	require.Equal(t, "F32: small F32 beside 16-bit floats", decided(t, m, auto)["w.weight"], "someone kept it on purpose")

	o.Overflow = demi.OverflowKeep
	require.Equal(t, "F32: kept: 1 of 4 values are beyond the range of F16", decided(t, m, o)["ruled.weight"])
}

func TestAutoRefuses(t *testing.T) {
	nan := float32(math.NaN())
	m := new(mem).rows("a", 2, 1, nan, 2, 3).rows("kept", 2, nan, 1.1e38, 1, 3.4e38).rows("b", 2, 1, 2, 3, 4)
	_, _, err := convert(t, m.checkpoint(), demi.Options{Target: demi.Auto, OnNaN: demi.NaNError}, nil)
	require.ErrorIs(t, err, demi.ErrNaN)
	require.ErrorContains(t, err, `tensor "a": values are NaN: 1 of 4, the first at [1]`)
	require.NotContains(t, err.Error(), "kept")
	for text, o := range map[string]demi.Options{
		"for the target auto, which is f16": {Target: demi.To(tensor.F16), MaxRelErr: 0.1},
		"which is exact":                    {TargetPercent: 50},
		"relative error of -1":              {Target: demi.Auto, MaxRelErr: -1},
		"relative error of NaN":             {Target: demi.Auto, MaxRelErr: math.NaN()},
		"of -3 bytes":                       {Target: demi.Auto, TargetBytes: -3},
		"120 %":                             {Target: demi.Auto, TargetPercent: 120},
		"contradict":                        {Target: demi.Auto, TargetPercent: 50, TargetBytes: 1},
		"mixed is for":                      {Target: demi.Auto, Mixed: true},
	} {
		require.ErrorContains(t, o.Validate(), text)
	}
	_, err = demi.ParseRule("w=auto")
	require.ErrorContains(t, err, "auto is for whole checkpoints")
}

// TestAutoTargetSize: the budget is spent where a byte costs least: on large
// tensors first, where errors are alike.
func TestAutoTargetSize(t *testing.T) {
	m := new(mem).rows("large", 2, weights(8000, 1)...).rows("small", 2, weights(1000, 2)...).
		rows("middle", 2, weights(4000, 3)...).rows("free", 2, repeat(2000, 1, 2)...)
	narrowed := func(o demi.Options) (names []string) {
		o.Target = demi.Auto
		for _, name := range []string{"large", "middle", "small", "free"} {
			if reason := decided(t, m, o)[name]; reason[:3] != "F32" {
				names = append(names, name)
			} else {
				require.Equal(t, "F32: auto: the target size has room for it", reason)
			}
		}
		return names
	}
	require.Equal(t, []string{"large", "middle", "small", "free"}, narrowed(demi.Options{TargetBytes: 30_000}))
	require.Equal(t, []string{"large", "middle", "small", "free"}, narrowed(demi.Options{TargetPercent: 50}))
	require.Equal(t, []string{"large", "middle", "free"}, narrowed(demi.Options{TargetBytes: 32_000}))
	require.Equal(t, []string{"large", "free"}, narrowed(demi.Options{TargetPercent: 66.7}))
	require.Equal(t, []string{"free"}, narrowed(demi.Options{TargetPercent: 100}), "what costs nothing is narrowed all the same")
	for _, o := range []demi.Options{{TargetBytes: 29_999}, {TargetPercent: 49}} {
		o.Target = demi.Auto
		_, _, err := convert(t, m.checkpoint(), o, nil)
		require.ErrorIs(t, err, demi.ErrTargetSize)
		require.ErrorContains(t, err, "30000 are the least")
	}
}

// drawFloats draws a tensor whose values are of several kinds.
func drawFloats(t *rapid.T, m *mem, name string) {
	n := rapid.SampledFrom([]int{1, 5, 600, 70_000}).Draw(t, "elements")
	x := weights(n, rapid.Uint64().Draw(t, "seed"))
	scale := float32(math.Ldexp(1, rapid.IntRange(-20, 24).Draw(t, "scale")))
	bits := rapid.SampledFrom([]uint32{0, 8, 13, 16, 20}).Draw(t, "zero bits")
	for i := range x {
		x[i] = math.Float32frombits(math.Float32bits(x[i]*scale) >> bits << bits)
	}
	x[n/2] *= float32(math.Ldexp(1, rapid.SampledFrom([]int{0, 0, -30, 10, 30}).Draw(t, "outlier")))
	if rapid.Bool().Draw(t, "vector") {
		m.f32(name, x...)
	} else {
		m.add(memTensor{name, tensor.F32, []int64{int64(n), 1, 1}, f32Bytes(x)})
		m.tensors[len(m.tensors)-1].shape = []int64{1, int64(n)}
	}
}

// TestAutoIsWhatConversionsSay: the choice follows from the reports of
// conversions to F16 and BF16, whatever the workers; the conversion reports
// what Auto measured.
func TestAutoIsWhatConversionsSay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := new(mem)
		for i := range rapid.IntRange(1, 4).Draw(r, "tensors") {
			drawFloats(r, m, fmt.Sprint("w", i))
		}
		o := demi.Options{
			Rounding:  rapid.SampledFrom([]kernels.Rounding{kernels.NearestEven, kernels.TowardZero, kernels.Stochastic}).Draw(r, "rounding"),
			MaxRelErr: rapid.SampledFrom([]float64{0, 1e-3, 1e-4}).Draw(r, "limit"),
		}
		chosen := o
		chosen.Target = demi.Auto
		got, records, err := convert(t, m.checkpoint(), chosen, &demi.RunOptions{Workers: rapid.IntRange(1, 4).Draw(r, "workers")})
		require.NoError(t, err)
		again, _, err := convert(t, m.checkpoint(), chosen, &demi.RunOptions{Workers: 1})
		require.NoError(t, err)
		require.Equal(t, again, got)
		o.MaxRelErr = 0
		o.Target = demi.To(tensor.F16)
		_, f16 := mustConvert(t, m.checkpoint(), o)
		o.Target = demi.To(tensor.BF16)
		_, bf16 := mustConvert(t, m.checkpoint(), o)
		for _, x := range records {
			h, b := find(t, f16, x.Name).Stats, find(t, bf16, x.Name).Stats
			limit := chosen.MaxRelErr
			if limit == 0 {
				limit = 1.0 / 256
			}
			bad := func(s *tensor.Stats) bool { return s.Overflowed > 0 || math.Sqrt(s.SumErr2/s.SumRef2) > limit }
			switch x.To {
			case "F16":
				require.Equal(t, h, x.Stats)
				require.False(t, bad(h), x.Reason)
				require.True(t, h.SumErr2 < b.SumErr2 || bad(b), x.Reason)
			case "BF16":
				require.Equal(t, b, x.Stats)
				require.False(t, bad(b), x.Reason)
			default:
				require.Nil(t, x.Stats)
			}
		}
	})
}

func find(t testing.TB, records []tensor.Record, name string) *tensor.Record {
	t.Helper()
	for i := range records {
		if records[i].Name == name {
			return &records[i]
		}
	}
	t.Fatalf("no record of %q", name)
	return nil
}

// A plan of Auto is a document that loads back, and its conversion is the same.
func TestAutoPlanDocument(t *testing.T) {
	c := open(t, filepath.Join(charlmDir, "model.safetensors"))
	o := demi.Options{Target: demi.Auto, MaxRelErr: 0.001, TargetPercent: 80}
	p, err := demi.NewPlan(c, o)
	require.NoError(t, err)
	least, most := p.Bounds()
	require.Equal(t, most, 2*least)
	undecided, err := p.Document(c)
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	decided, err := p.Document(c)
	require.NoError(t, err)
	for _, d := range []*demi.PlanDocument{undecided, decided} {
		text, err := json.Marshal(d)
		require.NoError(t, err)
		q, err := demi.LoadPlan(c, bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, q.Decide(context.Background(), c, nil))
		e, err := q.Document(c)
		require.NoError(t, err)
		require.Equal(t, decided, e)
	}
	decided.Tensors[0].To = "F8_E4M3"
	_, err = decided.Plan(c)
	require.ErrorIs(t, err, tensor.ErrFormat)
}

// Values that change after Auto has looked must not be converted in silence.
func TestAutoSeesChangedValues(t *testing.T) {
	m := new(mem).rows("w", 1, 1, 2, 3.0001)
	c := m.checkpoint()
	p, err := demi.NewPlan(c, auto)
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	m.tensors[0].data = f32Bytes([]float32{1, 2, 3.0002})
	var b bytes.Buffer
	_, err = demi.Convert(context.Background(), c, demi.NewWriter(&b, p, c, nil), p, nil)
	require.ErrorIs(t, err, tensor.ErrChanged)
}

// TestAutoKeepsTheHeldOutLoss: of the trained model, on text that it was not
// trained on. The tolerance is a tenth of what BF16 is allowed.
func TestAutoKeepsTheHeldOutLoss(t *testing.T) {
	m, err := charlm.Load(charlmDir)
	require.NoError(t, err)
	out, records := mustConvert(t, open(t, filepath.Join(charlmDir, "model.safetensors")), auto)
	types := map[string]int{}
	for _, r := range records {
		types[r.To]++
	}
	loss := heldOutLoss(t, m, demi.FromSource(parse(t, out), demi.Safetensors))
	t.Logf("auto %v: loss %.7f, %+.7f", types, loss, loss-m.HeldOut.SubsetLoss)
	require.InDelta(t, m.HeldOut.SubsetLoss, loss, 5e-5)
	require.Equal(t, map[string]int{"F16": 23, "F32": 7}, types)
}
