package demi_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

func TestMixedDecidesForEachTensor(t *testing.T) {
	const f16Only, bf16Only, neither = 1 + 0x1p-10, 0x1p100, 0.1
	m := new(mem).f32("f16", f16Only, 0).f32("bf16", bf16Only).f32("both", 1).f32("neither", neither).f32("each its own", f16Only, bf16Only).
		f64("double as f16", f16Only).f64("double as f32", 1.00000011920928955078125).f64("double", 0.1).zeros("i", tensor.I8, 3).zeros("none", tensor.F32, 0)
	require.Equal(t, map[string]string{
		"f16": "F16: exact: all values fit F16", "bf16": "BF16: exact: all values fit BF16", "both": "BF16: exact: all values fit BF16",
		"neither":       "F32: exact: of 1 values 1 do not fit BF16, 1 F16",
		"each its own":  "F32: exact: of 2 values 1 do not fit BF16, 1 F16",
		"double as f16": "F16: exact: all values fit F16", "double as f32": "F32: exact: all values fit F32",
		"double": "F64: exact: of 1 values 1 do not fit BF16, 1 F16", "i": "I8: not a float to cast", "none": "BF16: exact: all values fit BF16",
	}, decided(t, m, demi.Options{Mixed: true}))
	narrow, records := mustConvert(t, m.checkpoint(), demi.Options{Mixed: true})
	wide, _ := mustConvert(t, demi.FromSource(parse(t, narrow), demi.Safetensors), demi.Options{Target: demi.To(tensor.F64), Pure: true})
	same, _ := mustConvert(t, m.checkpoint(), demi.Options{Target: demi.To(tensor.F64), Pure: true})
	require.Equal(t, values(t, parse(t, same)), values(t, parse(t, wide)), "the values are the same")
	for _, r := range records {
		require.True(t, r.Stats == nil || r.Stats.Changed == 0, r.Name)
	}
}

// nanAt returns a tensor of a type with quiet NaN at some elements.
func nanAt(name string, d tensor.DType, n int, at ...int) memTensor {
	width := d.Bits() / 8
	x := memTensor{name, d, []int64{int64(n)}, make([]byte, n*width)}
	for _, i := range at {
		switch p := x.data[i*width:]; d {
		case tensor.F64:
			binary.LittleEndian.PutUint64(p, math.Float64bits(math.NaN()))
		case tensor.F32:
			binary.LittleEndian.PutUint32(p, 0xffc00000)
		case tensor.F16:
			binary.LittleEndian.PutUint16(p, 0xfe00)
		default:
			binary.LittleEndian.PutUint16(p, 0x7fc0)
		}
	}
	return x
}

// TestNaNIsFoundAcrossTiles: the number of NaN and the index of the first, for
// every type, on both sides of the borders of tiles, whatever the workers.
func TestNaNIsFoundAcrossTiles(t *testing.T) {
	const tile = 1 << 16
	to := map[tensor.DType]tensor.DType{tensor.F64: tensor.F32, tensor.F32: tensor.BF16, tensor.F16: tensor.F32, tensor.BF16: tensor.F16}
	for from, to := range to {
		for _, at := range [][]int{{0}, {tile - 1}, {tile}, {tile - 1, tile}, {2*tile - 1, 2 * tile, 2*tile + 5}, {tile + 1, 2*tile + 5}, {0, 2*tile + 5}} {
			m := new(mem).add(nanAt("x", from, 2*tile+6, at...)).add(nanAt("clean", from, tile+1)).add(nanAt("kept", from, 3, 1))
			o := demi.Options{Target: demi.To(to), OnNaN: demi.NaNError, Pure: true, Rules: rules(t, "kept=keep")}
			for _, workers := range []int{1, 2, 5} {
				_, _, err := convert(t, m.checkpoint(), o, &demi.RunOptions{Workers: workers})
				require.ErrorIs(t, err, demi.ErrNaN)
				require.EqualError(t, err, fmt.Sprintf(`tensor "x": values are NaN: %d of %d, the first at [%d]`, len(at), 2*tile+6, at[0]))
			}
			o.OnNaN = demi.NaNKeep
			_, records := mustConvert(t, m.checkpoint(), o)
			for _, r := range records {
				if r.Name == "x" {
					require.EqualValues(t, len(at), r.Stats.NaNIn)
				}
			}
		}
	}
	m := new(mem).add(nanAt("a", tensor.F32, 9, 3)).add(nanAt("b", tensor.F32, 9, 4, 5))
	_, _, err := convert(t, m.checkpoint(), demi.Options{Target: demi.To(tensor.F16), OnNaN: demi.NaNError}, nil)
	require.ErrorContains(t, err, `tensor "a"`)
	require.ErrorContains(t, err, `tensor "b"`, "all of them are named")
	_, _, err = convert(t, m.checkpoint(), demi.Options{OnNaN: demi.NaNError}, nil)
	require.ErrorIs(t, err, demi.ErrNaN, "exact narrows them too")
	_, _, err = convert(t, m.checkpoint(), demi.Options{Target: demi.Keep, OnNaN: demi.NaNError}, nil)
	require.NoError(t, err, "what is copied is not looked at")
}

