package codec

import (
	"fmt"

	"github.com/demi-weights/demi/internal/tile"
)

// A Decoder decodes tiles, one after another. It is not for several goroutines
// at once.
type Decoder struct {
	layout  layout
	spread  spread
	parts   [maxPlanes][]byte // the planes but that of exponents
	exp     stream
	planes  [maxPlanes][]byte // scratch for parts
	escapes [2][]byte
	joiner  joiner
	wide    []byte // scratch for tiles that Float32s cannot decode in pieces
	zstd    zstdDecoder
}

// NewDecoder returns a Decoder. It has about half a megabyte of scratch memory,
// and more once it has met Zstd tiles.
func NewDecoder() *Decoder {
	d := &Decoder{}
	d.spread.init()
	d.joiner.half = tile.NewBuffer(2 * chunk)
	for i := range d.planes {
		d.planes[i] = tile.NewBuffer(maxElems + slack)
	}
	for i := range d.escapes {
		d.escapes[i] = tile.NewBuffer(maxElems + slack)
	}
	return d
}

// Decode decodes the stored bytes src to dst, whose length is the size of the
// tile. elem is what the encoder was told, id what it said. dst and src must
// not overlap. After an error, which wraps ErrCorrupt, dst holds anything.
func (d *Decoder) Decode(dst, src []byte, elem Elem, id ID) error {
	switch id {
	case Raw:
		return decodeRaw(dst, src)
	case Constant:
		return decodeConstant(dst, src)
	case Zstd:
		return d.zstd.decode(dst, src)
	case Cascade:
		n, err := elements(len(dst), elem)
		if err != nil {
			return err
		}
		return d.cascade(src, elem, n, dst, nil)
	}
	return corrupt("unknown kind %d", uint8(id))
}

// Float32s decodes the stored bytes src and widens the values, as package
// kernels does: it is exact, but a signalling NaN of 16 bits becomes quiet.
// Values of F32 come as they are. len(dst) is the number of elements. Bytes
// are an error.
func (d *Decoder) Float32s(dst []float32, src []byte, elem Elem, id ID) error {
	if elem.planes() == 0 {
		return fmt.Errorf("codec: %v have no values to widen", elem)
	}
	switch id {
	case Raw:
		if len(src) != len(dst)*elem.size() {
			return corrupt("%d bytes, want %d", len(src), len(dst)*elem.size())
		}
		d.joiner.widen(dst, src, elem)
		return nil
	case Cascade:
		n, err := elements(len(dst)*elem.size(), elem)
		if err != nil {
			return err
		}
		return d.cascade(src, elem, n, nil, dst)
	}
	wide := d.scratch(len(dst) * elem.size())
	if err := d.Decode(wide, src, elem, id); err != nil {
		return err
	}
	d.joiner.widen(dst, wide, elem)
	return nil
}

func (d *Decoder) scratch(n int) []byte {
	if n > len(d.wide) {
		d.wide = tile.NewBuffer(n)
	}
	return d.wide[:n]
}

func decodeRaw(dst, src []byte) error {
	if len(dst) != len(src) {
		return corrupt("%d bytes, want %d", len(src), len(dst))
	}
	copy(dst, src)
	return nil
}

func decodeConstant(dst, src []byte) error {
	switch len(src) {
	case 1, 2, 4, 8, 16:
	default:
		return corrupt("pattern of %d bytes", len(src))
	}
	if len(dst)%len(src) != 0 {
		return corrupt("pattern of %d bytes in a tile of %d", len(src), len(dst))
	}
	for n := copy(dst, src); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
	return nil
}

// elements returns the number of elements in a Cascade tile of size bytes.
func elements(size int, elem Elem) (int, error) {
	n := size / elem.size()
	if elem.planes() == 0 || n == 0 || n > maxElems || n*elem.size() != size {
		return 0, corrupt("no tile of %d bytes of %v is coded in planes", size, elem)
	}
	return n, nil
}

