//go:build !purego

package codec

import "github.com/demi-weights/demi/internal/cpu"

const (
	counted    = 12   // symbols that the kernel counts
	countPiece = 4096 // symbols at once: its counts are bytes, by 32 places
	countMin   = 4 * countPiece
)

// histogramArch counts the symbols that are most frequent in a sample by
// comparing, which is fast, and the others one by one, which is not: it does
// nothing if they are more than a quarter of the sample.
func histogramArch(counts *histogram, src []byte) int {
	n := groups(len(src))
	var symbols [counted][32]byte
	if n < countMin || sampleSymbols(&symbols, src) < sampled*3/4 {
		return 0
	}
	var sums [counted][4]uint64
	var rest [countPiece + slack]byte
	for i := 0; i < n; i += countPiece {
		piece, used := min(countPiece, n-i), 0
		if cpu.HasAVX512 {
			used = count12x512(&sums, &rest[0], &src[i], piece, &symbols)
		} else {
			used = count12x256(&sums, &rest[0], &src[i], piece, &symbols)
		}
		for c, s := range sums {
			counts[symbols[c][0]] += uint32(s[0] + s[1] + s[2] + s[3])
		}
		for _, s := range rest[:used] {
			counts[s]++
		}
	}
	return n
}

// sampled is the number of symbols in a sample: 16 runs of 32.
const sampled = 512

// sampleSymbols writes 32 copies of the most frequent symbols, all different,
// and returns how many they are of the sample.
func sampleSymbols(symbols *[counted][32]byte, src []byte) (covered int) {
	const runs = 16
	var h [256]uint16
	for i := range runs {
		for _, s := range src[len(src)/runs*i:][:sampled/runs] {
			h[s]++
		}
	}
	var top [counted]int // count << 8 | symbol, descending
	for s := range counted {
		insert(&top, int(h[s])<<8|s)
	}
	for s := counted; s < len(h); s++ {
		if key := int(h[s])<<8 | s; h[s] > 0 && key > top[counted-1] {
			insert(&top, key)
		}
	}
	for c, key := range top {
		covered += key >> 8
		fill(symbols[c][:], byte(key))
	}
	return covered
}

// insert puts key in its place and drops the last one.
func insert(top *[counted]int, key int) {
	i := counted - 1
	for ; i > 0 && key > top[i-1]; i-- {
		top[i] = top[i-1]
	}
	top[i] = key
}

// count12x256 counts the symbols of src, n of them, a multiple of 64, from 64 to
// countPiece, in sums, four numbers each, and writes the other ones to rest, of
// which it returns the number. rest has 8 bytes more than n.
//
//go:noescape
func count12x256(sums *[counted][4]uint64, rest, src *byte, n int, symbols *[counted][32]byte) (used int)
