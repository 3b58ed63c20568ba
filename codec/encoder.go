package codec

import (
	"slices"

	"github.com/demi-weights/demi/internal/tile"
)

// An Encoder encodes tiles, one after another. It is not for several
// goroutines at once.
type Encoder struct {
	layout  layout
	planner planner
	codes   codebook
	planes  [maxPlanes][]byte
	escapes [2][]byte
	half    []byte // chunk values of 16 bits, aligned
	zstd    zstdEncoder
}

// NewEncoder returns an Encoder. It has about half a megabyte of scratch
// memory, and more once it has met tiles that are tried with Zstandard.
func NewEncoder() *Encoder {
	e := &Encoder{half: tile.NewBuffer(2 * chunk)}
	for i := range e.planes {
		e.planes[i] = tile.NewBuffer(maxElems + slack)
	}
	for i := range e.escapes {
		e.escapes[i] = tile.NewBuffer(maxElems + slack)
	}
	return e
}

// Encode appends the stored bytes of the tile src to dst and returns the
// result, and how the tile is stored: the way that takes the fewest bytes of
// those that the level allows, but Raw if that saves less than 1/32. They are
// never more than src has. src is in the byte order of files, little-endian,
// and is not kept; it must not overlap the free part of dst.
//
// Elements wider than Bytes that are not whole, or are more than a tile has,
// are encoded as Bytes would be, without Zstandard.
func (e *Encoder) Encode(dst, src []byte, elem Elem, level Level) (out []byte, id ID) {
	limit := len(src) - (len(src)+31)/32 // the most bytes that save 1/32
	switch {
	case level == None || limit <= 0:
		return append(dst, src...), Raw
	case period(src) > 0 && period(src) <= limit:
		return append(dst, src[:period(src)]...), Constant
	}
	cascade := e.plan(src, elem)
	best := min(limit+1, cascade)
	if elem == Bytes || level == Small {
		if frame := e.zstd.encode(src, level); len(frame) < best {
			return append(dst, frame...), Zstd
		}
	}
	if cascade <= limit {
		return e.cascade(dst), Cascade
	}
	return append(dst, src...), Raw
}

// none is more bytes than any tile has.
const none = 1 << 30

// plan takes src apart and chooses the levels of its planes. It returns the
// bytes of the Cascade tile, or none if there cannot be one.
func (e *Encoder) plan(src []byte, elem Elem) int {
	n, planes := len(src)/elem.size(), elem.planes()
	if planes == 0 || n > maxElems || n*elem.size() != len(src) {
		return none
	}
	e.layout.reset(planes, n)
	e.split(src, elem, n)
	for i := range planes {
		if symbols := e.planes[i][:n]; i == planes-1 || !noise(symbols) {
			clear(e.planner.counts[:])
			e.planner.counts.add(symbols)
			e.planner.levels(&e.layout.planes[i])
		}
	}
	return e.layout.size()
}

// cascade appends the tile that plan has prepared.
func (e *Encoder) cascade(dst []byte) []byte {
	size := e.layout.size()
	at := len(dst)
	dst = slices.Grow(dst, size)[:at+size]
	e.layout.write(dst[at:])
	e.layout.place(dst[at:])
	for i := range e.layout.planes {
		e.plane(&e.layout.planes[i], e.planes[i][:e.layout.n])
	}
	return dst
}

// plane writes the codes and the raw bytes of a plane.
func (e *Encoder) plane(p *plane, symbols []byte) {
	for j := range p.levels {
		l := &p.levels[j]
		if l.width == 0 {
			return
		}
		escapes := e.escapes[j&1]
		e.codes.set(l)
		used := encodeLevel(l.words, escapes, symbols, l.width, l.open(), &e.codes)
		symbols = escapes[:used]
	}
	copy(p.raw, symbols)
}

// period returns the length of the shortest pattern of 1, 2, 4, 8 or 16 bytes
// that src repeats, or 0 if there is none.
func period(src []byte) int {
	for w := 1; w <= 16 && w <= len(src); w *= 2 {
		if len(src)%w == 0 && string(src[w:]) == string(src[:len(src)-w]) {
			return w
		}
	}
	return 0
}
