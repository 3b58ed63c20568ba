//go:build !purego

package codec

// joinBF16Arch decodes the last level of the exponents and joins them in one
// go. Plain exponents are rare.
func joinBF16Arch(dst, low []byte, e *stream) int {
	n := groups(len(low))
	if n == 0 || e.level == nil {
		return 0
	}
	l := e.level
	t := symbolTables(&l.table, l.width)
	var used int
	switch l.width {
	case 1:
		used = joinBF16w1x128(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	case 2:
		used = joinBF16w2x128(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	case 3:
		used = joinBF16w3x128(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	default:
		used = joinBF16w4x128(&dst[0], &low[0], &e.words[0], n, l.open(), &t, &e.escapes[0])
	}
	e.take(wordBytes(n, l.width), used)
	return n
}

//go:noescape
func joinBF16w1x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w2x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w3x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func joinBF16w4x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
