package tile

import "sort"

// A Grid numbers the tiles of a list of tensors, one after another.
type Grid struct {
	size  []int64 // bytes of a tensor
	tile  []int64 // bytes of a whole tile of it
	first []int64 // number of its first tile; one more at the end
}

// NewGrid returns the grid of n tensors; tensor i has size bytes in elements
// of the given width in bits, 0 for a type without a width.
func NewGrid(n int, tensor func(i int) (size int64, bitWidth int)) *Grid {
	g := &Grid{make([]int64, n), make([]int64, n), make([]int64, n+1)}
	for i := range n {
		size, width := tensor(i)
		g.size[i], g.tile[i] = size, Size(width)
		g.first[i+1] = g.first[i] + Count(size, width)
	}
	return g
}

// Len returns the number of tiles.
func (g *Grid) Len() int64 { return g.first[len(g.first)-1] }

// Bytes returns the bytes of all tensors.
func (g *Grid) Bytes() (n int64) {
	for _, size := range g.size {
		n += size
	}
	return n
}

// At returns the tensor that tile k belongs to, the offset of the tile in it,
// and its length, both in bytes. It is the tensor's last tile if off+n is the
// tensor's size.
func (g *Grid) At(k int64) (tensor int, off, n int64) {
	tensor = sort.Search(len(g.size), func(i int) bool { return g.first[i+1] > k })
	off = (k - g.first[tensor]) * g.tile[tensor]
	return tensor, off, min(g.tile[tensor], g.size[tensor]-off)
}
