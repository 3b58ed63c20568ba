//go:build !purego

package codec

// compress has, for every byte of 8 bits, the shuffle that moves the bytes of a
// vector where the bits are to its start.
//
//lint:ignore U1000 the assembly reads it
var compress = newCompress()

//lint:ignore U1000 it makes what the assembly reads
func newCompress() (t [256][8]byte) {
	for m := range t {
		next := 0
		for i := range 8 {
			if m>>i&1 != 0 {
				t[m][next] = byte(i)
				next++
			}
		}
	}
	return t
}

func encodeLevelArch(words, escapes, src []byte, width int, open uint64, codes *codebook) (n, used int) {
	if n = groups(len(src)); n == 0 {
		return 0, 0
	}
	var t codeTable
	t.set(codes, width)
	return n, t.encode(words, escapes, src[:n], width, open)
}

// A codeTable has the inverted code of every symbol, with its bits apart, and
// base, the first of 64 symbols that have all codes but the last one, or -1 if
// they are not so near to each other.
type codeTable struct {
	codes [256]byte
	base  int
}

// near is the number of codes that near kernels look up.
const near = 64

func (t *codeTable) set(codes *codebook, width int) {
	last := byte(1<<width - 1)
	var apart [16]byte
	for c := range last {
		apart[c] = bitsApart(last&^c, width)
	}
	for s, c := range codes {
		t.codes[s] = apart[c&15]
	}
	first, end := 0, len(codes)
	for first < end && codes[first] >= last {
		first++
	}
	for first < end && codes[end-1] >= last {
		end--
	}
	t.base = min(first, len(codes)-near)
	if end-first > near {
		t.base = -1
	}
}

// bitsApart puts the bits of a code at 7, 5, 3 and 1 of a byte, those of width 2
// at 7 and 3.
func bitsApart(c byte, width int) byte {
	if width == 2 {
		return c<<7 | c<<2&8
	}
	return c<<7 | c<<4&0x20 | c<<1&8 | c>>2&2
}

// encode is encodeLevel for a multiple of 64 symbols, not 0.
func (t *codeTable) encode(words, escapes, src []byte, width int, open uint64) (used int) {
	if t.base < 0 {
		return encodeFar(&words[0], &escapes[0], &src[0], len(src), width, open, &t.codes[0])
	}
	return encodeNear(&words[0], &escapes[0], &src[0], len(src), width, open, &t.codes[t.base], t.base)
}

func encodeNear(words, escapes, src *byte, n, width int, open uint64, table *byte, base int) int {
	switch width {
	case 1:
		return encodeNear1x128(words, escapes, src, n, open, table, base)
	case 2:
		return encodeNear2x128(words, escapes, src, n, open, table, base)
	case 3:
		return encodeNear3x128(words, escapes, src, n, open, table, base)
	}
	return encodeNear4x128(words, escapes, src, n, open, table, base)
}

func encodeFar(words, escapes, src *byte, n, width int, open uint64, table *byte) int {
	switch width {
	case 1:
		return encodeFar1x128(words, escapes, src, n, open, table)
	case 2:
		return encodeFar2x128(words, escapes, src, n, open, table)
	case 3:
		return encodeFar3x128(words, escapes, src, n, open, table)
	}
	return encodeFar4x128(words, escapes, src, n, open, table)
}

//go:noescape
func encodeNear1x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)

//go:noescape
func encodeNear2x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)

//go:noescape
func encodeNear3x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)

//go:noescape
func encodeNear4x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)

//go:noescape
func encodeFar1x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)

//go:noescape
func encodeFar2x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)

//go:noescape
func encodeFar3x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)

//go:noescape
func encodeFar4x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)
