package verify_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A model is a source with metadata.
type model struct {
	*source
	meta tensor.Metadata
}

func (m model) Meta() tensor.Metadata { return m.meta }

func gguf(family string, heads, kv uint32) model {
	return model{new(source), tensor.Metadata{{Key: "general.architecture", Value: family},
		{Key: family + ".attention.head_count", Value: heads}, {Key: family + ".attention.head_count_kv", Value: kv}}}
}

// permuteRows is reshape(heads, 2, rows/heads/2, cols).swapaxes(1, 2) of NumPy,
// written from its definition.
func permuteRows(x []float32, heads, rows int) (y []float32) {
	cols, half := len(x)/rows, rows/heads/2
	for h := range heads {
		for i := range half {
			for s := range 2 {
				r := (h*2+s)*half + i
				y = append(y, x[r*cols:(r+1)*cols]...)
			}
		}
	}
	return y
}

func TestMapNamesOfLlama(t *testing.T) {
	q, k, v, norm, bias := gauss(1, 32*200, 1), gauss(2, 16*200, 1), gauss(3, 16*200, 1), gauss(4, 200, 1), gauss(5, 32, 1)
	hf := new(source).add("model.embed_tokens.weight", tensor.F32, bytes32(v), 16, 200).
		add("model.layers.3.self_attn.q_proj.weight", tensor.F32, bytes32(q), 32, 200).
		add("model.layers.3.self_attn.q_proj.bias", tensor.F32, bytes32(bias), 32).
		add("model.layers.3.self_attn.k_proj.weight", tensor.F32, bytes32(k), 16, 200).
		add("model.layers.3.self_attn.v_proj.weight", tensor.F32, bytes32(v), 16, 200).
		add("model.layers.3.input_layernorm.weight", tensor.F32, bytes32(norm), 200)
	g := gguf("llama", 4, 2)
	g.add("token_embd.weight", tensor.F32, bytes32(v), 16, 200).
		add("blk.3.attn_q.weight", tensor.BF16, narrow(tensor.BF16, permuteRows(q, 4, 32), kernels.Mode{}), 32, 200).
		add("blk.3.attn_q.bias", tensor.F32, bytes32(permuteRows(bias, 4, 32)), 32).
		add("blk.3.attn_k.weight", tensor.F32, bytes32(permuteRows(k, 2, 16)), 16, 200).
		add("blk.3.attn_v.weight", tensor.F32, bytes32(v), 16, 200).
		add("blk.3.attn_norm.weight", tensor.F32, bytes32(norm), 200)
	for _, pair := range [][2]tensor.Source{{hf, g}, {g, hf}} {
		ref, got, m, err := verify.MapNames(pair[0], pair[1])
		require.NoError(t, err)
		require.Equal(t, &verify.Mapping{Family: "llama", Renamed: 6, Permuted: 3, Uncertain: []string{}}, m)
		r := measure(t, ref, got, verify.Options{Explain: true})
		require.Empty(t, r.Problems)
		for i, x := range r.Records {
			require.Equal(t, pair[1].Tensors()[i].Name, x.Name, "names are those of got")
			if i != 1 {
				require.Zero(t, x.Stats.Changed, x.Name)
			}
		}
		if pair[0] == tensor.Source(hf) {
			require.Contains(t, r.Explanations[1].Rules, "nearest-even")
		}
	}
	plain := new(source).add("model.layers.3.input_layernorm.weight", tensor.F32, bytes32(norm), 200)
	ref, got, m, err := verify.MapNames(hf, plain)
	require.NoError(t, err)
	require.Zero(t, m.Renamed)
	require.Same(t, hf, ref.(*source))
	require.Same(t, plain, got.(*source))
}

func TestMapNamesOfGemma(t *testing.T) {
	norm, w := gauss(1, 100, 0.3), gauss(2, 800, 1)
	plus := make([]float32, len(norm))
	for _, from := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F64} {
		stored := encode(from, wide(norm))
		for i, x := range decode(from, stored) {
			plus[i] = float32(x) + 1
		}
		to, want := tensor.F32, bytes32(plus)
		if from == tensor.F16 {
			to, want = tensor.F16, narrow(tensor.F16, plus, kernels.Mode{})
		}
		hf := new(source).add("model.layers.0.post_attention_layernorm.weight", from, stored, 100).
			add("model.layers.0.pre_feedforward_layernorm.weight", from, stored, 100).
			add("model.layers.0.self_attn.q_proj.weight", tensor.F32, bytes32(w), 8, 100)
		g := gguf("gemma2", 4, 2)
		g.add("blk.0.post_attention_norm.weight", to, want, 100).add("blk.0.ffn_norm.weight", to, want, 100).
			add("blk.0.attn_q.weight", tensor.F32, bytes32(w), 8, 100)
		ref, got, m, err := verify.MapNames(hf, g)
		require.NoError(t, err)
		require.Equal(t, 2, m.Shifted)
		require.Empty(t, m.Uncertain)
		r := measure(t, ref, got, verify.Options{})
		require.Empty(t, r.Problems)
		for _, x := range r.Records {
			require.Zero(t, x.Stats.Changed, "%v: %s", from, x.Name)
		}
	}
}

