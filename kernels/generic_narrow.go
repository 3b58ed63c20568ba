package kernels

import "math"

// slow32 converts one float32 that the loops leave aside.
func (n *narrower) slow32(b uint32) uint16 {
	sign := b >> 31
	return uint16(sign<<15) | uint16(n.narrow(uint64(b&^sign32), uint64(sign), 0))
}

// biases returns what the loops for FP32 add to the magnitude of a positive
// value, and what they add more to that of a negative one.
func (n *narrower) biases() (positive, negative uint32) {
	p, q := n.toward[0].bias(n.low), n.toward[1].bias(n.low)
	return uint32(p), uint32(q - p)
}

func f32ToBF16Generic(dst []uint16, src []float32, m Mode) {
	if len(src) == 0 {
		return // often, after a kernel in assembly
	}
	n := f32ToBF16(m)
	switch {
	case m.Rounding == Stochastic:
		diceF32(dst, src, &n)
	case m.Rounding == NearestEven && !m.Flush && !m.Saturate:
		nearestBF16(dst, src)
	default:
		biasBF16(dst, src, &n)
	}
}

// nearestBF16 asks for NaN as floats do, which costs less than its bits.
func nearestBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		b := math.Float32bits(f)
		if f == f {
			dst[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
		} else {
			dst[i] = uint16(b>>16) | 0x40
		}
	}
}

// biasBF16 knows all modes but Stochastic.
func biasBF16(dst []uint16, src []float32, n *narrower) {
	dst = dst[:len(src)]
	positive, negative := n.biases()
	odd := uint32(n.toward[0].odd())
	lo64, span64 := n.fast()
	lo, span := uint32(lo64), uint32(span64)
	for i, f := range src {
		b := math.Float32bits(f)
		if b&^sign32-lo < span {
			dst[i] = uint16((b + positive + negative&-(b>>31) + b>>16&odd) >> 16)
		} else {
			dst[i] = n.slow32(b)
		}
	}
}

func f32ToF16Generic(dst []uint16, src []float32, m Mode) {
	if len(src) == 0 {
		return // often, after a kernel in assembly
	}
	n := f32ToF16(m)
	switch m.Rounding {
	case Stochastic:
		diceF32(dst, src, &n)
	case NearestEven:
		nearestF16(dst, src, &n)
	default:
		biasF16(dst, src, &n)
	}
}

// What F16 and F32 have in bits: the smallest normal F16 and the largest, and
// the difference of the exponents, as F32.
const (
	f16Normal  = 0x38800000
	f16Largest = 0x477fe000
	f16Rebase  = 0x38000000
	f16Over    = 0x47800000 // 2^16: overflow, whatever the mode
	f16Nothing = 0x33000000 // 2^-25: below that, no digit of the value matters
)

// ends returns what becomes, by sign, of all finite values from 2^16 on, and of
// all below 2^-25 but zero.
func (n *narrower) ends() (huge, tiny [2]uint16) {
	huge = [2]uint16{n.slow32(f16Over), n.slow32(sign32 | f16Over)}
	tiny = [2]uint16{n.slow32(1), n.slow32(sign32 | 1)}
	return huge, tiny
}

// nearestF16 rounds subnormal results by the addition of 1/2, whose ULP in
// FP32 is the step of subnormal FP16.
func nearestF16(dst []uint16, src []float32, n *narrower) {
	dst = dst[:len(src)]
	flush := n.mode.Flush
	huge, _ := n.ends()
	for i, f := range src {
		b := math.Float32bits(f)
		a := b &^ sign32
		switch {
		case a-f16Normal <= f16Largest-f16Normal:
			dst[i] = uint16(b>>16&0x8000 | (a-f16Rebase+0xfff+a>>13&1)>>13)
		case a < f16Normal && !flush:
			dst[i] = uint16(b>>16&0x8000 | math.Float32bits(math.Float32frombits(a)+0.5) - 0x3f000000)
		case a-f16Over < inf32-f16Over:
			dst[i] = huge[b>>31]
		default:
			dst[i] = n.slow32(b)
		}
	}
}

// biasF16 knows the directed modes and NearestAway.
func biasF16(dst []uint16, src []float32, n *narrower) {
	dst = dst[:len(src)]
	positive, negative := n.biases()
	huge, tiny := n.ends()
	for i, f := range src {
		b := math.Float32bits(f)
		a := b &^ sign32
		switch {
		case a-f16Normal <= f16Largest-f16Normal:
			dst[i] = uint16(b>>16&0x8000 | (a-f16Rebase+positive+negative&-(b>>31))>>13)
		case a-f16Over < inf32-f16Over:
			dst[i] = huge[b>>31]
		case a-1 < f16Nothing-1:
			dst[i] = tiny[b>>31]
		default:
			dst[i] = n.slow32(b)
		}
	}
}
