package codec

import (
	"encoding/binary"
	"slices"
)

// A planner finds the levels that make a plane smallest, from its histogram.
type planner struct {
	counts histogram

	ranked  [256]uint32 // (2^24-1 - count) << 8 | symbol, ascending
	symbols int         // of them, at most 256
	left    [257]uint32 // symbols of the plane from each rank on

	// By the number of levels before and the number of symbols in them: the
	// bytes of the rest of the plane, and the width of the next level or raw.
	cost [maxLevels + 1][maxRank + 1]uint32
	pick [maxLevels + 1][maxRank + 1]uint8
}

// maxRank is the most symbols that open levels can code.
const maxRank = maxLevels * (1<<maxWidth - 1)

// raw stands for no further level.
const raw = 0xff

// levels gives p, which has none, the levels for the counted symbols.
func (w *planner) levels(p *plane) {
	w.rank()
	w.solve()
	for r := 0; r < w.symbols; {
		width := w.pick[len(p.levels)][r]
		if width == raw {
			return
		}
		end := w.end(r, int(width))
		l := p.add(int(width), int(w.left[end]))
		for i, key := range w.ranked[r:end] {
			l.table[i] = byte(key)
		}
		r = end
	}
}

// end returns the rank after a level of that width from rank r on. The level
// is closed if all symbols fit.
func (w *planner) end(r, width int) int {
	if w.symbols-r <= 1<<width {
		return w.symbols
	}
	return r + 1<<width - 1
}

// rank sorts the symbols by frequency, equal ones by value.
func (w *planner) rank() {
	w.symbols = 0
	for s, n := range &w.counts {
		if n > 0 {
			w.ranked[w.symbols] = (1<<24-1-n)<<8 | uint32(s)
			w.symbols++
		}
	}
	slices.Sort(w.ranked[:w.symbols])
	w.left[w.symbols] = 0
	for r := w.symbols - 1; r >= 0; r-- {
		w.left[r] = w.left[r+1] + 1<<24 - 1 - w.ranked[r]>>8
	}
}

// solve fills cost and pick, the last levels first. Of equal costs the one
// with fewer levels, then the smaller width, wins.
func (w *planner) solve() {
	for l := maxLevels; l >= 0; l-- {
		for r := range min(w.symbols, (1<<maxWidth-1)*l+1) {
			w.cost[l][r], w.pick[l][r] = w.left[r], raw
			if l < maxLevels {
				w.try(l, r)
			}
		}
	}
}

// try looks for a width of the level after l others with r symbols.
func (w *planner) try(l, r int) {
	for width := 0; width <= maxWidth; width++ {
		end := w.end(r, width)
		if end == r {
			continue
		}
		size := uint32(wordBytes(int(w.left[r]), width))
		if end == w.symbols {
			size += 4 + 1<<width
		} else {
			size += 4 + 1<<width - 1 + w.cost[l+1][end]
		}
		if size < w.cost[l][r] {
			w.cost[l][r], w.pick[l][r] = size, uint8(width)
		}
	}
}

// A histogram counts the symbols of a plane.
type histogram [256]uint32

// add counts the symbols of src.
func (h *histogram) add(src []byte) {
	n := histogramArch(h, src)
	h.addGeneric(src[n:])
}

// addGeneric counts in four tables in turn, for the next count of a symbol
// waits for the last one if both are in the same.
func (h *histogram) addGeneric(src []byte) {
	var more [3]histogram
	for ; len(src) >= 8; src = src[8:] {
		x := binary.LittleEndian.Uint64(src)
		h[byte(x)]++
		more[0][byte(x>>8)]++
		more[1][byte(x>>16)]++
		more[2][byte(x>>24)]++
		h[byte(x>>32)]++
		more[0][byte(x>>40)]++
		more[1][byte(x>>48)]++
		more[2][byte(x>>56)]++
	}
	for _, s := range src {
		h[s]++
	}
	for s := range h {
		h[s] += more[0][s] + more[1][s] + more[2][s]
	}
}

// A plane that is not of exponents is mostly noise. It is worth coding only if
// one symbol in a sample of it comes once in noiseShare or more often, for the
// symbols that fit a level must be more than 1/8 to 1/2 of all.
const (
	sampleSize = 4096
	noiseShare = 32
)

// noise tells whether a plane is not worth coding. It looks at up to 64 runs
// of 64 symbols.
func noise(src []byte) bool {
	const run = 64
	var sample [sampleSize]byte
	if n := len(src); n > sampleSize {
		for i := 0; i < sampleSize; i += run {
			copy(sample[i:i+run], src[(n-run)*i/(sampleSize-run):])
		}
		src = sample[:]
	}
	var h histogram
	h.add(src)
	return int(slices.Max(h[:]))*noiseShare < len(src)
}
