package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/demi-weights/demi/kernels"
)

const (
	steps = 2000
	rate  = 2e-4 // of Adam

	// firstScale is that of loss scaling: too large, as it finds out.
	firstScale = 0x1p48
)

// A recipe says how to train.
type recipe struct {
	name    string
	format  format
	weights kernels.Mode // how weights are rounded
	master  bool         // weights are summed up in FP32, and stored for computing only
	scaling bool
}

// A trainer is one run.
type trainer struct {
	recipe
	net    *network
	sum    []float32 // the weights that updates go to: the master weights, or those that are stored
	adam   *adam
	scaler scaler
	values memory // of activations
	grads  memory // of gradients
	stored memory // of weights

	lost, updates, skipped int
}

// train trains by a recipe, always on the same numbers.
func train(r recipe) result {
	t := &trainer{recipe: r, net: newNetwork(), scaler: scaler{scale: 1}}
	t.values, t.grads = memory{format: r.format}, memory{format: r.format}
	t.stored = memory{format: r.format, mode: r.weights}
	if r.scaling {
		t.scaler.scale = firstScale
	}
	t.sum = slices.Clone(t.net.params)
	t.adam = newAdam(len(t.sum))
	data := rand.New(rand.NewPCG(2, 2))
	t.store()
	for range steps {
		t.step(data)
	}
	return result{r.name, t.evaluate(), share(t.grads.vanished, t.grads.numbers), share(t.lost, t.updates), t.skipped}
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// step is one step of training.
func (t *trainer) step(data *rand.Rand) {
	scale := t.scaler.scale
	t.net.draw(data)
	t.net.forward(&t.values)
	t.net.backward(&t.grads, scale)
	if t.scaling && !t.scaler.finite(t.net.grad) {
		t.skipped++
		return
	}
	before := slices.Clone(t.sum)
	t.adam.tick()
	for i, g := range t.net.grad {
		t.sum[i] -= t.adam.update(i, g/scale)
	}
	t.store()
	for i, g := range t.net.grad {
		if g != 0 {
			t.updates++
			if t.sum[i] == before[i] {
				t.lost++
			}
		}
	}
}

// store stores the weights that are computed with.
func (t *trainer) store() {
	copy(t.net.params, t.sum)
	t.stored.pass(t.net.params)
	if !t.master {
		copy(t.sum, t.net.params)
	}
}

// evaluate returns the mean squared error on new data by the variance of the
// targets.
func (t *trainer) evaluate() float64 {
	data := rand.New(rand.NewPCG(3, 3))
	var err2, ref2 float64
	for range 50 {
		t.net.draw(data)
		t.net.forward(&t.values)
		for k, y := range t.net.target {
			d := float64(t.net.output[k] - y)
			err2 += float64(d * d)
			ref2 += float64(float64(y) * float64(y))
		}
	}
	return err2 / ref2
}

// An adam is the state of the optimiser, in FP32.
type adam struct {
	m, v   []float32
	b1, b2 float32 // the powers of the decay rates so far
}

func newAdam(n int) *adam { return &adam{make([]float32, n), make([]float32, n), 1, 1} }

// update returns what to subtract from a weight.
func (a *adam) update(i int, g float32) float32 {
	a.m[i] = float32(0.9*a.m[i]) + float32(0.1*g)
	a.v[i] = float32(0.99*a.v[i]) + float32(0.01*float32(g*g))
	m, v := a.m[i]/(1-a.b1), a.v[i]/(1-a.b2)
	return rate * m / (float32(math.Sqrt(float64(v))) + 1e-14)
}

// tick begins a step.
func (a *adam) tick() { a.b1, a.b2 = a.b1*0.9, a.b2*0.99 }
