package demi

import (
	"fmt"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// The cast table: which tensors a target casts, and why not the others. The
// first row that applies decides.
//
//	rule       a rule matches the name                       the rule's type
//	type       not F64, F32, F16 or BF16                     kept
//	keep       the target is Keep                            kept
//	preset     a rule of the preset matches the name         never narrowed
//	pure       Options.Pure                                  the target
//	companion  scales and zero points of quantised tensors   kept
//	gguf       what llama.cpp keeps in F32, in GGUF output   never narrowed
//	mixed      small F32 beside 16-bit floats                kept in F32
//	target     everything else                               the target
type caster struct {
	options   Options
	preset    Preset
	quantised map[string]bool // modules that hold tensors of small floats or integers
	mixed     bool            // the source has F32 and 16-bit floats
	llama     bool            // the output is for llama.cpp
}

// smallF32 is the number of elements below which an F32 tensor in a source of
// mixed types is taken to be in F32 on purpose.
const smallF32 = 1 << 20

func newCaster(infos []tensor.Info, o Options, llama bool) *caster {
	c := &caster{options: o, quantised: map[string]bool{}, llama: llama}
	c.preset, _ = ParsePreset(o.Preset) // Validate has seen the name
	var f32, half bool
	for _, in := range infos {
		f32 = f32 || in.DType == tensor.F32
		half = half || in.DType == tensor.F16 || in.DType == tensor.BF16
		if packed(in) {
			c.quantise(in.Name)
		}
	}
	c.mixed = f32 && half
	return c
}

// quantise says that the tensor of that name is, or was, stored quantised: what
// scales it, or its input, is no weight.
func (c *caster) quantise(name string) {
	module, _ := splitName(name)
	c.quantised[module] = true
}

// packed tells types in which quantised weights are stored. 64-bit integers
// are not among them: they are counters and positions.
func packed(in tensor.Info) bool {
	switch in.DType {
	case tensor.I8, tensor.U8, tensor.I32, tensor.U32:
		return len(in.Shape) > 0
	}
	return in.DType.IsSmallFloat()
}

// splitName divides a name at its last dot: "a.b.weight" is a tensor of module
// "a.b".
func splitName(name string) (module, leaf string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:]
}

// cast returns the type that a tensor gets and the reason. Under Exact and Auto
// that is the type it has; candidate tells that its values may decide otherwise.
func (c *caster) cast(in tensor.Info) (to tensor.DType, reason string, candidate bool) {
	for _, r := range c.options.Rules {
		if r.Name.MatchString(in.Name) {
			return c.ruled(in, r)
		}
	}
	if !in.DType.IsFloat() {
		return in.DType, "not a float to cast", false
	}
	if c.options.Target == Keep {
		return in.DType, "keep", false
	}
	target, named := c.options.Target.DType()
	widens := named && target.Bits() > in.DType.Bits()
	if r, ok := c.preset.match(in.Name); ok && !widens {
		return in.DType, fmt.Sprintf("preset %s: %s", c.preset.Name, r.Name), false
	}
	if reason, mayWiden := c.exception(in); reason != "" && !(widens && mayWiden) {
		return in.DType, reason, false
	}
	if named {
		return target, "target type", false
	}
	if in.DType.Bits() <= 16 && c.options.Target == Auto {
		return in.DType, "auto: it has 16 bits", false
	}
	return in.DType, string(c.options.Target), in.DType.Bits() > 16
}

// exception says why a floating-point tensor is not cast, or only to a wider
// type; "" if there is no reason.
func (c *caster) exception(in tensor.Info) (reason string, mayWiden bool) {
	switch {
	case c.options.Pure:
	case c.companion(in.Name):
		return "belongs to a quantised tensor", false
	case c.llama && wantsF32(in):
		return "llama.cpp keeps it wide", true
	case c.mixed && in.DType == tensor.F32 && in.Elements() < smallF32:
		return "small F32 beside 16-bit floats", false
	}
	return "", false
}

func (c *caster) ruled(in tensor.Info, r Rule) (to tensor.DType, reason string, candidate bool) {
	d, ok := r.Target.DType()
	switch {
	case !ok:
		return in.DType, fmt.Sprintf("rule %s", r), false
	case !in.DType.IsFloat():
		return in.DType, fmt.Sprintf("rule %s, but it is not a float to cast", r), false
	}
	return d, fmt.Sprintf("rule %s", r), false
}

// companion tells the scales, zero points and the like of a quantised tensor
// of the same module. The words are those of compressed-tensors, FBGEMM,
// bitsandbytes, AWQ and GPTQ, MLX, and ComfyUI.
func (c *caster) companion(name string) bool {
	module, leaf := splitName(name)
	if !c.quantised[module] {
		return false
	}
	leaf = strings.ToLower(leaf)
	for _, word := range []string{"scale", "zero", "absmax", "scb", "quant_map", "nested"} {
		if strings.Contains(leaf, word) {
			return true
		}
	}
	return leaf == "biases"
}

// wantsF32 tells the tensors that llama.cpp wants in a wide type: those that
// llama-quantize leaves alone (tensor_allows_quantization in
// src/llama-quant.cpp) and those that convert_hf_to_gguf writes in F32.
func wantsF32(in tensor.Info) bool {
	if len(in.Shape) < 2 || !strings.HasSuffix(in.Name, "weight") {
		return true
	}
	for _, part := range wideInGGUF {
		if strings.Contains(in.Name, part) {
			return true
		}
	}
	return false
}

var wideInGGUF = []string{
	"_norm.weight",
	"ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
	"position_embd", "token_types", "ssm_conv1d", "shortconv.conv.weight",
	"indexer.k_proj.weight", "indexer.q_proj.weight",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
	"time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
	"time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
	"time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
	"time_mix_lerp_fused.weight", "attn_rel_b.weight",
	"sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
	"a.rvq.codebook", "mm.a.code_embd",
}
