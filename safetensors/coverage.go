package safetensors

import (
	"fmt"
	"slices"
	"sync"
)

// A coverage knows which bytes of each tensor have come, so that every byte
// comes once. It is safe for concurrent use.
type coverage struct {
	mu    sync.Mutex
	sizes []int64
	runs  [][]run // of each tensor: sorted, apart from each other
}

type run struct{ from, to int64 }

func newCoverage(sizes []int64) *coverage {
	return &coverage{sizes: sizes, runs: make([][]run, len(sizes))}
}

// check says whether n bytes at off lie in tensor i.
func (c *coverage) check(i int, off, n int64) error {
	if i < 0 || i >= len(c.sizes) {
		return fmt.Errorf("write to tensor %d of %d", i, len(c.sizes))
	}
	if off < 0 || off > c.sizes[i] || n > c.sizes[i]-off {
		return fmt.Errorf("write of %d bytes at %d of a tensor of %d bytes", n, off, c.sizes[i])
	}
	return nil
}

// add notes n bytes at off of tensor i, and refuses bytes that have come
// before.
func (c *coverage) add(i int, off, n int64) error {
	if err := c.check(i, off, n); err != nil || n == 0 {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.runs[i]
	k, _ := slices.BinarySearchFunc(runs, off, func(r run, off int64) int {
		if r.to < off {
			return -1
		}
		return 1
	}) // the first run that ends at off or behind it
	to := off + n
	next := k
	if next < len(runs) && runs[next].to == off {
		next++
	}
	if next < len(runs) && runs[next].from < to {
		return fmt.Errorf("write of %d bytes at %d: byte %d has come before", n, off, max(off, runs[next].from))
	}
	c.runs[i] = merge(runs, k, run{off, to})
	return nil
}

// merge puts r, which overlaps none, into runs at k, as one with the runs that
// it touches.
func merge(runs []run, k int, r run) []run {
	end := k
	if end < len(runs) && runs[end].to == r.from {
		r.from = runs[end].from
		end++
	}
	if end < len(runs) && runs[end].from == r.to {
		r.to = runs[end].to
		end++
	}
	return slices.Replace(runs, k, end, r)
}

// missing returns the first tensor that is not complete and the first byte
// that it lacks; i is -1 if there is none.
func (c *coverage) missing() (i int, off int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, size := range c.sizes {
		switch runs := c.runs[i]; {
		case size == 0:
		case len(runs) == 0 || runs[0].from > 0:
			return i, 0
		case runs[0].to < size:
			return i, runs[0].to
		}
	}
	return -1, 0
}
