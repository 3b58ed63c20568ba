//go:build !purego

package codec

// turn is the number of elements that a kernel of AVX-512 does at a time.
const turn = 64

// decode512 decodes n symbols, a multiple of 64 and not 0. It needs no table
// with 0 for an escape, unlike the kernels of AVX2.
func decode512(dst, words []byte, width, n int, open uint64, table *[16]byte, escapes []byte) (used int) {
	switch width {
	case 1:
		return decode1x512(&dst[0], &words[0], n, open, table, &escapes[0])
	case 2:
		return decode2x512(&dst[0], &words[0], n, open, table, &escapes[0])
	case 3:
		return decode3x512(&dst[0], &words[0], n, open, table, &escapes[0])
	}
	return decode4x512(&dst[0], &words[0], n, open, table, &escapes[0])
}

// joinBF16x512 decodes n exponents, a multiple of 64 and not 0, and joins them.
func joinBF16x512(dst, low []byte, e *stream, n int) (used int) {
	l := e.level
	switch l.width {
	case 1:
		return joinBF16w1x512(&dst[0], &low[0], &e.words[0], n, l.open(), &l.table, &e.escapes[0])
	case 2:
		return joinBF16w2x512(&dst[0], &low[0], &e.words[0], n, l.open(), &l.table, &e.escapes[0])
	case 3:
		return joinBF16w3x512(&dst[0], &low[0], &e.words[0], n, l.open(), &l.table, &e.escapes[0])
	}
	return joinBF16w4x512(&dst[0], &low[0], &e.words[0], n, l.open(), &l.table, &e.escapes[0])
}

// encode512 encodes n symbols, a multiple of 64 and not 0. Symbols are compared
// for the smaller widths, as with AVX2, and looked up for the others, which
// takes any codebook.
func encode512(words, escapes, src []byte, width, n int, open uint64, codes *codebook) (done, used int) {
	switch width {
	case 3:
		return n, encode3x512(&words[0], &escapes[0], &src[0], n, open, codes)
	case 4:
		return n, encode4x512(&words[0], &escapes[0], &src[0], n, open, codes)
	}
	var symbols [15][32]byte
	if !codeSymbols(&symbols, codes, width) {
		return 0, 0
	}
	if width == 1 {
		return n, encode1x512(&words[0], &escapes[0], &src[0], n, open, &symbols)
	}
	return n, encode2x512(&words[0], &escapes[0], &src[0], n, open, &symbols)
}

//go:noescape
func decode1x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode2x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode3x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode4x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w1x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w2x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w3x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w4x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func encode1x512(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)

//go:noescape
func encode2x512(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)

//go:noescape
func encode3x512(words, escapes, src *byte, n int, open uint64, codes *codebook) (used int)

//go:noescape
func encode4x512(words, escapes, src *byte, n int, open uint64, codes *codebook) (used int)

// count12x512 is count12x256, but for rest, which has 64 bytes more than n.
//
//go:noescape
func count12x512(sums *[counted][4]uint64, rest, src *byte, n int, symbols *[counted][32]byte) (used int)

//go:noescape
func splitBF16x512(low, exp, src *byte, n int)

//go:noescape
func splitF16x512(low, high, exp, src *byte, n int)

//go:noescape
func splitF32x512(high, mid, low, exp, src *byte, n int)

//go:noescape
func joinF16x512(dst, low, high, exp *byte, n, highStep int)

//go:noescape
func joinF32x512(dst, high, mid, low, exp *byte, n, midStep, lowStep int)

//go:noescape
func widenBF16x512(dst *float32, low, exp *byte, n int)

//go:noescape
func widenF16x512(dst *float32, low, high, exp *byte, n, highStep int)

//go:noescape
func widenF32x512(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