// cascade decodes n elements, to bytes if dst is not nil, else to wide.
func (d *Decoder) cascade(src []byte, elem Elem, n int, dst []byte, wide []float32) error {
	planes := elem.planes()
	if err := d.layout.read(src, planes, n); err != nil {
		return err
	}
	for i := range planes - 1 {
		if err := d.part(i); err != nil {
			return err
		}
	}
	if err := d.exponents(planes - 1); err != nil {
		return err
	}
	if dst != nil {
		d.joiner.join(dst, &d.parts, &d.exp, elem)
	} else {
		d.joiner.joinWide(wide, &d.parts, &d.exp, elem)
	}
	return d.exp.check()
}

// part decodes a plane that is not of exponents.
func (d *Decoder) part(i int) error {
	p := &d.layout.planes[i]
	if len(p.levels) == 0 {
		d.parts[i] = p.raw
		return nil
	}
	if i > 0 && p.constant() && p.levels[0].table[0] == 0 {
		d.parts[i] = nil // zeros
		return nil
	}
	escapes, err := d.below(p)
	if err != nil {
		return err
	}
	d.parts[i] = d.planes[i][:d.layout.n]
	return d.level(d.planes[i], &p.levels[0], escapes)
}

// exponents prepares the stream of the plane of exponents.
func (d *Decoder) exponents(i int) (err error) {
	p := &d.layout.planes[i]
	d.exp = stream{spread: &d.spread}
	switch {
	case len(p.levels) == 0:
		d.exp.plain = p.raw
	case p.constant():
		d.exp.plain = d.planes[i][:d.layout.n]
		err = d.level(d.planes[i], &p.levels[0], nil)
	default:
		d.exp.level = &p.levels[0]
		d.exp.words = p.levels[0].words
		d.exp.escapes, err = d.below(p)
	}
	return err
}

// below decodes all levels of p but the first and returns the escapes of that.
func (d *Decoder) below(p *plane) ([]byte, error) {
	escapes, next := d.escapes[0], d.escapes[1]
	copy(escapes, p.raw)
	for j := len(p.levels) - 1; j > 0; j-- {
		if err := d.level(next, &p.levels[j], escapes); err != nil {
			return nil, err
		}
		escapes, next = next, escapes
	}
	return escapes, nil
}

// level decodes a level to dst.
func (d *Decoder) level(dst []byte, l *level, escapes []byte) error {
	if l.width == 0 {
		fill(dst[:l.n], l.table[0])
		return nil
	}
	used := decodeLevel(dst[:(l.n+group-1)&^(group-1)], l.words, l.width, l.open(), &l.table, escapes, &d.spread)
	if used != l.rest {
		return corrupt("%d escapes, want %d", used, l.rest)
	}
	return nil
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// A stream gives the symbols of a plane from its first to its last: they are
// either plain or the codes of level with the escapes below it.
type stream struct {
	plain []byte

	level   *level
	words   []byte // not yet decoded
	escapes []byte // not yet used; all of them, with slack
	used    int
	spread  *spread
}

// next returns the next n symbols, in buf or elsewhere. n is a multiple of 64
// unless they are the last ones; buf has room for whole groups.
func (s *stream) next(buf []byte, n int) []byte {
	if s.level == nil {
		return s.takePlain(n)
	}
	l := s.level
	size := wordBytes(n, l.width)
	used := decodeLevel(buf[:(n+group-1)&^(group-1)], s.words[:size], l.width, l.open(), &l.table, s.escapes, s.spread)
	s.take(size, used)
	return buf[:n]
}

// takePlain returns the next n symbols and goes on behind them.
func (s *stream) takePlain(n int) (symbols []byte) {
	symbols, s.plain = cut(s.plain, n)
	return symbols
}

// take goes on behind size bytes of codes with so many escapes.
func (s *stream) take(size, used int) {
	s.words, s.escapes, s.used = s.words[size:], s.escapes[used:], s.used+used
}

// check tells, after the last symbol, whether there were as many escapes as
// there should be.
func (s *stream) check() error {
	if s.level != nil && s.used != s.level.rest {
		return corrupt("%d escapes, want %d", s.used, s.level.rest)
	}
	return nil
}

// chunk is the number of elements that are joined at a time: their planes stay
// in the nearest cache.
const chunk = 4096
