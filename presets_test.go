package demi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// The names are those of real checkpoints. What is wide in the first lists is
// matched, what is in the second is not: large matrices above all.
func TestPresetsMatch(t *testing.T) {
	for name, lists := range map[string][2][]string{
		"none": {nil, {"model.norm.weight", "gate.bias"}},
		"llm": {{
			"model.layers.3.mlp.gate.e_score_correction_bias", // DeepSeek V3
			"model.layers.3.mlp.expert_bias",                  // AFMoE
			"model.layers.3.mlp.gate.weight",
			"layers.3.ffn.gate.bias", // DeepSeek, as published
			"model.layers.0.block_sparse_moe.gate.weight",
			"model.layers.0.mlp.router.bias", // gpt-oss
			"model.layers.0.mlp.router.classifier.weight",
			"model.layers.0.mlp.shared_expert_gate.weight",
			"model.layers.0.self_attn.sinks", // gpt-oss
			"layers.0.attn.attn_sink",
			"model.layers.0.self_attn.attention_sink_bias",
			"layers.0.hc_attn_base", "layers.0.hc_ffn_fn", "hc_head_scale",
			"model.layers.0.attn_hc.fn",
			"model.layers.0.self_attn.indexer.weights_proj.weight",
			"backbone.layers.0.mixer.A_log", "backbone.layers.0.mixer.D", "model.layers.0.linear_attn.dt_bias",
			"rwkv.blocks.0.attention.time_decay",
			"model.layers.0.self_attn.rotary_emb.inv_freq",
			"model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.q_norm.weight",
			"transformer.h.0.ln_1.bias", "transformer.ln_f.weight", "bert.embeddings.LayerNorm.weight",
		}, {
			"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.gate_proj.weight",
			"model.layers.0.self_attn.q_proj.bias", "model.layers.0.mlp.experts.0.up_proj.weight",
			"model.layers.0.normalizer.weight", "model.layers.0.norm1.linear.weight", "model.layers.0.mlp.experts.gate_up_proj",
		}},
		"diffusion": {{
			"scale_shift_table", "transformer_blocks.0.scale_shift_table", "transformer_blocks.0.audio_scale_shift_table",
			"blocks.0.modulation", // Wan, as published
			"time_embed.0.weight", "model.diffusion_model.time_embed.2.bias", "time_embedding.linear_1.weight",
			"condition_embedder.time_embedder.linear_1.weight", "time_text_embed.timestep_embedder.linear_2.bias",
			"t_embedder.mlp.0.weight", "time_in.in_layer.weight", // Flux, as published
			"blocks.0.norm2.weight", "blocks.0.attn1.norm_q.weight", "blocks.0.attn1.norm_added_k.weight",
			"double_blocks.0.img_attn.norm.query_norm.scale", "conv_norm_out.bias", "decoder.up_blocks.0.norm1.gamma",
			"state_dict.alphas_cumprod", "state_dict.first_stage_model.decoder.conv_in.weight", // in a file of Lightning
			"alphas_cumprod", "sqrt_one_minus_alphas_cumprod", "log_one_minus_alphas_cumprod", "betas", "posterior_variance",
			"first_stage_model.decoder.conv_in.weight", "vae.per_channel_statistics.std-of-means",
			"per_channel_statistics.mean-of-means", "learnable_pos_embed.pos_emb_t",
		}, {
			"transformer_blocks.0.norm1.linear.weight", // 3 billion values in Flux
			"double_blocks.0.img_mod.lin.weight", "blocks.0.attn1.to_q.weight", "down_blocks.0.resnets.0.time_emb_proj.weight",
			"proj_out.weight", "model.diffusion_model.input_blocks.0.0.weight", "cond_stage_model.transformer.x.weight",
			"single_blocks.0.modulation.lin.weight",
		}},
	} {
		p, err := demi.ParsePreset(name)
		require.NoError(t, err)
		require.NotEmpty(t, p.Doc)
		for i, list := range lists {
			for _, tensor := range list {
				matched := false
				for _, r := range p.Rules {
					require.Equal(t, demi.Keep, r.Target)
					matched = matched || r.Name.MatchString(tensor)
				}
				require.Equal(t, i == 0, matched, "%s: %s", name, tensor)
			}
		}
	}
	require.Equal(t, demi.NoPreset, demi.Presets()[0].Name)
	_, err := demi.ParsePreset("vision")
	require.EqualError(t, err, `unknown preset "vision" (none, llm, diffusion)`)
}

// A router's bias of 238 values keeps them all: sglang #37133.
func TestPresetKeepsTheRouter(t *testing.T) {
	const bias = "model.layers.3.mlp.gate.e_score_correction_bias"
	m := new(mem).f32(bias, weights(256, 1)...).f32("w", weights(8, 2)...).zeros("n.norm.weight", tensor.BF16, 4)
	o := demi.Options{Target: demi.To(tensor.BF16), Preset: "LLM", Pure: true}
	got := planned(t, m, o)
	require.Equal(t, `F32: preset llm: (^|\.)(e_score_correction_bias|expert_bias)$`, got[bias])
	require.Equal(t, "BF16: target type", got["w"])
	o.Rules = rules(t, "bias$=bf16")
	require.Equal(t, "BF16: rule bias$=bf16", planned(t, m, o)[bias], "the caller's rules come first")
	o.Target = demi.To(tensor.F32)
	require.Equal(t, "F32: target type", planned(t, m, o)["n.norm.weight"], "a preset does not hinder widening")
	o.Target = demi.To(tensor.F16)
	require.Contains(t, planned(t, m, o)["n.norm.weight"], "BF16: preset llm", "16 bits to 16 bits is no widening")
}
