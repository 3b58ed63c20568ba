//go:build !purego

package kernels

import (
	"math"

	"github.com/demi-weights/demi/internal/cpu"
)

// The kernels take n elements, a multiple of 16 that is not 0; stochastic ones
// 32. Those that round by FPCR restore it; nothing else runs on their thread
// before, as assembly is not preempted.

// piece is the most elements that a kernel in assembly takes at once: a
// garbage collection waits for it.
const piece = 1 << 18

//go:noescape
func f16Plain(dst *uint16, src *float32, n int, rmode uint32)

//go:noescape
func f16Full(dst *uint16, src *float32, n int, limit, keep, rmode uint32)

//go:noescape
func f16Away(dst *uint16, src *float32, n int, limit, keep uint32)

//go:noescape
func f16Stochastic(dst *uint16, src *float32, n int, limit, keep, k0, k1, j uint32)

//go:noescape
func bf16Nearest(dst *uint16, src *float32, n int)

//go:noescape
func bf16Biased(dst *uint16, src *float32, n int, pos, neg uint32)

//go:noescape
func bf16Full(dst *uint16, src *float32, n int, limit, keep, pos, neg, lsb uint32)

//go:noescape
func bf16Stochastic(dst *uint16, src *float32, n int, limit, keep, k0, k1, j uint32)

// limits returns what saturation and flushing need: the float32 to which
// finite magnitudes are limited before they are rounded, and the bits of a
// subnormal result that are kept.
func (m Mode) limits(largest uint32) (limit, keep uint32) {
	limit, keep = math.MaxUint32>>1, 0xffff
	if m.Saturate {
		limit = largest
	}
	if m.Flush {
		keep = 0x8000
	}
	return limit, keep
}

// rmode is FPCR.RMode of the modes that it knows.
var rmode = [roundingEnd]uint32{NearestEven: 0, Up: 1, Down: 2, TowardZero: 3}

// bias is what the modes add to positive and to negative values before the
// lower halves of their bits go; NearestEven also adds the lowest bit kept.
var bias = [roundingEnd]struct{ pos, neg, lsb uint32 }{
	NearestEven: {0x7fff, 0x7fff, 1},
	NearestAway: {0x8000, 0x8000, 0},
	Up:          {0xffff, 0, 0},
	Down:        {0, 0xffff, 0},
}

func f32ToF16Arch(dst []uint16, src []float32, m Mode) int {
	n := len(src) &^ 15
	if !cpu.HasNEON || n == 0 {
		return 0
	}
	if m.Rounding == Stochastic {
		return f16StochasticArch(dst, src, m)
	}
	for i := 0; i < n; i += piece {
		f16Piece(&dst[i], &src[i], min(piece, n-i), m)
	}
	return n
}

func f16Piece(dst *uint16, src *float32, n int, m Mode) {
	limit, keep := m.limits(0x477fe000)
	switch {
	case m.Rounding == NearestAway:
		f16Away(dst, src, n, limit, keep)
	case m.Saturate || m.Flush:
		f16Full(dst, src, n, limit, keep, rmode[m.Rounding])
	default:
		f16Plain(dst, src, n, rmode[m.Rounding])
	}
}

func f32ToBF16Arch(dst []uint16, src []float32, m Mode) int {
	n := len(src) &^ 15
	if !cpu.HasNEON || n == 0 {
		return 0
	}
	if m.Rounding == Stochastic {
		return bf16StochasticArch(dst, src, m)
	}
	for i := 0; i < n; i += piece {
		bf16Piece(&dst[i], &src[i], min(piece, n-i), m)
	}
	return n
}

func bf16Piece(dst *uint16, src *float32, n int, m Mode) {
	limit, keep := m.limits(0x7f7f0000)
	b := bias[m.Rounding]
	switch {
	case m.Saturate || m.Flush:
		bf16Full(dst, src, n, limit, keep, b.pos, b.neg, b.lsb)
	case m.Rounding == NearestEven:
		bf16Nearest(dst, src, n)
	default:
		bf16Biased(dst, src, n, b.pos, b.neg)
	}
}

// head returns how many of n elements come before one that begins a draw.
func (m Mode) head(n int) int { return min(n, int(-m.First&31)) }

// run returns what draws of the elements from i on, which begins a draw,
// start from, and how many of n one call does: whole draws of its segment.
func (m Mode) run(i, n int) (k0, k1, j uint32, length int) {
	first := m.First + int64(i)
	k0, k1 = m.Stream.keys(first >> segmentBits)
	j = uint32(first & (segment - 1))
	return k0, k1, j, min(n-i, segment-int(j), piece) &^ 31
}

func f16StochasticArch(dst []uint16, src []float32, m Mode) int {
	limit, keep := m.limits(0x477fe000)
	i := m.head(len(src))
	f32ToF16Generic(dst[:i], src[:i], m)
	for i+32 <= len(src) {
		k0, k1, j, n := m.run(i, len(src))
		f16Stochastic(&dst[i], &src[i], n, limit, keep, k0, k1, j)
		i += n
	}
	return i
}

func bf16StochasticArch(dst []uint16, src []float32, m Mode) int {
	limit, keep := m.limits(0x7f7f0000)
	i := m.head(len(src))
	f32ToBF16Generic(dst[:i], src[:i], m)
	for i+32 <= len(src) {
		k0, k1, j, n := m.run(i, len(src))
		bf16Stochastic(&dst[i], &src[i], n, limit, keep, k0, k1, j)
		i += n
	}
	return i
}
