package pytorch

import (
	"slices"
	"sync"
)

const (
	bandSize = 2 << 20 // bytes of the row-major tensor
	maxBands = 4
)

// Bands keep stretches of permuted tensors that were gathered a short while
// ago. Where a row in the file is a column of the tensor, a reader of a few rows
// would have to read a few elements from each row of the file: the wider the
// band, the fewer the reads. A Set has one for all its files.
type bands struct {
	mu    sync.Mutex
	slots []*band // the one used last comes first
}

// A band is one stretch of a tensor. Once it is filled it does not change.
type band struct {
	view *view
	lo   int64
	mu   sync.Mutex // held while it is filled
	data []byte     // nil until then
}

// find returns a band, which may have to be filled.
func (b *bands) find(v *view, lo int64) *band {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.slots, func(s *band) bool { return s.view == v && s.lo == lo })
	if i < 0 {
		b.slots = slices.Insert(b.slots, 0, &band{view: v, lo: lo})
		b.slots = b.slots[:min(len(b.slots), maxBands)]
		return b.slots[0]
	}
	found := b.slots[i]
	copy(b.slots[1:i+1], b.slots[:i])
	b.slots[0] = found
	return found
}

// fill returns the bytes of a band, n of them, which gather reads if nobody
// has yet.
func (s *band) fill(n int64, gather func(p []byte, off int64) error) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil {
		p := make([]byte, n)
		if err := gather(p, s.lo); err != nil {
			return nil, err
		}
		s.data = p
	}
	return s.data, nil
}

// read fills p from bands of a tensor of size bytes.
func (g *gather) readBands(p []byte, off int64) error {
	for len(p) > 0 {
		lo := off / bandSize * bandSize
		data, err := g.bands.find(g.view, lo).fill(min(bandSize, g.size-lo), g.fill)
		if err != nil {
			return err
		}
		n := copy(p, data[off-lo:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// permuted reports whether a reader of rows has to read the file by columns:
// whether the axis with the shortest stride is not the last one.
func permuted(axes []axis) bool {
	last := axes[len(axes)-1].stride
	return slices.ContainsFunc(axes, func(a axis) bool { return a.stride > 0 && a.stride < last })
}
