package crc

import (
	"context"
	"hash/crc32"

	"github.com/demi-weights/demi/tensor"
)

// A Check compares the sums of the tensors of one pass, each once: that of a
// tensor which is the whole of what the sum is of while its pieces pass by, the
// others by reading what they are of. What only tensors outside the pass lie in
// is not looked at. A nil *Check compares nothing.
type Check struct {
	whole []tensor.Sum // of each tensor of the pass; nil: not by pieces
	rest  []*reading   // in the order of the pass
	needs [][]*reading // of each tensor, if there is a rest

	// Of the tensor whose pieces pass by:
	crc   uint32
	done  int64
	sizes []int64
	shift uint32 // for pieces of so many bytes:
	piece int64
}

// A reading is a sum for which something is read beside the pass.
type reading struct {
	sum  tensor.Sum
	done chan struct{}
	err  error // when done is closed
}

// New prepares a pass that reads all of some tensors of src: the numbers in
// read, in this order, of which those below 0 stand for none. A tensor may come
// twice. The sums of what no tensor lies in are always compared.
func New(src tensor.Source, read []int) *Check {
	if _, is := src.(tensor.Summed); !is {
		return nil
	}
	c := &Check{whole: make([]tensor.Sum, len(read)), sizes: make([]int64, len(read))}
	seen := map[tensor.Sum]bool{}
	for k, i := range read {
		if i < 0 {
			continue
		}
		c.sizes[k] = src.Tensors()[i].Size
		if sums, whole := tensor.Sums(src, i); whole && !seen[sums[0]] {
			c.whole[k] = sums[0]
			seen[sums[0]] = true
		}
	}
	for _, s := range tensor.OtherSums(src) {
		c.read(s)
	}
	c.addRest(src, read, seen)
	return c
}

// addRest adds the sums that no tensor is the whole of.
func (c *Check) addRest(src tensor.Source, read []int, seen map[tensor.Sum]bool) {
	by := map[tensor.Sum]*reading{}
	for k, i := range read {
		if i < 0 {
			continue
		}
		sums, _ := tensor.Sums(src, i)
		for _, s := range sums {
			if seen[s] {
				continue
			}
			if by[s] == nil {
				by[s] = c.read(s)
			}
			if c.needs == nil {
				c.needs = make([][]*reading, len(read))
			}
			c.needs[k] = append(c.needs[k], by[s])
		}
	}
}

func (c *Check) read(s tensor.Sum) *reading {
	r := &reading{sum: s, done: make(chan struct{})}
	c.rest = append(c.rest, r)
	return r
}

// Of returns what Add wants of a piece of tensor number k of the pass, as it is
// stored. It may be called by several goroutines at once.
func (c *Check) Of(k int, p []byte) uint32 {
	if c == nil || c.whole[k] == nil {
		return 0
	}
	return crc32.ChecksumIEEE(p)
}

// Add takes what Of has returned of the next piece of n bytes. Pieces come in
// order, as the tensors do. With the last piece the sum is compared.
func (c *Check) Add(k int, crc uint32, n int64) error {
	if c == nil || c.whole[k] == nil {
		return nil
	}
	if n != c.piece {
		c.piece, c.shift = n, shiftOf(n)
	}
	if c.done == 0 {
		c.crc = crc
	} else {
		c.crc = combine(c.crc, crc, c.shift)
	}
	if c.done += n; c.done < c.sizes[k] {
		return nil
	}
	c.done = 0
	return c.whole[k].Compare(c.crc)
}

// During does a pass, which reads, and calls Of and Add, and reads the rest
// beside it. The error is that of the pass, else the first of the rest. Nothing
// runs any more when it returns.
func (c *Check) During(ctx context.Context, pass func() error) error {
	if c == nil || len(c.rest) == 0 {
		return pass()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		<-c.rest[len(c.rest)-1].done
	}()
	go c.readAll(ctx)
	if err := pass(); err != nil {
		return err
	}
	return wait(c.rest)
}

// readAll reads the rest, up to the first error.
func (c *Check) readAll(ctx context.Context) {
	var err error
	for _, r := range c.rest {
		if err == nil {
			err = r.sum.Read(ctx)
		}
		r.err = err
		close(r.done)
	}
}

// Wait waits, in a pass, until what is read for tensor k beside it has been
// compared, and returns its error.
func (c *Check) Wait(k int) error {
	if c == nil || c.needs == nil {
		return nil
	}
	return wait(c.needs[k])
}

func wait(list []*reading) error {
	for _, r := range list {
		if <-r.done; r.err != nil {
			return r.err
		}
	}
	return nil
}

// All reads all that src has sums of, and compares.
func All(ctx context.Context, src tensor.Source) error {
	sums := tensor.OtherSums(src)
	for i := range src.Tensors() {
		of, _ := tensor.Sums(src, i)
		sums = append(sums, of...)
	}
	seen := map[tensor.Sum]bool{}
	for _, s := range sums {
		if seen[s] {
			continue
		}
		seen[s] = true
		if err := s.Read(ctx); err != nil {
			return err
		}
	}
	return nil
}
