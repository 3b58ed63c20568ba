package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// What is known of the names and layouts of models in GGUF and in Hugging
// Face's own files is from llama.cpp: gguf-py/gguf/tensor_mapping.py for names,
// conversion/llama.py (LlamaModel.permute) for the order of rows, and
// conversion/gemma.py for norms.

// A Mapping says what MapNames has done.
type Mapping struct {
	Family   string `json:"family"`   // general.architecture of the GGUF side; "" if it does not say
	Renamed  int    `json:"renamed"`  // tensors of Hugging Face's names that have one in GGUF
	Permuted int    `json:"permuted"` // those of them whose rows are read in another order
	Shifted  int    `json:"shifted"`  // norms to which 1 is added
	// Uncertain are the names, as in got, of mapped tensors whose layout may
	// differ: no transform is known for their family, or what it needs is not
	// there.
	Uncertain []string `json:"uncertain"`
}

// families are the architectures whose transforms are known.
var families = map[string]struct {
	permuted bool // rows of Q and K, for another rotary embedding
	shifted  bool // norms hold 1 more than in Hugging Face's files
	sandwich bool // norms before and after each block
}{
	"llama": {permuted: true}, "granite": {permuted: true},
	"gemma": {shifted: true}, "gemma2": {shifted: true, sandwich: true}, "gemma3": {shifted: true, sandwich: true},
	"qwen2": {}, "qwen3": {},
}

var (
	outside = map[string]string{
		"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight",
	}
	inBlock = map[string]string{
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
		"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
		"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
		"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
		"mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
	}
	inSandwich = map[string]string{
		"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
		"post_feedforward_layernorm": "post_ffw_norm",
	}
	prefix = regexp.MustCompile(`^(language_model\.model\.|model\.language_model\.|language_model\.|model\.)`)
	block  = regexp.MustCompile(`^layers\.(\d+)\.(.+)\.(weight|bias)$`)
)

// ggufName returns the name in GGUF of a tensor of Hugging Face's; "" if none is
// known.
func ggufName(name string, sandwich bool) string {
	rest := prefix.ReplaceAllString(name, "")
	if out := outside[rest]; out != "" {
		return out
	}
	m := block.FindStringSubmatch(rest)
	if m == nil {
		return ""
	}
	short := inBlock[m[2]]
	if s := inSandwich[m[2]]; sandwich && s != "" {
		short = s
	}
	if short == "" {
		return ""
	}
	return "blk." + m[1] + "." + short + "." + m[3]
}

// MapNames returns ref under the names of got, and both so that values that
// belong together lie at one place, where one of them has the names of GGUF and
// the other those of Hugging Face: transforms are made on the side of Hugging
// Face. Rows are read where they are, in the same bounded memory. Sources that
// are named alike come back as they are.
func MapNames(ref, got tensor.Source) (tensor.Source, tensor.Source, *Mapping, error) {
	m := &mapper{Mapping: Mapping{Uncertain: []string{}}}
	refGGUF, gotGGUF := namedLikeGGUF(ref), namedLikeGGUF(got)
	if refGGUF == gotGGUF {
		return ref, got, &m.Mapping, nil
	}
	hf, gguf := newRemapped(ref), newRemapped(got)
	if refGGUF {
		hf, gguf = gguf, hf
	}
	m.meta = gguf.Meta()
	m.Family, _ = m.meta.Text("general.architecture")
	renamed := m.transform(hf)
	if !refGGUF {
		for i, to := range renamed {
			hf.infos[i].Name = to
		}
		return hf, gguf, &m.Mapping, hf.unique()
	}
	back := make(map[string]string, len(renamed))
	for i, to := range renamed {
		back[to] = hf.infos[i].Name
	}
	for i := range gguf.infos {
		if name, ok := back[gguf.infos[i].Name]; ok {
			gguf.infos[i].Name = name
		}
	}
	for i, name := range m.Uncertain {
		m.Uncertain[i] = back[name]
	}
	return gguf, hf, &m.Mapping, gguf.unique()
}

func namedLikeGGUF(src tensor.Source) bool {
	return slices.ContainsFunc(src.Tensors(), func(in tensor.Info) bool {
		return in.Name == "token_embd.weight" || strings.HasPrefix(in.Name, "blk.")
	})
}

