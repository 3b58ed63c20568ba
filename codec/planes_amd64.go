//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

func splitBF16Arch(low, exp, src []byte) int {
	n := groups(len(src) / 2)
	if n > 0 && cpu.HasAVX512 {
		splitBF16x512(&low[0], &exp[0], &src[0], n)
	} else if n > 0 {
		splitBF16x256(&low[0], &exp[0], &src[0], n)
	}
	return n
}

func splitF16Arch(low, high, exp, src []byte) int {
	n := groups(len(src) / 2)
	if n > 0 && cpu.HasAVX512 {
		splitF16x512(&low[0], &high[0], &exp[0], &src[0], n)
	} else if n > 0 {
		splitF16x256(&low[0], &high[0], &exp[0], &src[0], n)
	}
	return n
}

func splitF32Arch(high, mid, low, exp, src []byte) int {
	n := groups(len(src) / 4)
	if n > 0 && cpu.HasAVX512 {
		splitF32x512(&high[0], &mid[0], &low[0], &exp[0], &src[0], n)
	} else if n > 0 {
		splitF32x256(&high[0], &mid[0], &low[0], &exp[0], &src[0], n)
	}
	return n
}

var zeros [turn]byte

// from returns a plane from element i on, and how far the elements of a kernel's
// turn are from those of the next, 64 of them for AVX-512 and 32 for AVX2. A
// plane of zeros is nil.
func from(plane []byte, i int) (p *byte, step int) {
	if plane == nil {
		return &zeros[0], 0
	}
	if cpu.HasAVX512 {
		return &plane[i], turn
	}
	return &plane[i], turn / 2
}

// The joins below decode the exponents a chunk at a time: to write them to the
// nearest cache and to read them again costs little beside what is joined.

func joinF16Arch(dst, low, high []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		h, step := from(high, i)
		if cpu.HasAVX512 {
			joinF16x512(&dst[2*i], &low[i], h, &exp[0], len(exp), step)
		} else {
			joinF16x256(&dst[2*i], &low[i], h, &exp[0], len(exp), step)
		}
	}
	return n
}

func joinF32Arch(dst, high, mid, low []byte, e *stream) int {
	n := groups(len(high))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		m, midStep := from(mid, i)
		l, lowStep := from(low, i)
		if cpu.HasAVX512 {
			joinF32x512(&dst[4*i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
		} else {
			joinF32x256(&dst[4*i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
		}
	}
	return n
}

func widenBF16Arch(dst []float32, low []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		if cpu.HasAVX512 {
			widenBF16x512(&dst[i], &low[i], &exp[0], len(exp))
		} else {
			widenBF16x256(&dst[i], &low[i], &exp[0], len(exp))
		}
	}
	return n
}

func widenF16Arch(dst []float32, low, high []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		h, step := from(high, i)
		if cpu.HasAVX512 {
			widenF16x512(&dst[i], &low[i], h, &exp[0], len(exp), step)
		} else {
			widenF16x256(&dst[i], &low[i], h, &exp[0], len(exp), step)
		}
	}
	return n
}

func widenF32Arch(dst []float32, high, mid, low []byte, e *stream) int {
	n := groups(len(high))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		m, midStep := from(mid, i)
		l, lowStep := from(low, i)
		if cpu.HasAVX512 {
			widenF32x512(&dst[i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
		} else {
			widenF32x256(&dst[i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
		}
	}
	return n
}

//go:noescape
func splitBF16x256(low, exp, src *byte, n int)

//go:noescape
func splitF16x256(low, high, exp, src *byte, n int)

//go:noescape
func splitF32x256(high, mid, low, exp, src *byte, n int)

//go:noescape
func joinF16x256(dst, low, high, exp *byte, n, highStep int)

//go:noescape
func joinF32x256(dst, high, mid, low, exp *byte, n, midStep, lowStep int)

//go:noescape
func widenBF16x256(dst *float32, low, exp *byte, n int)

//go:noescape
func widenF16x256(dst *float32, low, high, exp *byte, n, highStep int)

//go:noescape
func widenF32x256(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
