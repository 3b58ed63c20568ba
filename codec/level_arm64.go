//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

// groups returns how many of n elements the kernels do: whole groups.
func groups(n int) int {
	if !cpu.HasNEON {
		return 0
	}
	return n &^ (group - 1)
}

// expand has, for every byte of 8 bits, where in two vectors, one behind the
// other, the bytes of 8 symbols come from: the first ones of the first vector, in
// order, where the bits are, and from nowhere where they are not. The second
// table is the same for the second vector.
//
//lint:ignore U1000 the assembly reads it
var expand = newExpand()

//lint:ignore U1000 it makes what the assembly reads
func newExpand() (t [2][256][8]byte) {
	for m := range 256 {
		next := byte(0)
		for i := range 8 {
			t[0][m][i], t[1][m][i] = 0xff, 0xff
			if m>>i&1 != 0 {
				t[0][m][i], t[1][m][i] = next, 16+next
				next++
			}
		}
	}
	return t
}

func decodeLevelArch(dst, words []byte, width int, open uint64, table *[16]byte, escapes []byte) (n, used int) {
	if n = groups(len(dst)); n == 0 {
		return 0, 0
	}
	t := symbolTables(table, width)
	switch width {
	case 1:
		used = decode1x128(&dst[0], &words[0], n, open, &t, &escapes[0])
	case 2:
		used = decode2x128(&dst[0], &words[0], n, open, &t, &escapes[0])
	case 3:
		used = decode3x128(&dst[0], &words[0], n, open, &t, &escapes[0])
	default:
		used = decode4x128(&dst[0], &words[0], n, open, &t, &escapes[0])
	}
	return n, used
}

// symbolTables returns what the kernels of a width look up. For width 1 that is
// each of both symbols, 16 times. For width 2, both symbols of a pair of codes:
// the index has bit 0 of the first, bit 0 of the second, bit 1 of the first, bit 1
// of the second, from the lowest bit on. For others, the first table has symbols
// by code with bits 1 and 2 exchanged.
func symbolTables(table *[16]byte, width int) (t [2][16]byte) {
	for i := range 16 {
		switch width {
		case 1:
			t[0][i], t[1][i] = table[0], table[1]
		case 2:
			t[0][i], t[1][i] = table[i&1|i>>1&2], table[i>>1&1|i>>2&2]
		default:
			t[0][i] = table[i&9|i<<1&4|i>>1&2]
		}
	}
	return t
}

//go:noescape
func decode1x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func decode2x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func decode3x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)

//go:noescape
func decode4x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
