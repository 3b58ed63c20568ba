//go:build !purego

package codec

func splitBF16Arch(low, exp, src []byte) int {
	n := groups(len(src) / 2)
	if n > 0 {
		splitBF16x128(&low[0], &exp[0], &src[0], n)
	}
	return n
}

func splitF16Arch(low, high, exp, src []byte) int {
	n := groups(len(src) / 2)
	if n > 0 {
		splitF16x128(&low[0], &high[0], &exp[0], &src[0], n)
	}
	return n
}

func splitF32Arch(high, mid, low, exp, src []byte) int {
	n := groups(len(src) / 4)
	if n > 0 {
		splitF32x128(&high[0], &mid[0], &low[0], &exp[0], &src[0], n)
	}
	return n
}

var zeros [32]byte

// from returns a plane from element i on, and how far 32 elements of it are
// from the next. A plane of zeros is nil.
func from(plane []byte, i int) (p *byte, step int) {
	if plane == nil {
		return &zeros[0], 0
	}
	return &plane[i], len(zeros)
}

// The joins below decode the exponents a chunk at a time: to write them to the
// nearest cache and to read them again costs little beside what is joined.

func joinF16Arch(dst, low, high []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		h, step := from(high, i)
		joinF16x128(&dst[2*i], &low[i], h, &exp[0], len(exp), step)
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
		joinF32x128(&dst[4*i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
	}
	return n
}

func widenBF16Arch(dst []float32, low []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		widenBF16x128(&dst[i], &low[i], &exp[0], len(exp))
	}
	return n
}

func widenF16Arch(dst []float32, low, high []byte, e *stream) int {
	n := groups(len(low))
	var buf [chunk + slack]byte
	for i := 0; i < n; i += chunk {
		exp := e.next(buf[:], min(chunk, n-i))
		h, step := from(high, i)
		widenF16x128(&dst[i], &low[i], h, &exp[0], len(exp), step)
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
		widenF32x128(&dst[i], &high[i], m, l, &exp[0], len(exp), midStep, lowStep)
	}
	return n
}

//go:noescape
func splitBF16x128(low, exp, src *byte, n int)

//go:noescape
func splitF16x128(low, high, exp, src *byte, n int)

//go:noescape
func splitF32x128(high, mid, low, exp, src *byte, n int)

//go:noescape
func joinF16x128(dst, low, high, exp *byte, n, highStep int)

//go:noescape
func joinF32x128(dst, high, mid, low, exp *byte, n, midStep, lowStep int)

//go:noescape
func widenBF16x128(dst *float32, low, exp *byte, n int)

//go:noescape
func widenF16x128(dst *float32, low, high, exp *byte, n, highStep int)

//go:noescape
func widenF32x128(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
