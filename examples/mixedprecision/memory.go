package main

import "github.com/demi-weights/demi/kernels"

// A format is a type in which numbers are stored; narrow is nil for FP32.
type format struct {
	name   string
	narrow func(dst []uint16, src []float32, m kernels.Mode)
	widen  func(dst []float32, src []uint16)
}

var (
	fp32 = format{name: "FP32"}
	fp16 = format{"FP16", kernels.F32ToF16, kernels.F16ToF32}
	bf16 = format{"BF16", kernels.F32ToBF16, kernels.BF16ToF32}
)

// A memory is where numbers of a format are stored.
type memory struct {
	format
	mode kernels.Mode
	half []uint16

	numbers, vanished int // that were not zero before they were stored, and of those that were then
}

// pass stores x and loads it again.
func (m *memory) pass(x []float32) {
	if m.narrow == nil {
		return
	}
	if len(m.half) < len(x) {
		m.half = make([]uint16, len(x))
	}
	h := m.half[:len(x)]
	m.narrow(h, x, m.mode)
	before := nonzero(x)
	m.widen(x, h)
	m.numbers, m.vanished = m.numbers+before, m.vanished+before-nonzero(x)
	m.mode.First += int64(len(x)) // new random bits the next time
}

func nonzero(x []float32) (n int) {
	for _, v := range x {
		if v != 0 {
			n++
		}
	}
	return n
}

// A scaler is dynamic loss scaling: the loss, and with it every gradient, is
// multiplied by a power of two, which doubles after a number of steps without
// overflow and halves, with the step left out, when there is one.
type scaler struct {
	scale float32
	good  int // steps since it changed
}

// raise is the number of good steps after which the scale doubles.
const raise = 200

// finite tells whether the gradients of a step can be used, and adapts.
func (s *scaler) finite(grad []float32) bool {
	for _, g := range grad {
		if g-g != 0 { // Inf or NaN
			s.scale, s.good = s.scale/2, 0
			return false
		}
	}
	if s.good++; s.good == raise {
		s.scale, s.good = s.scale*2, 0
	}
	return true
}
