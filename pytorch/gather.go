package pytorch

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

const (
	window = 64 << 10 // bytes that are read at once
	gap    = 4 << 10  // bytes that cost less to read than a second read
)

// A gather reads the elements of a view whose memory is not in row-major order.
type gather struct {
	r     io.ReaderAt
	view  *view
	size  int64
	bands *bands
}

// ReadAt fills p with bytes of the row-major tensor.
func (g *gather) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if off >= g.size {
		return 0, io.EOF
	}
	if rest := g.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	read := g.fill
	if g.view.permuted {
		read = g.readBands
	}
	if e := read(p, off); e != nil {
		return 0, e
	}
	return len(p), err
}

// fill reads the partial elements at both ends on their own.
func (g *gather) fill(p []byte, off int64) error {
	item := g.view.item
	for len(p) > 0 {
		lo, skip := off/item, off%item
		if whole := int64(len(p)) / item; skip == 0 && whole > 0 {
			if err := g.elements(p[:whole*item], lo); err != nil {
				return err
			}
			p, off = p[whole*item:], off+whole*item
			continue
		}
		var one [16]byte
		if err := g.elements(one[:item], lo); err != nil {
			return err
		}
		n := copy(p, one[skip:item])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// elements fills p with whole elements from number lo on.
func (g *gather) elements(p []byte, lo int64) error {
	c := &copier{r: g.r, item: g.view.item}
	return c.rows(p, g.view.axes, lo, lo+int64(len(p))/c.item, g.view.place)
}

// A copier copies boxes of elements.
type copier struct {
	r    io.ReaderAt
	item int64
	buf  []byte // the window
}

// A side is an axis of a box, with its strides in the file and in the output.
type side struct{ n, from, to int64 }

// rows copies the elements lo to hi-1, in row-major order, of the axes from
// base on: the rest of a row that has begun, whole rows, and the beginning of
// the last one.
func (c *copier) rows(p []byte, axes []axis, lo, hi, base int64) error {
	row := int64(1)
	for _, a := range axes[1:] {
		row *= a.n
	}
	for lo < hi {
		first := lo / row
		start := base + first*axes[0].stride
		n := hi/row - first
		if lo%row != 0 || n == 0 {
			n = min(hi, (first+1)*row) - lo
			if err := c.rows(p[:n*c.item], axes[1:], lo-first*row, lo-first*row+n, start); err != nil {
				return err
			}
		} else {
			if err := c.box(p, boxOf(axes, n, c.item), start); err != nil {
				return err
			}
			n *= row
		}
		p, lo = p[n*c.item:], lo+n
	}
	return nil
}

// boxOf returns the sides of n whole rows, that with the smallest stride in the
// file first.
func boxOf(axes []axis, n, item int64) []side {
	sides := make([]side, len(axes))
	to := item
	for i := len(axes) - 1; i >= 0; i-- {
		sides[i] = side{axes[i].n, axes[i].stride, to}
		to *= axes[i].n
	}
	sides[0].n = n
	slices.SortStableFunc(sides, func(a, b side) int { return cmp.Compare(a.from, b.from) })
	return sides
}

// box copies the elements of a box, through windows: it is cut along its
// longest stride until a piece lies within one.
func (c *copier) box(p []byte, sides []side, at int64) error {
	span := c.item
	for _, s := range sides[:len(sides)-1] {
		if span += (s.n - 1) * s.from; span > window {
			break
		}
	}
	last := sides[len(sides)-1]
	step := int64(1) // how many of the last side share a window
	switch {
	case span > window:
	case last.from == 0:
		step = last.n
	case last.from-span <= gap:
		step = 1 + (window-span)/last.from
	}
	for i := int64(0); i < last.n; i += step {
		n := min(step, last.n-i)
		if err := c.slab(p[i*last.to:], sides, n, span, at+i*last.from); err != nil {
			return err
		}
	}
	return nil
}

// slab copies n steps of the last side of a box; span is what one of them takes
// in the file.
func (c *copier) slab(p []byte, sides []side, n, span, at int64) error {
	k := len(sides) - 1
	if span > window {
		return c.box(p, sides[:k], at) // n is 1
	}
	size := span + (n-1)*sides[k].from
	if c.buf == nil {
		c.buf = make([]byte, min(window, max(size, int64(len(p)))))
	}
	if int64(len(c.buf)) < size {
		c.buf = make([]byte, window)
	}
	src := c.buf[:size]
	if got, err := c.r.ReadAt(src, at); got < len(src) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	last := sides[k]
	for i := range n {
		scatter(p[i*last.to:], src[i*last.from:], sides[:k], c.item)
	}
	return nil
}

// scatter copies the elements of sides from a window.
func scatter(to, from []byte, sides []side, item int64) {
	if len(sides) == 0 {
		copy(to[:item], from[:item])
		return
	}
	k := len(sides) - 1
	last := sides[k]
	if k == 0 && last.from == item && last.to == item {
		copy(to[:last.n*item], from[:last.n*item])
		return
	}
	for i := range last.n {
		scatter(to[i*last.to:], from[i*last.from:], sides[:k], item)
	}
}
