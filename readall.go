package demi

import (
	"context"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/tensor"
)

// ReadOptions are those of Checkpoint.ReadAll. The zero value means the
// defaults. The functions are called from the goroutines that read: while they
// run, one of them reads nothing.
type ReadOptions struct {
	// Workers is the number of goroutines that read and decode; 0 means
	// runtime.GOMAXPROCS. Storage that is far away may be worth more of them.
	Workers int
	// Progress, if not nil, is told the bytes that have been read, and those
	// that will have been. There is one call at a time.
	Progress func(done, total int64)
	// Done, if not nil, is given each tensor that is complete, in any order,
	// with the memory that it was read to: while the others are read, this one
	// can be used. Calls may come at once. An error ends ReadAll.
	Done func(tensor.Info, []byte) error
}

// readSize is how much one goroutine reads at a time. It is a whole number of
// tiles of any type, so that those of a store are decoded in place.
const readSize = 2 << 20

// ReadAll reads tensors into the caller's memory, little-endian and row-major.
// alloc is asked for the memory of each tensor in file order, before anything
// is read; it must return Info.Size bytes, or nil for a tensor that is not
// wanted. Tensors are read in file order, in large pieces, by several
// goroutines at once; ReadAll has no memory of its own but for stores, of
// which each goroutine keeps a block.
//
// The error is the first one in file order that was met, or that of ctx, after
// all reading has ended; the memory holds anything then. Errors are as
// tensor.ReadFull has them.
func (c *Checkpoint) ReadAll(ctx context.Context, alloc func(tensor.Info) []byte, o ReadOptions) error {
	r := &reading{src: c.src, o: o}
	for i, in := range c.src.Tensors() {
		if p := alloc(in); p == nil {
			continue
		} else if err := r.add(i, p); err != nil {
			return err
		}
	}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return ordered.Each(ctx, r.pieces, workers, r.read)
}

// A reading is one run of ReadAll.
type reading struct {
	src    tensor.Source
	o      ReadOptions
	list   []*wanted
	pieces int64
	total  int64
	mu     sync.Mutex // of Progress
	done   int64
}

// A wanted tensor is read in pieces.
type wanted struct {
	i     int
	p     []byte
	first int64        // the number of its first piece
	left  atomic.Int64 // pieces that are not read yet
}

func (r *reading) add(i int, p []byte) error {
	in := r.src.Tensors()[i]
	if int64(len(p)) != in.Size {
		return fmt.Errorf("tensor %q has %d bytes, the memory for it %d", in.Name, in.Size, len(p))
	}
	n := max(in.Size/readSize+min(in.Size%readSize, 1), 1) // an empty one has to be done, too
	w := &wanted{i: i, p: p, first: r.pieces}
	w.left.Store(n)
	r.list = append(r.list, w)
	r.pieces += n
	r.total += in.Size
	return nil
}

// read reads piece k.
func (r *reading) read(k int64) error {
	w := r.list[sort.Search(len(r.list), func(i int) bool { return r.list[i].first > k })-1]
	off := (k - w.first) * readSize
	p := w.p[off:min(off+readSize, int64(len(w.p)))]
	if len(p) > 0 {
		if err := tensor.ReadFull(r.src, w.i, p, off); err != nil {
			return err
		}
	}
	r.progress(int64(len(p)))
	if w.left.Add(-1) == 0 && r.o.Done != nil {
		return r.o.Done(r.src.Tensors()[w.i], w.p)
	}
	return nil
}

func (r *reading) progress(n int64) {
	if r.o.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	r.o.Progress(r.done, r.total)
}
