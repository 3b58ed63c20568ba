//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

// compress has, for every byte of 8 bits, the shuffle that moves the bytes of a
// vector where the bits are to its start. Kernels load 16 bytes of it.
//
//lint:ignore U1000 the assembly reads it
var compress = newCompress()

//lint:ignore U1000 it makes what the assembly reads
func newCompress() (t [256 + 1][8]byte) {
	for m := range 256 {
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
	if n = groups(len(src)); n > 0 && cpu.HasAVX512 {
		return encode512(words, escapes, src, width, n, open, codes)
	}
	var symbols [15][32]byte
	if n == 0 || !codeSymbols(&symbols, codes, width) {
		return 0, 0
	}
	switch width {
	case 1:
		used = encode1x256(&words[0], &escapes[0], &src[0], n, open, &symbols)
	case 2:
		used = encode2x256(&words[0], &escapes[0], &src[0], n, open, &symbols)
	case 3:
		used = encode3x256(&words[0], &escapes[0], &src[0], n, open, &symbols)
	default:
		used = encode4x256(&words[0], &escapes[0], &src[0], n, open, &symbols)
	}
	return n, used
}

// codeSymbols writes 32 copies of the symbol of every code but the last, which
// may have many. A code without a symbol gets that of code 0, which has every
// bit clear already. It returns false if a code has several symbols, or code 0
// none.
func codeSymbols(symbols *[15][32]byte, codes *codebook, width int) bool {
	last := byte(1<<width - 1)
	seen := uint(0)
	for s, c := range codes {
		if c < last {
			if seen>>c&1 != 0 {
				return false
			}
			seen |= 1 << c
			fill(symbols[c][:], byte(s))
		}
	}
	for c := range last {
		if seen>>c&1 == 0 {
			symbols[c] = symbols[0]
		}
	}
	return seen&1 != 0
}

//go:noescape
func encode1x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)

//go:noescape
func encode2x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)

//go:noescape
func encode3x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)

//go:noescape
func encode4x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