func wide(x []float32) (y []float64) {
	for _, f := range x {
		y = append(y, float64(f))
	}
	return y
}

// Of an architecture that is not known, of heads that are not told, nothing is
// claimed.
func TestLayoutMayDiffer(t *testing.T) {
	w := gauss(2, 800, 1)
	hf := new(source).add("model.layers.0.self_attn.q_proj.weight", tensor.F32, bytes32(w), 8, 100).
		add("model.layers.0.mlp.down_proj.weight", tensor.F32, bytes32(w), 8, 100)
	for family, want := range map[string][]string{"new": {"blk.0.attn_q.weight", "blk.0.ffn_down.weight"}, "llama": {"blk.0.attn_q.weight"}} {
		g := gguf(family, 3, 3) // no divisor of 8
		g.add("blk.0.attn_q.weight", tensor.F32, bytes32(w), 4, 200).add("blk.0.ffn_down.weight", tensor.F32, bytes32(w), 8, 100)
		ref, got, m, err := verify.MapNames(hf, g)
		require.NoError(t, err)
		require.Equal(t, want, m.Uncertain)
		r := measure(t, ref, got, verify.Options{Uncertain: func(name string) bool { return slices.Contains(m.Uncertain, name) }})
		require.Empty(t, r.Problems)
		require.Equal(t, []verify.Problem{{Tensor: "blk.0.attn_q.weight", Text: "shape [8 100] became [4 200]"}}, r.Allowed)
	}
}

func TestRename(t *testing.T) {
	src := new(source)
	for i := range 3 {
		src.add(fmt.Sprintf("encoder.%d.w", i), tensor.F32, make([]byte, 4), 1)
	}
	r, err := verify.ParseRenaming(`^encoder\.(\d+)\.=layer=$1/`)
	require.NoError(t, err)
	require.Equal(t, "$1/", r.To, "the last = divides")
	r, err = verify.ParseRenaming(`^encoder\.(\d+)\.=layers.${1}.`)
	require.NoError(t, err)
	renamed, err := verify.Rename(src, []verify.Renaming{r})
	require.NoError(t, err)
	require.Equal(t, "layers.2.w", renamed.Tensors()[2].Name)
	require.Equal(t, "encoder.2.w", src.Tensors()[2].Name)
	r, err = verify.ParseRenaming(`\d+=x`)
	require.NoError(t, err)
	_, err = verify.Rename(src, []verify.Renaming{r})
	require.ErrorContains(t, err, `tensors "encoder.0.w" and "encoder.1.w" both get the name "encoder.x.w"`)
	_, err = verify.ParseRenaming("abc")
	require.Error(t, err)
	_, err = verify.ParseRenaming("(=x")
	require.Error(t, err)
}

// What goes wrong in practice is found and named.
func TestFaultsAreFound(t *testing.T) {
	const n = 1_000_003
	a, b := gauss(1, n, 0.02), gauss(2, n, 0.02)
	ref := new(source).add("a", tensor.F32, bytes32(a), n).add("b", tensor.F32, bytes32(b), n)
	ha, hb := narrow(tensor.BF16, a, kernels.Mode{}), narrow(tensor.BF16, b, kernels.Mode{})
	limit := 50.0
	set := verify.LimitSet{Default: verify.Limits{MinSNR: &limit}}
	check := func(x, y []byte) []verify.Violation {
		got := new(source).add("a", tensor.BF16, x, n).add("b", tensor.BF16, y, n)
		return set.Check(measure(t, ref, got, verify.Options{}))
	}
	require.Empty(t, check(ha, hb))
	swapped := check(hb, ha)
	require.Len(t, swapped, 2)
	require.Equal(t, "a", swapped[0].Tensor)

	flipped := slices.Clone(hb) // signs of every hundredth value
	for i := 1; i < len(flipped); i += 200 {
		flipped[i] ^= 0x80
	}
	found := check(ha, flipped)
	require.Len(t, found, 1)
	require.Equal(t, "b", found[0].Tensor)

	one := slices.Clone(hb)
	const at = 765_432
	one[2*at+1] ^= 0x10 // an exponent
	r := measure(t, ref, new(source).add("a", tensor.BF16, ha, n).add("b", tensor.BF16, one, n), verify.Options{})
	require.EqualValues(t, at, r.Records[1].Stats.MaxIndex)
	require.Equal(t, float64(b[at]), r.Records[1].Stats.MaxRef)

	nan := slices.Clone(b)
	nan[at] = float32(math.NaN())
	lost := measure(t, new(source).add("b", tensor.F32, bytes32(nan), n), new(source).add("b", tensor.BF16, hb, n), verify.Options{})
	require.EqualValues(t, 1, lost.Records[0].Stats.NaNLost)
	require.Equal(t, []verify.Violation{{Tensor: "b", Limit: "finite", Text: "1 values that are not finite were lost or made"}}, set.Check(lost))
	binary.LittleEndian.PutUint16(hb[2*at:], 0x7fc0)
	kept := measure(t, new(source).add("b", tensor.F32, bytes32(nan), n), new(source).add("b", tensor.BF16, hb, n), verify.Options{})
	require.Empty(t, set.Check(kept))
}
