package charlm

import "fmt"

// weights holds every tensor of a model, row-major, as [out][in].
type weights struct {
	embed, norm, head []float32
	layers            []layer
}

// layer holds the tensors of one transformer layer.
type layer struct {
	attnNorm, q, k, v, o    []float32
	mlpNorm, gate, up, down []float32
}

// weights asks get for every tensor and checks the number of elements.
func (m *Model) weights(get func(name string) ([]float32, error)) (*weights, error) {
	w := &weights{layers: make([]layer, m.Layers)}
	var failed error
	load := func(dst *[]float32, name string, elements int) {
		if failed != nil {
			return
		}
		data, err := get(name)
		if err == nil && len(data) != elements {
			err = fmt.Errorf("%d elements, expected %d", len(data), elements)
		}
		if err != nil {
			failed = fmt.Errorf("charlm: tensor %q: %w", name, err)
		}
		*dst = data
	}
	load(&w.embed, "model.embed_tokens.weight", len(m.Vocab)*m.Hidden)
	for i := range w.layers {
		m.loadLayer(load, &w.layers[i], fmt.Sprintf("model.layers.%d.", i))
	}
	load(&w.norm, "model.norm.weight", m.Hidden)
	load(&w.head, "lm_head.weight", len(m.Vocab)*m.Hidden)
	return w, failed
}

// loadLayer loads the tensors of one layer, whose names begin with prefix.
func (m *Model) loadLayer(load func(*[]float32, string, int), l *layer, prefix string) {
	h, f := m.Hidden, m.Intermediate
	load(&l.attnNorm, prefix+"input_layernorm.weight", h)
	load(&l.q, prefix+"self_attn.q_proj.weight", h*h)
	load(&l.k, prefix+"self_attn.k_proj.weight", h*h)
	load(&l.v, prefix+"self_attn.v_proj.weight", h*h)
	load(&l.o, prefix+"self_attn.o_proj.weight", h*h)
	load(&l.mlpNorm, prefix+"post_attention_layernorm.weight", h)
	load(&l.gate, prefix+"mlp.gate_proj.weight", f*h)
	load(&l.up, prefix+"mlp.up_proj.weight", f*h)
	load(&l.down, prefix+"mlp.down_proj.weight", h*f)
}
