//go:build (amd64 || arm64) && !purego

package codec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/guard"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/stretchr/testify/require"
)

// A room has memory that ends at a guard page.
type room struct {
	mem  []byte
	rand *rand.Rand
}

func newRoom(t *testing.T) *room {
	return &room{guard.New(t, 4*maxElems+64), rand.New(rand.NewPCG(64, 2))}
}

// take returns n bytes of noise that end so far before the page.
func (r *room) take(n, before int) []byte {
	end := len(r.mem) - before
	b := r.mem[end-n : end : end]
	for i := range b {
		b[i] = byte(r.rand.Uint32())
	}
	return b
}

// lengthsOfGroups are numbers of elements around which the kernels go on.
var lengthsOfGroups = []int{group, 2 * group, 5 * group, chunk - group, chunk, chunk + group, maxElems}

// fillings make words of codes.
var fillings = map[string]func(words []byte, r *rand.Rand){
	"noise":    func([]byte, *rand.Rand) {},
	"escapes":  func(words []byte, _ *rand.Rand) { fill(words, 0xff) },
	"zeros":    func(words []byte, _ *rand.Rand) { clear(words) },
	"few bits": func(words []byte, r *rand.Rand) { thin(words, r) },
	"most bits": func(words []byte, r *rand.Rand) {
		thin(words, r)
		for i := range words {
			words[i] ^= 0xff
		}
	},
}

func thin(words []byte, r *rand.Rand) {
	for i := range words {
		words[i] &= byte(r.Uint32() & r.Uint32())
	}
}

// TestDecodeLevelArch compares with the generic code, and looks for bytes
// touched outside of the words, the escapes and dst, whatever the codes are.
func TestDecodeLevelArch(t *testing.T) {
	requireArch(t)
	var s spread
	s.init()
	all, esc, out := newRoom(t), newRoom(t), newRoom(t)
	var table [16]byte
	for name, filling := range fillings {
		for i, n := range lengthsOfGroups {
			for width := 1; width <= maxWidth; width++ {
				for _, open := range []uint64{0, ^uint64(0)} {
					words := all.take(wordBytes(n, width), i%3)
					filling(words, all.rand)
					escapes := esc.take(n+slack, 0)
					copy(table[:], all.take(16, 16))
					want := make([]byte, n+slack)
					used := decodeLevelGeneric(want[:n], words, width, open, &table, escapes, &s)
					dst := out.take(n+slack, i%2)
					gotN, gotUsed := decodeLevelArch(dst[:n], words, width, open, &table, escapes)
					require.Equal(t, [2]int{n, used}, [2]int{gotN, gotUsed}, "%s, width %d, open %x", name, width, open)
					require.True(t, bytes.Equal(want[:n], dst[:n]), "%s, width %d, open %x, %d symbols", name, width, open, n)
				}
			}
		}
	}
}

// TestSplitArch takes misaligned bytes of any value apart, into planes that end
// at a guard page.
func TestSplitArch(t *testing.T) {
	requireArch(t)
	in := newRoom(t)
	e := &Encoder{half: NewEncoder().half}
	var rooms [maxPlanes]*room
	for i := range rooms {
		rooms[i] = newRoom(t)
	}
	for _, elem := range floats {
		for i, n := range append([]int{1, group - 1, group + 1}, lengthsOfGroups...) {
			src := in.take(n*elem.size(), i%3)
			var got, want [maxPlanes][]byte
			for p := range got {
				got[p], want[p] = rooms[p].take(n, i%2), make([]byte, n)
			}
			e.planes = got
			e.split(src, elem, n)
			limit(t, cpu.Generic)
			e.planes = want
			e.split(src, elem, n)
			limit(t, "")
			for p := range elem.planes() {
				require.True(t, bytes.Equal(want[p], got[p]), "%v, plane %d, %d elements", elem, p, n)
			}
		}
	}
}

// A joinCase has planes that end at a guard page and streams of exponents.
type joinCase struct {
	elem  Elem
	parts [maxPlanes][]byte
	exp   stream
}

