//go:build !purego

package codec

import "slices"

const (
	counted    = 1<<maxWidth - 1 // symbols that the kernels count
	countPiece = 2048            // symbols at once: the counts are bytes, by 16 places
	countMin   = 4 * countPiece
)

// histogramArch gives the symbols that are most frequent in a sample codes and
// counts those by the bits of whole words, which is fast, and the others one by
// one, which is not: it does nothing if they are more than a quarter of the
// sample.
func histogramArch(counts *histogram, src []byte) int {
	n := groups(len(src))
	if n < countMin {
		return 0
	}
	var top [counted]byte
	symbols, covered := frequent(&top, src)
	if covered < sampled*3/4 {
		return 0
	}
	var book codebook
	fill(book[:], counted)
	for c, s := range symbols {
		book[s] = byte(c)
	}
	sums := countCodes(counts, src[:n], &book)
	for c, s := range symbols {
		counts[s] += sums[c]
	}
	return n
}

// sampled is the number of symbols in a sample: 16 runs of 32.
const sampled = 512

// frequent returns the most frequent symbols of a sample, in top, and how many
// they are of it.
func frequent(top *[counted]byte, src []byte) (symbols []byte, covered int) {
	const runs = 16
	var h [256]uint16
	for i := range runs {
		for _, s := range src[len(src)/runs*i:][:sampled/runs] {
			h[s]++
		}
	}
	var keys [256]uint32 // count << 8 | symbol
	k := 0
	for s, n := range h {
		if n > 0 {
			keys[k] = uint32(n)<<8 | uint32(s)
			k++
		}
	}
	slices.Sort(keys[:k])
	for _, key := range keys[max(0, k-counted):k] {
		symbols = append(top[:len(symbols)], byte(key))
		covered += int(key >> 8)
	}
	return symbols, covered
}

// countCodes returns the number of symbols by code and adds those that have none
// to counts. The length of src is a multiple of 64.
func countCodes(counts *histogram, src []byte, book *codebook) (sums [counted + 1]uint32) {
	var t codeTable
	t.set(book, maxWidth)
	var words [countPiece / 8 * maxWidth]byte
	var rest [countPiece + slack]byte
	for i := 0; i < len(src); i += countPiece {
		n := min(countPiece, len(src)-i)
		used := t.encode(words[:], rest[:], src[i:i+n], maxWidth, ^uint64(0))
		clear(words[wordBytes(n, maxWidth):]) // codes of 0
		countSets128(&sums, &words)
		sums[0] += uint32(n)
		for _, s := range rest[:used] {
			counts[s]++
		}
	}
	// So far, sums[m] are the codes that have all bits of m, and maybe others.
	for q := range maxWidth {
		for m := range sums {
			if m>>q&1 == 0 {
				sums[m] -= sums[m|1<<q]
			}
		}
	}
	return sums
}

// countSets128 adds to sums[m], for all m but 0, the number of codes in words of
// width 4 that have all bits of m.
//
//go:noescape
func countSets128(sums *[counted + 1]uint32, words *[countPiece / 8 * maxWidth]byte)
