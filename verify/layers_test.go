package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// TestLayersAndParts has names as checkpoints of these families have them.
func TestLayersAndParts(t *testing.T) {
	for _, x := range [][3]string{
		{"model.layers.12.self_attn.q_proj.weight", "model.layers.12", "attention"}, // Llama
		{"model.layers.12.post_attention_layernorm.weight", "model.layers.12", "norm"},
		{"model.layers.12.mlp.gate_proj.weight", "model.layers.12", "mlp"},
		{"model.layers.3.mlp.experts.17.w1.weight", "model.layers.3", "mlp"},
		{"model.layers.3.mlp.gate.weight", "model.layers.3", "router"},
		{"model.layers.3.mlp.gate.e_score_correction_bias", "model.layers.3", "router"},
		{"model.layers.3.block_sparse_moe.gate.weight", "model.layers.3", "router"},
		{"model.embed_tokens.weight", verify.OutsideLayers, "embedding"},
		{"model.norm.weight", verify.OutsideLayers, "norm"},
		{"lm_head.weight", verify.OutsideLayers, "head"},
		{"blk.7.attn_norm.weight", "blk.7", "norm"}, // GGUF
		{"blk.7.attn_output.weight", "blk.7", "attention"},
		{"blk.7.ffn_gate_inp.weight", "blk.7", "router"},
		{"blk.7.ffn_down_exps.weight", "blk.7", "mlp"},
		{"token_embd.weight", verify.OutsideLayers, "embedding"},
		{"output.weight", verify.OutsideLayers, "head"},
		{"output_norm.weight", verify.OutsideLayers, "norm"},
		{"rope_freqs.weight", verify.OutsideLayers, "other"},
		{"transformer.h.3.ln_1.weight", "transformer.h.3", "norm"}, // GPT-2
		{"h.3.attn.c_attn.weight", "h.3", "attention"},
		{"wte.weight", verify.OutsideLayers, "embedding"},
		{"bert.encoder.layer.5.attention.output.dense.weight", "bert.encoder.layer.5", "attention"}, // BERT
		{"bert.encoder.layer.5.attention.output.LayerNorm.gamma", "bert.encoder.layer.5", "norm"},
		{"bert.encoder.layer.5.intermediate.dense.weight", "bert.encoder.layer.5", "mlp"},
		{"bert.encoder.layer.5.output.dense.weight", "bert.encoder.layer.5", "mlp"},
		{"bert.embeddings.position_embeddings.weight", verify.OutsideLayers, "embedding"},
		{"decoder.block.2.layer.1.EncDecAttention.q.weight", "decoder.block.2", "attention"}, // T5
		{"decoder.block.2.layer.2.DenseReluDense.wo.weight", "decoder.block.2", "mlp"},
		{"unet/down_blocks.0.attentions.1.transformer_blocks.0.attn1.to_q.weight", "unet/down_blocks.0", "attention"}, // diffusers
		{"double_blocks.3.img_mod.lin.weight", "double_blocks.3", "other"},
		{"encoder/layer_11/mlp/kernel", "encoder/layer_11", "mlp"}, // JAX
		{"layer1.0.bn1.running_mean", "layer1", "norm"},            // ResNet
		{"backbone.layers.63.mixer.A_log", "backbone.layers.63", "other"},
		{"12", verify.OutsideLayers, "other"},
		{"", verify.OutsideLayers, "other"},
	} {
		require.Equal(t, x[1], verify.LayerOf(x[0]), x[0])
		require.Equal(t, x[2], verify.PartOf(x[0]), x[0])
	}
}

func measured(name string, changed int64, err2 float64) tensor.Record {
	s := &tensor.Stats{Count: 10, Finite: 10, Changed: changed, SumErr2: err2, SumRef2: 10, MaxAbs: err2, MaxIndex: 4}
	if changed == 0 {
		s.MaxIndex = -1
	}
	return tensor.Record{Name: name, From: "F32", To: "BF16", Shape: []int64{10}, SizeIn: 40, SizeOut: 20, Stats: s}
}

func names(groups []verify.Group) (list []string) {
	for _, g := range groups {
		list = append(list, g.Name)
	}
	return list
}

func TestGroupBy(t *testing.T) {
	records := []tensor.Record{
		measured("lm_head.weight", 0, 0), measured("v.layers.10.mlp.a", 1, 1e-3), measured("v.layers.2.mlp.a", 2, 1e-2),
		measured("v.layers.2.attn.a", 3, 1e-1), measured("a.layers.0.attn.a", 4, 1e-5), {Name: "v.layers.2.ids", From: "I64", To: "I64", SizeIn: 8, SizeOut: 8},
	}
	layers := verify.GroupBy(records, verify.ByLayer)
	require.Equal(t, []string{"v.layers.2", "v.layers.10", "a.layers.0", verify.OutsideLayers}, names(layers))
	g := layers[0]
	require.Equal(t, []int{3, 2}, []int{g.Tensors, g.Measured})
	require.Equal(t, []int64{88, 48, 20, 5, 4}, []int64{g.BytesIn, g.BytesOut, g.Stats.Count, g.Stats.Changed, g.Stats.MaxIndex})
	require.Equal(t, "v.layers.2.attn.a", g.Largest)
	require.Equal(t, 1e-2+1e-1, g.Stats.SumErr2, "in order")
	require.InDelta(t, 22.6, *g.Figures.SNR, 0.1)
	require.Equal(t, []string{"v.layers.2", "v.layers.10"}, names(verify.WorstGroups(layers, 2)))
	require.Equal(t, []string{"attention", "mlp", "head", "other"}, names(verify.GroupBy(records, verify.ByPart)))
	types := verify.GroupBy(records, verify.ByType)
	require.Equal(t, []string{"F32 -> BF16", "I64"}, names(types))
	require.Nil(t, types[1].Figures, "nothing was measured")
	require.Len(t, verify.GroupBy(records, verify.ByTensor), 6)
	require.Equal(t, []verify.Group{}, verify.GroupBy(nil, verify.ByLayer))
}

// TestGroupsAddUp: whatever records are added up by, the whole is the whole.
func TestGroupsAddUp(t *testing.T) {
	records := []tensor.Record{measured("a.1.x", 1, 1), measured("a.2.norm", 2, 0.5), measured("wte", 3, 0.25), measured("b", 0, 0)}
	whole := verify.Summarize(records)
	g := verify.NewGroups(records)
	for _, groups := range [][]verify.Group{g.Layers, g.Parts, g.Types} {
		sum, tensors := tensor.Stats{}, 0
		for _, x := range groups {
			tensors += x.Tensors
			sum.Merge(&x.Stats)
		}
		require.Equal(t, 4, tensors)
		require.Equal(t, whole.Stats.Changed, sum.Changed)
		require.Equal(t, whole.Stats.SumErr2, sum.SumErr2) // of powers of two
	}
}

func TestParseBy(t *testing.T) {
	by, err := verify.ParseBy("layer")
	require.NoError(t, err)
	require.Equal(t, verify.ByLayer, by)
	_, err = verify.ParseBy("colour")
	require.ErrorContains(t, err, "tensor, layer, part, type")
}
