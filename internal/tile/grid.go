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

// Run returns how many tiles from k on may be read at once: those of one tensor
// that have bytes together, or less; one at least.
func (g *Grid) Run(k, bytes int64) int64 {
	i, _, _ := g.At(k)
	return max(1, min(bytes/g.tile[i], g.first[i+1]-k))
}

// Runs returns Run as a function of k.
func (g *Grid) Runs(bytes int64) func(k int64) int64 {
	return func(k int64) int64 { return g.Run(k, bytes) }
}

// A Reader is the memory of a goroutine that reads tiles, in the runs of Run.
// The zero value is ready.
type Reader struct {
	buf        []byte
	tensor     int
	first, end int64 // bytes of the tensor that are in buf
}

// Read returns tile k of the grid, which is the caller's until another run is
// read. At the first tile of a run, read is called to fill p with all of it, from
// byte off of the tensor.
func (r *Reader) Read(g *Grid, k, run int64, read func(tensor int, p []byte, off int64) error) ([]byte, error) {
	i, off, n := g.At(k)
	if i != r.tensor || off < r.first || off+n > r.end {
		size := min(g.Run(k, run)*g.tile[i], g.size[i]-off)
		if int64(len(r.buf)) < size {
			r.buf = NewBuffer(int(size))
		}
		r.tensor, r.first, r.end = i, off, off
		if err := read(i, r.buf[:size], off); err != nil {
			return nil, err
		}
		r.end = off + size
	}
	return r.buf[off-r.first:][:n:n], nil
}
