package main

import (
	"math/rand/v2"
)

const (
	batch  = 64
	inputs = 4
	hidden = 32

	// unit is the size of the targets, as of lengths in metres where
	// millimetres matter: gradients are about its square.
	unit = 0x1p-12
)

// A network has one hidden layer of max(0, x). All its numbers are in one list.
type network struct {
	params               []float32
	w1, b1, w2, b2       []float32 // parts of params
	x, h, dh             []float32 // of a batch
	target, output, dOut []float32
	grad                 []float32
	gw1, gb1, gw2, gb2   []float32 // parts of grad
}

func newNetwork() *network {
	n := &network{params: make([]float32, hidden*(inputs+2)+1), grad: make([]float32, hidden*(inputs+2)+1)}
	n.w1, n.b1, n.w2, n.b2 = split(n.params)
	n.gw1, n.gb1, n.gw2, n.gb2 = split(n.grad)
	n.x, n.h, n.dh = make([]float32, batch*inputs), make([]float32, batch*hidden), make([]float32, batch*hidden)
	n.target, n.output, n.dOut = make([]float32, batch), make([]float32, batch), make([]float32, batch)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n.w1 {
		n.w1[i] = r.Float32()*2 - 1
	}
	for i := range n.w2 {
		n.w2[i] = (r.Float32()*2 - 1) / 2
	}
	return n
}

func split(p []float32) (w1, b1, w2, b2 []float32) {
	a, b, c := hidden*inputs, hidden*inputs+hidden, hidden*inputs+2*hidden
	return p[:a], p[a:b], p[b:c], p[c:]
}

// draw makes a batch.
func (n *network) draw(r *rand.Rand) {
	for i := range n.x {
		n.x[i] = r.Float32()*2 - 1
	}
	for k := range batch {
		x := n.x[k*inputs:]
		y := float32(x[0]*x[1]) + max(x[2], x[3]) - 1.0/3 // of mean 0
		n.target[k] = unit * y
	}
}

// forward computes the outputs. Activations are stored in m.
func (n *network) forward(m *memory) {
	for k := range batch {
		for j := range hidden {
			n.h[k*hidden+j] = max(0, n.b1[j]+dot(n.w1[j*inputs:(j+1)*inputs], n.x[k*inputs:]))
		}
	}
	m.pass(n.h)
	for k := range batch {
		n.output[k] = unit * (n.b2[0] + dot(n.w2, n.h[k*hidden:]))
	}
}

// dot is a sum of products. The conversions keep compilers from fusing a
// multiplication with an addition, which would round differently.
func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += float32(v * b[i])
	}
	return sum
}

// backward computes the gradients of the mean squared error times scale, which
// are stored in m: those of the outputs, of the activations, of the weights.
func (n *network) backward(m *memory, scale float32) {
	for k := range batch {
		n.dOut[k] = float32(float32(n.output[k]-n.target[k])*(2.0/batch)*scale) * unit
	}
	m.pass(n.dOut)
	clear(n.grad)
	for k, d := range n.dOut {
		n.gb2[0] += d
		for j := range hidden {
			h := n.h[k*hidden+j]
			n.gw2[j] += float32(d * h)
			n.dh[k*hidden+j] = 0
			if h > 0 {
				n.dh[k*hidden+j] = d * n.w2[j]
			}
		}
	}
	m.pass(n.dh)
	for k := range batch {
		for j := range hidden {
			d := n.dh[k*hidden+j]
			n.gb1[j] += d
			for i := range inputs {
				n.gw1[j*inputs+i] += float32(d * n.x[k*inputs+i])
			}
		}
	}
	m.pass(n.grad)
}