// joinCases calls f with planes of any bytes and exponents of every width and
// plain ones, all of them infinite or NaN now and then.
func joinCases(t *testing.T, f func(name string, c *joinCase)) {
	words, escapes := newRoom(t), newRoom(t)
	var rooms [maxPlanes]*room
	for i := range rooms {
		rooms[i] = newRoom(t)
	}
	var s spread
	s.init()
	for _, elem := range floats {
		for i, n := range append([]int{1, group - 1, chunk + group + 1}, lengthsOfGroups...) {
			for width := range maxWidth + 1 {
				c := &joinCase{elem: elem}
				for p := range elem.planes() - 1 {
					if c.parts[p] = rooms[p].take(n, i%3); p > 0 && (i+width)>>p&1 != 0 {
						c.parts[p] = nil
					}
				}
				if i%2 != 0 {
					for j := range c.parts[0] {
						c.parts[0][j] &= 0x81 // zeros of both signs in the mantissa
					}
				}
				c.exp = stream{spread: &s, plain: words.take(n, i%2)}
				if width > 0 {
					l := &level{width: width, n: n, rest: i % 2}
					copy(l.table[:l.symbols()], "\xff\x00\x1f\x7f\x80\x20\xc0\xfe0123456789"[i%3:])
					c.exp = stream{spread: &s, level: l, words: words.take(l.size(), i%2), escapes: escapes.take(n+slack, 0)}
					clearPadding(c.exp.words, l)
				}
				f(fmt.Sprintf("%v, width %d, %d elements", elem, width, n), c)
			}
		}
	}
}

func clearPadding(words []byte, l *level) {
	last := words[len(words)-8*l.width:]
	for i := l.n % group; i > 0 && i < group; i++ {
		for q := range l.width {
			last[8*q+i/8] &^= 1 << (i % 8)
		}
	}
}

// TestJoinArch compares bytes at the end of the memory, and where the streams
// end.
func TestJoinArch(t *testing.T) {
	requireArch(t)
	out := newRoom(t)
	joinCases(t, func(name string, c *joinCase) {
		n := len(c.parts[0])
		j := &joiner{half: tile.NewBuffer(2 * chunk)}
		limit(t, cpu.Generic)
		e, want := c.exp, make([]byte, n*c.elem.size())
		j.join(want, &c.parts, &e, c.elem)
		limit(t, "")
		for before := range 3 {
			a, dst := c.exp, out.take(len(want), before)
			j.join(dst, &c.parts, &a, c.elem)
			require.Equal(t, e.used, a.used, name)
			require.Equal(t, len(e.plain)+len(e.words), len(a.plain)+len(a.words), name)
			require.True(t, bytes.Equal(want, dst), name)
		}
	})
}

// TestWidenArch is the same for values.
func TestWidenArch(t *testing.T) {
	requireArch(t)
	out := newRoom(t)
	joinCases(t, func(name string, c *joinCase) {
		n := len(c.parts[0])
		j := &joiner{half: tile.NewBuffer(2 * chunk)}
		limit(t, cpu.Generic)
		e, want := c.exp, make([]float32, n)
		j.joinWide(want, &c.parts, &e, c.elem)
		limit(t, "")
		a, dst := c.exp, tile.Float32s(out.take(4*n, 0))
		j.joinWide(dst, &c.parts, &a, c.elem)
		require.Equal(t, e.used, a.used, name)
		for i := range want {
			if math.Float32bits(want[i]) != math.Float32bits(dst[i]) {
				t.Fatalf("%s: element %d is %x, want %x", name, i, math.Float32bits(dst[i]), math.Float32bits(want[i]))
			}
		}
	})
}

// TestArchOff: below their tier the hooks do nothing.
func TestArchOff(t *testing.T) {
	limit(t, cpu.Generic)
	b := make([]byte, countMin)
	var table [16]byte
	var book codebook
	n, _ := decodeLevelArch(b[:group], b, 1, 0, &table, b)
	m, _ := encodeLevelArch(b, b, b[:group], 1, 0, &book)
	require.Zero(t, n+m+histogramArch(new(histogram), b))
	e := &stream{plain: b}
	f := make([]float32, group)
	require.Zero(t, splitBF16Arch(b, b, b)+splitF16Arch(b, b, b, b)+splitF32Arch(b, b, b, b, b))
	require.Zero(t, joinBF16Arch(b, b[:group], e)+joinF16Arch(b, b[:group], b, e)+joinF32Arch(b, b[:group], b, b, e))
	require.Zero(t, widenBF16Arch(f, b[:group], e)+widenF16Arch(f, b[:group], b, e)+widenF32Arch(f, b[:group], b, b, e))
}