// A mapper makes one Mapping.
type mapper struct {
	Mapping
	meta tensor.Metadata
}

// transform gives the tensors of hf their transforms and returns their names in
// GGUF.
func (m *mapper) transform(hf *remapped) map[int]string {
	family, known := families[m.Family]
	renamed := map[int]string{}
	for i := range hf.infos {
		in := &hf.infos[i]
		to := ggufName(in.Name, family.sandwich)
		if to == "" {
			continue
		}
		renamed[i] = to
		m.Renamed++
		certain := known
		switch heads := m.heads(to); {
		case known && family.permuted && heads != "":
			certain = m.permute(hf, i, heads)
		case known && family.shifted && strings.HasSuffix(to, "norm.weight"):
			certain = m.shift(hf, i)
		}
		if !certain {
			m.Uncertain = append(m.Uncertain, to)
		}
	}
	return renamed
}

// heads returns the key of the number of heads in a tensor of Q or K; "" for
// any other.
func (m *mapper) heads(name string) string {
	switch {
	case strings.Contains(name, ".attn_q."):
		return m.Family + ".attention.head_count"
	case strings.Contains(name, ".attn_k."):
		return m.Family + ".attention.head_count_kv"
	}
	return ""
}

// permute lets the rows of tensor i come in the order of GGUF: a head has
// halves in Hugging Face's files, pairs there.
func (m *mapper) permute(hf *remapped, i int, key string) bool {
	in := &hf.infos[i]
	heads, ok := m.number(key)
	if !ok {
		heads, ok = m.number(m.Family + ".attention.head_count") // as many for K as for Q
	}
	if !ok || heads == 0 || len(in.Shape) == 0 || in.Size == 0 {
		return false
	}
	rows := in.Shape[0]
	if rows%heads != 0 || rows/heads%2 != 0 || in.Size%rows != 0 {
		return false
	}
	dim := rows / heads
	from := func(r int64) int64 { return r/dim*dim + r%2*(dim/2) + r%dim/2 }
	row, size := in.Size/rows, in.Size
	hf.data[i] = func(r io.ReaderAt) io.ReaderAt { return &permuted{r, row, size, from} }
	m.Permuted++
	return true
}

func (m *mapper) number(key string) (int64, bool) {
	v, _ := m.meta.Get(key)
	switch v := v.(type) {
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), v > 0
	}
	return 0, false
}

// shift adds 1 to a norm, in the type that the converter adds it in: F16 stays
// F16, all others become F32 before.
func (m *mapper) shift(hf *remapped, i int) bool {
	in := &hf.infos[i]
	n := in.Elements()
	if !in.DType.IsFloat() || len(in.Shape) != 1 || n > tile.Elems {
		return false
	}
	from, size := in.DType, in.Size
	if from != tensor.F16 {
		in.DType, in.Size = tensor.F32, 4*n
	}
	hf.data[i] = func(r io.ReaderAt) io.ReaderAt { return &shifted{r, from, size} }
	m.Shifted++
	return true
}

// shifted reads a small tensor with 1 added to each value.
type shifted struct {
	r    io.ReaderAt
	from tensor.DType
	size int64 // bytes, before
}

// ReadAt reads all of the tensor at each call.
func (s *shifted) ReadAt(p []byte, off int64) (int, error) {
	b := tile.NewBuffer(int(s.size))
	if n, err := s.r.ReadAt(b, 0); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %d of %d bytes are there", tensor.ErrTruncated, n, len(b))
		}
		return 0, err
	}
	tile.Swap(b, s.from.Bits())
	n := len(b) / (s.from.Bits() / 8)
	wide := tile.NewBuffer(4 * n)
	x := tile.Float32s(wide)
	if s.from == tensor.F64 {
		kernels.F64ToF32(x, tile.Float64s(b), kernels.Mode{})
	} else {
		Widen(x, s.from, b)
	}
	for i := range x {
		x[i]++
	}
	out := wide
	if s.from == tensor.F16 {
		kernels.F32ToF16(tile.Uint16s(b), x, kernels.Mode{})
		out = b
	}
	tile.Swap(out, len(out)/max(n, 1)*8)
	return bytes.NewReader(out).ReadAt(p, off)
}
