package rawsink

import (
	"fmt"
	"slices"
	"sync"
)

// A coverage knows which bytes of each tensor have come, so that every byte
// comes once. It is safe for concurrent use.
type coverage struct {
	mu   sync.Mutex
	runs [][]run // of each tensor: in order, apart from each other
}

type run struct{ from, to int64 }

func newCoverage(tensors int) *coverage { return &coverage{runs: make([][]run, tensors)} }

// add notes n bytes at off of tensor i, and refuses bytes that have come
// before.
func (c *coverage) add(i int, off, n int64) error {
	if n == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	runs, to := c.runs[i], off+n
	k, _ := slices.BinarySearchFunc(runs, off, func(r run, off int64) int {
		if r.to <= off {
			return -1
		}
		return 1
	}) // runs[k] is the first one that ends behind off
	if k < len(runs) && runs[k].from < to {
		return fmt.Errorf("write of %d bytes at %d: byte %d has come before", n, off, max(off, runs[k].from))
	}
	c.runs[i] = merge(runs, k, run{off, to})
	return nil
}

// merge puts r before runs[k], as one with the neighbours that it touches.
func merge(runs []run, k int, r run) []run {
	from, to := k, k
	if k > 0 && runs[k-1].to == r.from {
		from, r.from = k-1, runs[k-1].from
	}
	if k < len(runs) && runs[k].from == r.to {
		to, r.to = k+1, runs[k].to
	}
	return slices.Replace(runs, from, to, r)
}

// missing returns the first tensor that is not complete and the first byte
// that it lacks; i is -1 if there is none.
func (c *coverage) missing(sizes []int64) (i int, off int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, size := range sizes {
		if runs := c.runs[i]; len(runs) > 0 && runs[0].from == 0 {
			off = runs[0].to
		} else {
			off = 0
		}
		if off < size {
			return i, off
		}
	}
	return -1, 0
}
