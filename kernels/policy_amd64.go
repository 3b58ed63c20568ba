//go:build !purego

package kernels

import "github.com/demi-weights/demi/internal/cpu"

// The bits of float32 that saturation is about.
const (
	largestF16  = 0x477fe000
	largestBF16 = 0x7f7f0000
)

// limit returns the magnitude above which the policy kernels saturate.
func (m Mode) limit(largest uint32) uint32 {
	if m.Saturate {
		return largest
	}
	return inf32
}

// policyF16 rounds a prefix in any mode but Stochastic and returns its length.
func policyF16(dst []uint16, src []float32, m Mode) int {
	limit, ties := m.limit(largestF16), uint32(0)
	if m.Rounding == NearestAway {
		ties = 1
	}
	n, kernel512 := len(src), cpu.HasAVX512
	if !kernel512 {
		n &^= 7
	}
	for i := 0; i < n; i += piece {
		if kernel512 {
			f16Policy512(&dst[i], &src[i], min(piece, n-i), m, limit, ties)
		} else {
			f16Policy256(&dst[i], &src[i], min(piece, n-i), m, limit, ties)
		}
	}
	return n
}

// biases says what is added to float32 bits to round to BF16: other to those
// that have a bit of sel, base to the others.
var biases = [roundingEnd]struct{ base, other, sel uint32 }{
	NearestEven: {0x7fff, 0x8000, 1 << 16},
	NearestAway: {0x8000, 0x8000, 1 << 31},
	TowardZero:  {0, 0, 1 << 31},
	Up:          {0xffff, 0, 1 << 31},
	Down:        {0, 0xffff, 1 << 31},
}

// policyBF16 is policyF16 for BF16.
func policyBF16(dst []uint16, src []float32, m Mode) int {
	limit, mask := m.limit(largestBF16), uint32(0xffffffff)
	if m.Flush {
		mask = 0x7f807f80
	}
	n, kernel512, b := len(src), cpu.HasAVX512, biases[m.Rounding]
	if !kernel512 {
		n &^= 7
	}
	for i := 0; i < n; i += piece {
		if kernel512 {
			bf16Policy512(&dst[i], &src[i], min(piece, n-i), limit, b.base, b.other, b.sel, mask)
		} else {
			bf16Policy256(&dst[i], &src[i], min(piece, n-i), limit, b.base, b.other, b.sel, mask)
		}
	}
	return n
}

func f16Policy512(d *uint16, s *float32, n int, m Mode, limit, ties uint32) {
	switch {
	case m.Rounding == TowardZero && m.Flush:
		f16PolicyZeroFlush512(d, s, n, limit, ties)
	case m.Rounding == TowardZero:
		f16PolicyZero512(d, s, n, limit, ties)
	case m.Rounding == Up && m.Flush:
		f16PolicyUpFlush512(d, s, n, limit, ties)
	case m.Rounding == Up:
		f16PolicyUp512(d, s, n, limit, ties)
	case m.Rounding == Down && m.Flush:
		f16PolicyDownFlush512(d, s, n, limit, ties)
	case m.Rounding == Down:
		f16PolicyDown512(d, s, n, limit, ties)
	case m.Flush:
		f16PolicyNearestFlush512(d, s, n, limit, ties)
	default:
		f16PolicyNearest512(d, s, n, limit, ties)
	}
}

func f16Policy256(d *uint16, s *float32, n int, m Mode, limit, ties uint32) {
	switch {
	case m.Rounding == TowardZero && m.Flush:
		f16PolicyZeroFlush256(d, s, n, limit, ties)
	case m.Rounding == TowardZero:
		f16PolicyZero256(d, s, n, limit, ties)
	case m.Rounding == Up && m.Flush:
		f16PolicyUpFlush256(d, s, n, limit, ties)
	case m.Rounding == Up:
		f16PolicyUp256(d, s, n, limit, ties)
	case m.Rounding == Down && m.Flush:
		f16PolicyDownFlush256(d, s, n, limit, ties)
	case m.Rounding == Down:
		f16PolicyDown256(d, s, n, limit, ties)
	case m.Flush:
		f16PolicyNearestFlush256(d, s, n, limit, ties)
	default:
		f16PolicyNearest256(d, s, n, limit, ties)
	}
}

//go:noescape
func f16PolicyNearest512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyDown512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyUp512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyZero512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyNearestFlush512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyDownFlush512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyUpFlush512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyZeroFlush512(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyNearest256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyDown256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyUp256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyZero256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyNearestFlush256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyDownFlush256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyUpFlush256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func f16PolicyZeroFlush256(dst *uint16, src *float32, n int, limit, ties uint32)

//go:noescape
func bf16Policy512(dst *uint16, src *float32, n int, limit, bias, other, sel, mask uint32)

//go:noescape
func bf16Policy256(dst *uint16, src *float32, n int, limit, bias, other, sel, mask uint32)