// A NaN that comes after Decide is a source that has changed.
func TestNaNAfterDecide(t *testing.T) {
	m := new(mem).f32("w", 1, 2)
	c := m.checkpoint()
	p, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16), OnNaN: demi.NaNError})
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	m.tensors[0].data = f32Bytes([]float32{1, float32(math.NaN())})
	_, err = demi.Convert(context.Background(), c, demi.NewWriter(nopWriter{}, p, c, nil), p, nil)
	require.ErrorIs(t, err, tensor.ErrChanged)
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }

// anyTensors returns tensors of random types, sizes and values, of which many
// fit a narrower type.
func anyTensors(r *rand.Rand) *mem {
	m := new(mem)
	for i := range 1 + r.IntN(8) {
		x := memTensor{name: fmt.Sprintf("%d.weight", i), dtype: []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I8, tensor.Bool}[r.IntN(6)]}
		n := r.IntN(40)
		x.shape = []int64{int64(n)}
		mask := ^uint64(0) << []int{0, 29, 42, 45, 48, 63}[r.IntN(6)]
		for range n {
			f := math.Float64frombits(math.Float64bits(r.NormFloat64()*math.Ldexp(1, r.IntN(40)-20)) & mask)
			switch x.dtype {
			case tensor.F64:
				x.data = binary.LittleEndian.AppendUint64(x.data, math.Float64bits(f))
			case tensor.F32:
				x.data = binary.LittleEndian.AppendUint32(x.data, math.Float32bits(float32(f)))
			case tensor.F16, tensor.BF16:
				x.data = binary.LittleEndian.AppendUint16(x.data, uint16(r.Uint32()))
			default:
				x.data = append(x.data, byte(r.IntN(2)))
			}
		}
		m.add(x)
	}
	return m
}

// TestBoundsHold: what Decide finds is within the bounds that the plan gave
// before, and on them once all is decided.
func TestBoundsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide, onLeast, onMost := 0, 0, 0
	for range 2000 {
		m := anyTensors(r)
		o := demi.Options{
			Target:   []demi.Target{demi.Exact, demi.To(tensor.F64), demi.To(tensor.F32), demi.To(tensor.F16), demi.To(tensor.BF16)}[r.IntN(5)],
			Overflow: []demi.Overflow{demi.OverflowIEEE, demi.OverflowKeep}[r.IntN(2)],
			OnNaN:    []demi.NaNPolicy{demi.NaNKeep, demi.NaNError}[r.IntN(2)],
			Pure:     r.IntN(2) == 0,
		}
		o.Mixed = o.Target == demi.Exact && r.IntN(2) == 0
		c := m.checkpoint()
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		least, most := p.Bounds()
		open := p.Undecided()
		if err := p.Decide(context.Background(), c, nil); err != nil {
			require.ErrorIs(t, err, demi.ErrNaN)
			continue
		}
		_, out := p.Bytes()
		require.LessOrEqual(t, least, out, "%+v", o)
		require.GreaterOrEqual(t, most, out, "%+v", o)
		after, afterMost := p.Bounds()
		require.Equal(t, []int64{out, out}, []int64{after, afterMost})
		if least == most {
			continue
		}
		require.Positive(t, open)
		wide, onLeast, onMost = wide+1, onLeast+b2i(out == least), onMost+b2i(out == most)
	}
	t.Logf("%d plans with bounds apart, %d ended on the lower, %d on the upper", wide, onLeast, onMost)
	require.Positive(t, onLeast)
	require.Positive(t, onMost)
	require.Less(t, onLeast+onMost, wide)
}

func TestOptionsAreValidated(t *testing.T) {
	require.NoError(t, demi.Options{}.Validate())
	for says, o := range map[string]demi.Options{
		`unknown target type "int8"`:                   {Target: "int8"},
		`unknown target type "f8_e4m3"`:                {Target: demi.To(tensor.F8E4M3)},
		`unknown rounding`:                             {Rounding: kernels.Rounding(77)},
		`unknown overflow policy "wrap"`:               {Overflow: "wrap"},
		`unknown NaN policy "drop"`:                    {OnNaN: "drop"},
		`unknown preset "vision"`:                      {Preset: "vision"},
		`unknown format "onnx"`:                        {Format: "onnx"},
		`mixed is for the target exact, which is bf16`: {Mixed: true, Target: demi.To(tensor.BF16)},
		`a rule has no expression`:                     {Rules: []demi.Rule{{Target: demi.Keep}}},
		`exact is for whole checkpoints`:               {Rules: []demi.Rule{{Name: regexp.MustCompile("x"), Target: demi.Exact}}},
	} {
		require.ErrorContains(t, o.Validate(), says)
		_, err := demi.NewPlan(new(mem).checkpoint(), o)
		require.ErrorContains(t, err, says, "NewPlan says so too")
	}
	both := demi.Options{Overflow: "wrap", OnNaN: "drop"}.Validate()
	require.ErrorContains(t, both, "wrap")
	require.ErrorContains(t, both, "drop", "all is said at once")
}

