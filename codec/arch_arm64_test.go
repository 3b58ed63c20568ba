//go:build !purego

package codec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/stretchr/testify/require"
)

// requireArch fails where the tier is missing: every arm64 processor has it.
func requireArch(t *testing.T) {
	t.Helper()
	require.True(t, cpu.HasNEON)
}

// books returns codebooks of a level: of random symbols below 64, in the middle,
// or at the end, of symbols anywhere, and ones that no level has: code 0 only, and
// the same code again and again.
func books(r *rand.Rand, width, rest int) []codebook {
	all := make([]codebook, 6)
	for i, from := range []int{0, 70, 192} {
		all[i] = randomBook(r, width, rest, from, 64)
	}
	all[3] = randomBook(r, width, rest, 0, 256)
	for s := range all[5] {
		all[5][s] = byte(s * 7 >> 3 & (1<<width - 1))
	}
	return all
}

// randomBook takes symbols from the named one on. A closed level need not have
// all.
func randomBook(r *rand.Rand, width, rest, from, symbols int) (c codebook) {
	l := level{width: width, rest: rest}
	n := l.symbols()
	if rest == 0 {
		n = 1 + r.IntN(n)
	}
	for i, s := range r.Perm(symbols)[:n] {
		l.table[i] = byte(from + s)
	}
	c.set(&l)
	return c
}

// symbolsFor returns n symbols of which so many of 8 have a code that is not an
// escape, if the codebook has any.
func symbolsFor(r *rand.Rand, src []byte, c *codebook, width, eighths int) {
	var coded []byte
	for s, code := range c {
		if code != 1<<width-1 {
			coded = append(coded, byte(s))
		}
	}
	for i := range src {
		if r.IntN(8) < eighths {
			src[i] = coded[r.IntN(len(coded))]
		}
	}
}

// TestEncodeLevelArch is the same for encodeLevel, with symbols in the level,
// outside of it, or both.
func TestEncodeLevelArch(t *testing.T) {
	requireArch(t)
	in, esc, out := newRoom(t), newRoom(t), newRoom(t)
	for i, n := range append([]int{group + 1, 2*group - 1}, lengthsOfGroups...) {
		for width := 1; width <= maxWidth; width++ {
			for rest := range 2 {
				for j, book := range books(in.rand, width, rest) {
					src := in.take(n, i%3)
					symbolsFor(in.rand, src, &book, width, []int{0, 4, 7, 8}[(i+j+width)%4])
					l := level{rest: rest}
					want, wantEscapes := make([]byte, wordBytes(n, width)), make([]byte, n+slack)
					whole := n &^ (group - 1)
					used := encodeLevelGeneric(want, wantEscapes, src[:whole], width, l.open(), &book)
					words, escapes := out.take(wordBytes(whole, width), i%2), esc.take(n+slack, 0)
					gotN, gotUsed := encodeLevelArch(words, escapes, src, width, l.open(), &book)
					require.Equal(t, [2]int{whole, used}, [2]int{gotN, gotUsed}, "width %d, rest %d, book %d", width, rest, j)
					require.True(t, bytes.Equal(want[:len(words)], words), "width %d, rest %d, book %d", width, rest, j)
					require.True(t, bytes.Equal(wantEscapes[:used], escapes[:used]), "width %d, rest %d, book %d", width, rest, j)
				}
			}
		}
	}
}

// TestCodeTableBase: the symbols with codes lie in the 64 from base on, up to the
// last one, or too far apart for that.
func TestCodeTableBase(t *testing.T) {
	for _, c := range []struct{ first, last, base int }{
		{0, 0, 0}, {0, 63, 0}, {0, 64, -1}, {100, 163, 100}, {100, 164, -1}, {190, 253, 190}, {200, 210, 192}, {255, 255, 192},
	} {
		var book codebook
		fill(book[:], 7)
		book[c.first], book[c.last] = 0, 6
		var table codeTable
		table.set(&book, 3)
		require.Equal(t, c.base, table.base, "%d to %d", c.first, c.last)
	}
}

// TestHistogramArch counts what is concentrated, spread, or changes.
func TestHistogramArch(t *testing.T) {
	requireArch(t)
	in := newRoom(t)
	for i, n := range []int{countMin, countMin + group + 5, maxElems - 1, maxElems} {
		for name, f := range map[string]func(i int, b byte) byte{
			"one symbol":  func(int, byte) byte { return 200 },
			"few symbols": func(_ int, b byte) byte { return b & 7 },
			"far symbols": func(_ int, b byte) byte { return b & 7 * 36 },
			"falling":     func(_ int, b byte) byte { return byte(math.Sqrt(float64(b & (b >> 3)))) },
			"noise":       func(_ int, b byte) byte { return b },
			"changes":     func(i int, b byte) byte { return b & byte(3<<(i%3000/2048*2)) },
			"noise later": func(i int, b byte) byte { return b & byte(min(0, i%4096-512)>>31^0xff) },
		} {
			src := in.take(n, i%2)
			for i, b := range src {
				src[i] = f(i, b)
			}
			var want, got histogram
			want[7], got[7] = 3, 3
			k := histogramArch(&got, src)
			want.addGeneric(src[:k])
			require.Equal(t, want, got, "%s, %d symbols", name, n)
			if name != "noise" && name != "noise later" {
				require.Equal(t, n&^(group-1), k, name)
			}
		}
	}
}
