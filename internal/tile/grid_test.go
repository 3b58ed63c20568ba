package tile

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGridCoversEveryByteOnce(t *testing.T) {
	sizes := []int64{0, 4, 256 << 10, 256<<10 + 4, 0, 128<<10 + 1, 1, 0}
	widths := []int{32, 32, 32, 32, 16, 8, 0, 64}
	g := NewGrid(len(sizes), func(i int) (int64, int) { return sizes[i], widths[i] })
	done := make([]int64, len(sizes))
	last := -1
	for k := range g.Len() {
		i, off, n := g.At(k)
		require.GreaterOrEqual(t, i, last)
		require.Equal(t, done[i], off, "tiles of a tensor come in order")
		require.Positive(t, n)
		done[i] += n
		last = i
	}
	require.Equal(t, sizes, done)
	require.Zero(t, NewGrid(0, nil).Len())
}

// A Reader reads each byte once, a run at a time, and gives every tile of it.
func TestReader(t *testing.T) {
	sizes := []int64{0, 4, 5 << 20, 256<<10 + 4, 0, 3<<20 + 1}
	widths := []int{32, 32, 32, 32, 16, 8}
	g := NewGrid(len(sizes), func(i int) (int64, int) { return sizes[i], widths[i] })
	value := func(i int, at int64) byte { return byte(at>>8) ^ byte(at) ^ byte(i) }
	for run, reads := range map[int64]int{0: 1 + 20 + 2 + 25, 1: 48, 300 << 10: 1 + 20 + 2 + 13, 1 << 20: 1 + 5 + 1 + 4} {
		var r Reader
		done, n := make([]int64, len(sizes)), 0
		for first := int64(0); first < g.Len(); first += g.Run(first, run) {
			require.Positive(t, g.Run(first, run))
			for k := first; k < first+g.Run(first, run); k++ {
				p, err := r.Read(g, k, run, func(i int, p []byte, off int64) error {
					require.Equal(t, first, k, "at the first tile of a run only")
					require.Equal(t, done[i], off)
					done[i] += int64(len(p))
					for j := range p {
						p[j] = value(i, off+int64(j))
					}
					n++
					return nil
				})
				require.NoError(t, err)
				i, off, size := g.At(k)
				require.Len(t, p, int(size))
				require.Equal(t, value(i, off), p[0])
				require.Equal(t, value(i, off+size-1), p[size-1])
			}
		}
		require.Equal(t, sizes, done)
		require.Equal(t, reads, n, run)
		require.LessOrEqual(t, int64(len(r.buf)), max(run, 256<<10))
	}
}

// What could not be read is read anew, and is not taken for what was asked for.
func TestReaderError(t *testing.T) {
	g := NewGrid(1, func(int) (int64, int) { return 1 << 20, 8 })
	var r Reader
	bad := errors.New("bad")
	_, err := r.Read(g, 0, 1<<20, func(int, []byte, int64) error { return nil })
	require.NoError(t, err)
	for k := range int64(2) {
		_, err = r.Read(g, 7, 0, func(int, []byte, int64) error { return bad })
		require.NoError(t, err, "it is there")
		_, err = r.Read(NewGrid(2, func(int) (int64, int) { return 1 << 20, 8 }), 8+k, 0, func(int, []byte, int64) error { return bad })
		require.Equal(t, bad, err)
		_, err = r.Read(g, 0, 1<<20, func(int, []byte, int64) error { return nil })
		require.NoError(t, err)
	}
}
