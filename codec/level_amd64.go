//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

// groups returns how many of n elements the kernels do: whole groups.
func groups(n int) int {
	if !cpu.HasAVX2 {
		return 0
	}
	return n &^ (group - 1)
}

// expand has, for every byte of 8 bits, the shuffle that moves the bytes of a
// vector, in order, to where the bits are, and makes the others 0. Kernels load
// 16 bytes of it.
//
//lint:ignore U1000 the assembly reads it
var expand = newExpand()

//lint:ignore U1000 it makes what the assembly reads
func newExpand() (t [256 + 1][8]byte) {
	for m := range 256 {
		next := byte(0)
		for i := range 8 {
			t[m][i] = 0x80
			if m>>i&1 != 0 {
				t[m][i] = next
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
	if cpu.HasAVX512 {
		return n, decode512(dst, words, width, n, open, table, escapes)
	}
	t := symbolTable(table, width, open)
	switch width {
	case 1:
		used = decode1x256(&dst[0], &words[0], n, open, &t, &escapes[0])
	case 2:
		used = decode2x256(&dst[0], &words[0], n, open, &t, &escapes[0])
	case 3:
		used = decode3x256(&dst[0], &words[0], n, open, &t, &escapes[0])
	default:
		used = decode4x256(&dst[0], &words[0], n, open, &t, &escapes[0])
	}
	return n, used
}

// symbolTable returns the table with 0 for an escape.
func symbolTable(table *[16]byte, width int, open uint64) [16]byte {
	t := *table
	if open != 0 {
		t[(1<<width-1)&15] = 0
	}
	return t
}

//go:noescape
func decode1x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode2x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode3x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)

//go:noescape
func decode4x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
