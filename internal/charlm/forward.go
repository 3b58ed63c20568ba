package charlm

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// Loss runs the model over the subset of held-out windows that model.json
// names and returns the mean loss in nats per predicted character: in each
// window, every character but the first, predicted from those before it.
//
// weight is called once for each tensor, by its Hugging Face name, from the
// caller's goroutine; it returns the values row-major, and Loss doesn't keep
// or change them. The result doesn't depend on the number of processors.
func (m *Model) Loss(weight func(name string) ([]float32, error)) (float64, error) {
	w, err := m.weights(weight)
	if err != nil {
		return 0, err
	}
	nats := make([]float64, len(m.windows))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(nats)) {
		wg.Go(func() {
			r := newRun(m, w)
			for i := int(next.Add(1)) - 1; i < len(nats); i = int(next.Add(1)) - 1 {
				nats[i] = r.window(m.windows[i])
			}
		})
	}
	wg.Wait()
	total := 0.0
	for _, n := range nats {
		total += n
	}
	return total / float64(len(nats)*(m.Context-1)), nil
}

// run is the scratch space of one goroutine; matrices are [time][feature].
type run struct {
	m                            *Model
	w                            *weights
	cos, sin                     []float32 // [time][HeadDim/2]
	x, norm, q, k, v, mix, delta []float32
	gate, up, logits, score      []float32
}

// newRun makes the scratch space and the table of rotary angles.
func newRun(m *Model, w *weights) *run {
	t, half := m.Context, m.HeadDim/2
	r := &run{m: m, w: w, cos: make([]float32, t*half), sin: make([]float32, t*half)}
	for _, p := range []*[]float32{&r.x, &r.norm, &r.q, &r.k, &r.v, &r.mix, &r.delta} {
		*p = make([]float32, t*m.Hidden)
	}
	r.gate, r.up = make([]float32, t*m.Intermediate), make([]float32, t*m.Intermediate)
	r.logits, r.score = make([]float32, t*len(m.Vocab)), make([]float32, t)
	for pos := range t {
		for i := range half {
			sin, cos := math.Sincos(float64(pos) * math.Pow(m.RopeTheta, -2*float64(i)/float64(m.HeadDim)))
			r.cos[pos*half+i], r.sin[pos*half+i] = float32(cos), float32(sin)
		}
	}
	return r
}

// window returns the summed loss over one window of token ids.
func (r *run) window(ids []int) float64 {
	h := r.m.Hidden
	for t, id := range ids {
		copy(r.x[t*h:(t+1)*h], r.w.embed[id*h:])
	}
	for i := range r.w.layers {
		l := &r.w.layers[i]
		r.rmsNorm(l.attnNorm)
		r.attention(l)
		r.add()
		r.rmsNorm(l.mlpNorm)
		r.mlp(l)
		r.add()
	}
	r.rmsNorm(r.w.norm)
	matmul(r.logits, r.norm, r.w.head, h)
	vocab, total := len(r.m.Vocab), 0.0
	for t, id := range ids[1:] {
		total += surprise(r.logits[t*vocab:(t+1)*vocab], id)
	}
	return total
}

// surprise is the cross entropy of one prediction: log(sum(exp(logits))) less the logit of id.
func surprise(logits []float32, id int) float64 {
	top := float64(logits[0])
	for _, v := range logits {
		top = math.Max(top, float64(v))
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top - float64(logits[id])
}

// rmsNorm sets norm to x, each row scaled to a root mean square of one and then by gain.
func (r *run) rmsNorm(gain []float32) {
	h := r.m.Hidden
	for t := 0; t < len(r.x); t += h {
		row, out := r.x[t:t+h], r.norm[t:t+h]
		sum := float32(0)
		for _, v := range row {
			sum += v * v
		}
		scale := float32(1 / math.Sqrt(float64(sum)/float64(h)+r.m.NormEps))
		for i, v := range row {
			out[i] = gain[i] * (v * scale)
		}
	}
}

// add adds delta to x.
func (r *run) add() {
	for i, v := range r.delta {
		r.x[i] += v
	}
}

// mlp sets delta to down(silu(gate(norm)) * up(norm)).
func (r *run) mlp(l *layer) {
	matmul(r.gate, r.norm, l.gate, r.m.Hidden)
	matmul(r.up, r.norm, l.up, r.m.Hidden)
	for i, g := range r.gate {
		r.gate[i] = g / (1 + exp(-g)) * r.up[i]
	}
	matmul(r.delta, r.gate, l.down, r.m.Intermediate)
}

// attention sets delta to the causal self-attention of norm.
func (r *run) attention(l *layer) {
	matmul(r.q, r.norm, l.q, r.m.Hidden)
	matmul(r.k, r.norm, l.k, r.m.Hidden)
	matmul(r.v, r.norm, l.v, r.m.Hidden)
	r.rotate(r.q)
	r.rotate(r.k)
	for head := range r.m.Heads {
		for t := range r.m.Context {
			r.attend(head*r.m.HeadDim, t)
		}
	}
	matmul(r.delta, r.mix, l.o, r.m.Hidden)
}

// rotate applies rotary embeddings to pairs half a head apart.
func (r *run) rotate(x []float32) {
	half := r.m.HeadDim / 2
	for t := range r.m.Context {
		cos, sin := r.cos[t*half:(t+1)*half], r.sin[t*half:(t+1)*half]
		row := x[t*r.m.Hidden : (t+1)*r.m.Hidden]
		for ; len(row) > 0; row = row[2*half:] {
			for i := range half {
				a, b := row[i], row[i+half]
				row[i], row[i+half] = a*cos[i]-b*sin[i], b*cos[i]+a*sin[i]
			}
		}
	}
}

// attend mixes the values of positions 0 to t for the head whose features begin at col.
func (r *run) attend(col, t int) {
	h, d := r.m.Hidden, r.m.HeadDim
	q, out, score := r.q[t*h+col:][:d], r.mix[t*h+col:][:d], r.score[:t+1]
	scale, top := float32(1/math.Sqrt(float64(d))), float32(math.Inf(-1))
	for s := range score {
		score[s] = dot(q, r.k[s*h+col:][:d]) * scale
		top = max(top, score[s])
	}
	sum := float32(0)
	for s, v := range score {
		score[s] = exp(v - top)
		sum += score[s]
	}
	clear(out)
	for s, p := range score {
		p /= sum
		for i, v := range r.v[s*h+col:][:d] {
			out[i] += p * v
		}
	}
}

// exp is e to the x.
func exp(x float32) float32 { return float32(math.Exp(float64(x))) }
