//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

// joinBF16Arch decodes the last level of the exponents and joins them in one
// go. Plain exponents are rare.
func joinBF16Arch(dst, low []byte, e *stream) int {
	n := groups(len(low))
	if n == 0 || e.level == nil {
		return 0
	}
	used := 0
	if cpu.HasAVX512 {
		used = joinBF16x512(dst, low, e, n)
	} else {
		used = joinBF16x256(dst, low, e, n)
	}
	e.take(wordBytes(n, e.level.width), used)
	return n
}

func joinBF16x256(dst, low []byte, e *stream, n int) (used int) {
	l := e.level
	t := symbolTable(&l.table, l.width, l.open())
	switch l.width {
	case 1:
		used = joinBF16w1x256(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	case 2:
		used = joinBF16w2x256(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	case 3:
		used = joinBF16w3x256(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	default:
		used = joinBF16w4x256(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	}
	return used
}

//go:noescape
func joinBF16w1x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w2x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w3x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w4x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