// TestReportedCasts has what users of converters ran into, as the smallest
// inputs that show it. The numbers are those of public issues.
func TestReportedCasts(t *testing.T) {
	every := memTensor{"w", tensor.BF16, []int64{1 << 16}, nil}
	for i := range 1 << 16 {
		every.data = binary.LittleEndian.AppendUint16(every.data, uint16(i))
	}
	bias := make([]float32, 256) // the router of GLM-5.2
	for i := range bias {
		bias[i] = 6.817 + float32(i)*(7.063-6.817)/255
	}
	low := make([]float32, 64)
	for i := range low {
		low[i] = math.Float32frombits(math.Float32bits(weights(64, 1)[i]) &^ 0xffff)
	}
	f16, bf16 := demi.To(tensor.F16), demi.To(tensor.BF16)
	gguf := demi.Options{Target: f16, Format: demi.GGUF, ContainerOnly: true}
	pure := gguf
	pure.Pure = true
	matrices := func() *mem { return new(mem).zeros("norm", tensor.F32, 8).zeros("w.weight", tensor.F32, 8, 4) }
	for issue, x := range map[string]struct {
		m    *mem
		o    demi.Options
		want map[string]string
	}{
		"llama.cpp#7843: the same type is the same bytes": {
			new(mem).add(every), demi.Options{Target: bf16}, map[string]string{"w": "BF16: target type"}},
		"sglang#37133: exact leaves the router": {
			new(mem).f32("gate.e_score_correction_bias", bias...).f32("w", low...), demi.Options{},
			map[string]string{"gate.e_score_correction_bias": "F32: exact: of 256 values 256 do not fit BF16, 256 F16", "w": "BF16: exact: all values fit BF16"}},
		"transformers#46167: small F32 among BF16 stay": {
			new(mem).f32("attn_sink", 0.1).f32("hc_attn_base", 0.2).f32("ffn.gate.bias", 0.3).zeros("w", tensor.BF16, 4, 4), demi.Options{Target: bf16},
			map[string]string{"attn_sink": "F32: small F32 beside 16-bit floats", "hc_attn_base": "F32: small F32 beside 16-bit floats",
				"ffn.gate.bias": "F32: small F32 beside 16-bit floats", "w": "BF16: target type"}},
		"diffusers#10992: what a rule protects": {
			new(mem).zeros("scale_shift_table", tensor.F32, 4).zeros("norm.weight", tensor.F32, 4).zeros("w", tensor.F32, 4, 4).zeros("u8", tensor.U8, 4).zeros("i64", tensor.I64), demi.Options{Target: bf16, Rules: rules(t, "table|norm=f32")},
			map[string]string{"scale_shift_table": "F32: rule table|norm=f32", "norm.weight": "F32: rule table|norm=f32", "w": "BF16: target type", "u8": "U8: not a float to cast", "i64": "I64: not a float to cast"}},
		"llama.cpp#8086: vectors of GGUF stay F32": {matrices(), gguf, map[string]string{"norm": "F32: llama.cpp keeps it wide", "w.weight": "F16: target type"}},
		"ComfyUI-GGUF#20: or not":                  {matrices(), pure, map[string]string{"norm": "F16: target type", "w.weight": "F16: target type"}},
		"llama.cpp#18214: the data decide, not the first": {
			new(mem).f32("a", 0.1, 0.2).zeros("b", tensor.BF16, 2, 2).f32("c", 1, 2), demi.Options{Pure: true},
			map[string]string{"a": "F32: exact: of 2 values 2 do not fit BF16, 2 F16", "b": "BF16: exact", "c": "BF16: exact: all values fit BF16"}},
		"instructlab/training#477: the smallest type that loses nothing": {
			new(mem).f32("low bits zero", low...).f32("f16", 1+0x1p-10).f32("real", 0.1), demi.Options{Mixed: true},
			map[string]string{"low bits zero": "BF16: exact: all values fit BF16", "f16": "F16: exact: all values fit F16", "real": "F32: exact: of 1 values 1 do not fit BF16, 1 F16"}},
	} {
		require.Equal(t, x.want, decided(t, x.m, x.o), issue)
		out, records := mustConvert(t, x.m.checkpoint(), x.o)
		for _, r := range records {
			require.True(t, r.Stats == nil || r.Stats.Changed == 0 || x.o.Target != "", issue)
		}
		if x.o.Format == "" {
			require.Equal(t, len(x.want), len(parse(t, out).Tensors()))
		}
	}
	out, _ := mustConvert(t, new(mem).add(every).checkpoint(), demi.Options{Target: bf16})
	require.True(t, string(every.data) == string(values(t, parse(t, out))["w"]))
}
