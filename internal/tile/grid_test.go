package tile

import (
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
