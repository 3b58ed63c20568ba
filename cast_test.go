package demi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// planned returns the type of each tensor in a plan, with the reason.
func planned(t *testing.T, m *mem, o demi.Options) map[string]string {
	t.Helper()
	p, err := demi.NewPlan(m.checkpoint(), o)
	require.NoError(t, err)
	got := map[string]string{}
	for _, c := range p.Tensors {
		got[c.In.Name] = c.Out.DType.String() + ": " + c.Reason
	}
	return got
}

func rules(t *testing.T, list ...string) (rs []demi.Rule) {
	t.Helper()
	for _, s := range list {
		r, err := demi.ParseRule(s)
		require.NoError(t, err)
		rs = append(rs, r)
	}
	return rs
}

func TestNamedTypeCastsEveryFloat(t *testing.T) {
	m := new(mem).zeros("f64", tensor.F64, 2).zeros("f32", tensor.F32, 2).zeros("i64", tensor.I64, 2).
		zeros("bool", tensor.Bool, 2).zeros("fp8", tensor.F8E4M3, 2)
	require.Equal(t, map[string]string{
		"f64": "BF16: target type", "f32": "BF16: target type", "i64": "I64: not a float to cast",
		"bool": "BOOL: not a float to cast", "fp8": "F8_E4M3: not a float to cast",
	}, planned(t, m, demi.Options{Target: demi.To(tensor.BF16)}))
	require.Equal(t, map[string]string{
		"f64": "F64: keep", "f32": "F32: keep", "i64": "I64: not a float to cast",
		"bool": "BOOL: not a float to cast", "fp8": "F8_E4M3: not a float to cast",
	}, planned(t, m, demi.Options{Target: demi.Keep}))
}

// Someone kept these in F32 on purpose: Hugging Face transformers #17978,
// #34909 and others.
func TestSmallF32BesideHalfStays(t *testing.T) {
	m := new(mem).zeros("big", tensor.F32, 1024, 1024).zeros("small", tensor.F32, 1024, 1023).
		zeros("half", tensor.F16, 4).zeros("double", tensor.F64, 4)
	o := demi.Options{Target: demi.To(tensor.BF16)}
	require.Equal(t, map[string]string{
		"big": "BF16: target type", "small": "F32: small F32 beside 16-bit floats",
		"half": "BF16: target type", "double": "BF16: target type",
	}, planned(t, m, o))
	o.Pure = true
	require.Equal(t, "BF16: target type", planned(t, m, o)["small"])
}

func TestCompanionsOfQuantisedTensorsStay(t *testing.T) {
	m := new(mem).zeros("a.weight", tensor.F8E4M3, 4, 4).zeros("a.weight_scale", tensor.F32, 1).zeros("a.bias", tensor.F32, 4).
		zeros("b.qweight", tensor.I32, 4, 4).zeros("b.scales", tensor.F16, 4).zeros("b.qzeros", tensor.I32, 4).
		zeros("c.weight", tensor.U32, 4, 4).zeros("c.biases", tensor.F32, 4).
		zeros("n.num_batches_tracked", tensor.I64).zeros("n.scale", tensor.F32, 4)
	got := planned(t, m, demi.Options{Target: demi.To(tensor.BF16), Pure: false})
	for name, want := range map[string]string{
		"a.weight_scale": "F32: belongs to a quantised tensor",
		"b.scales":       "F16: belongs to a quantised tensor",
		"c.biases":       "F32: belongs to a quantised tensor",
		"a.bias":         "F32: small F32 beside 16-bit floats",
		"n.scale":        "F32: small F32 beside 16-bit floats",
	} {
		require.Equal(t, want, got[name], name)
	}
	m = new(mem).zeros("n.num_batches_tracked", tensor.I64).zeros("n.scale", tensor.F32, 4)
	require.Equal(t, "BF16: target type", planned(t, m, demi.Options{Target: demi.To(tensor.BF16)})["n.scale"])
}

func TestGGUFKeepsWhatLlamaCppWantsWide(t *testing.T) {
	m := new(mem).zeros("blk.0.attn_q.weight", tensor.F32, 4, 4).zeros("blk.0.attn_norm.weight", tensor.F32, 4).
		zeros("blk.0.ffn_gate_inp.weight", tensor.F32, 4, 4).zeros("blk.0.attn_q.bias", tensor.F32, 4)
	o := demi.Options{Target: demi.To(tensor.F16), Format: demi.GGUF, ContainerOnly: true}
	got := planned(t, m, o)
	require.Equal(t, "F16: target type", got["blk.0.attn_q.weight"])
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q.bias"} {
		require.Equal(t, "F32: llama.cpp keeps it wide", got[name])
	}
	o.Target = demi.To(tensor.F64)
	require.Equal(t, "F64: target type", planned(t, m, o)["blk.0.attn_norm.weight"], "widening loses nothing")
	o.Target = demi.Exact
	require.Equal(t, "F32: llama.cpp keeps it wide", planned(t, m, o)["blk.0.attn_norm.weight"])
}

func TestRulesWin(t *testing.T) {
	m := new(mem).zeros("a.norm", tensor.F32, 4).zeros("a.weight", tensor.F32, 4).zeros("a.id", tensor.I32, 4).zeros("a=b", tensor.F32, 4)
	got := planned(t, m, demi.Options{
		Target: demi.To(tensor.BF16), Pure: true,
		Rules: rules(t, `norm$=keep`, `weight=f64`, `weight=f16`, `id=bf16`, `a=b=F32`),
	})
	require.Equal(t, map[string]string{
		"a.norm": "F32: rule norm$=keep", "a.weight": "F64: rule weight=f64",
		"a.id": "I32: rule id=bf16, but it is not a float to cast", "a=b": "F32: rule a=b=f32",
	}, got)
	for _, bad := range []string{"norm", "(=keep", "norm=exact", "norm=int8", "norm=", ""} {
		_, err := demi.ParseRule(bad)
		require.Error(t, err, bad)
	}
}

func TestOtherContainerIsAskedFor(t *testing.T) {
	m := new(mem).zeros("w", tensor.F32, 4)
	_, err := demi.NewPlan(m.checkpoint(), demi.Options{Format: demi.GGUF})
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "container")
}

func TestTargets(t *testing.T) {
	for s, want := range map[string]demi.Target{
		"exact": demi.Exact, "KEEP": demi.Keep, "bf16": demi.To(tensor.BF16), "bfloat16": demi.To(tensor.BF16),
		"half": demi.To(tensor.F16), "fp16": demi.To(tensor.F16), "float32": demi.To(tensor.F32), "F64": demi.To(tensor.F64),
	} {
		got, err := demi.ParseTarget(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "int8", "q4_0", "fp8", "f8_e4m3", "bf17"} {
		_, err := demi.ParseTarget(bad)
		require.Error(t, err, bad)
	}
}
