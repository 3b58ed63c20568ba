package demi

import (
	"context"
	"fmt"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// Hashes reads all tensors once and returns their value hashes, in the order of
// the checkpoint: those that the records of a conversion have.
func Hashes(ctx context.Context, c *Checkpoint, o *RunOptions) ([]tensor.Hash, error) {
	return hashesOf(ctx, c, o.withDefaults(c))
}

func hashesOf(ctx context.Context, c *Checkpoint, run RunOptions) ([]tensor.Hash, error) {
	infos := c.src.Tensors()
	h := &hashing{src: c.src, hashes: make([]tensor.Hash, len(infos))}
	h.grid = tile.NewGrid(len(infos), func(i int) (int64, int) { return infos[i].Size, infos[i].DType.Bits() })
	n, reads, err := run.divide(tile.Elems*8, 0)
	if err != nil {
		return nil, err
	}
	h.workers, h.reads = make([]tile.Reader, n), reads
	if len(infos) > 0 {
		h.root = valuehash.NewRoot(infos[0].TypeName(), infos[0].Shape, infos[0].Size)
	}
	meter := newProgress(run, "verify", h.grid)
	err = ordered.Runs(ctx, h.grid.Len(), n, 2*n*tilesIn(reads), h.grid.Runs(reads), h.tile, func(k int64, r tileResult) error {
		i, _, n := h.grid.At(k)
		h.completeTo(i)
		h.root.Add(r.leaves[:r.n])
		meter.add(n, infos[i].Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.completeTo(len(infos))
	return h.hashes, nil
}

// A hashing is one run of Hashes.
type hashing struct {
	src     tensor.Source
	grid    *tile.Grid
	reads   int64 // bytes that are read at once; 0 for a tile
	workers []tile.Reader
	root    valuehash.Root
	done    int // hashes before this one are complete
	hashes  []tensor.Hash
}

func (h *hashing) tile(_ context.Context, number int, k int64) (r tileResult, err error) {
	p, err := h.workers[number].Read(h.grid, k, h.reads, func(i int, p []byte, off int64) error { return tensor.ReadFull(h.src, i, p, off) })
	if err == nil {
		r.n = len(valuehash.AppendLeaves(r.leaves[:0], p))
	}
	return r, err
}

// completeTo completes the hashes before hash i.
func (h *hashing) completeTo(i int) {
	infos := h.src.Tensors()
	for ; h.done < i; h.done++ {
		h.hashes[h.done] = h.root.Sum()
		if next := h.done + 1; next < len(infos) {
			h.root = valuehash.NewRoot(infos[next].TypeName(), infos[next].Shape, infos[next].Size)
		}
	}
}

// recheckMemory is what Recheck needs of buffers with one worker.
const recheckMemory = 2 << 20

// Recheck reads the output of a conversion of c again and says where it is not
// what the records promise: the value hash of each tensor, and the figures that
// follow from its values and those of the source. A problem is a fault of the
// storage, or of this package. rounding is that of the conversion.
func Recheck(ctx context.Context, c, out *Checkpoint, rounding kernels.Rounding, records []tensor.Record, o *RunOptions) ([]verify.Problem, error) {
	run := o.withDefaults(c, out)
	run.headers = max(0, min(run.headers, run.MaxMemory-recheckMemory)) // too late to refuse the work
	compare := verify.Options{Workers: run.Workers, MaxMemory: run.MaxMemory - run.headers, Mode: kernels.Mode{Rounding: rounding}}
	ref := c.recorded(records)
	if report := run.Progress; report != nil { // of both reads as one
		first, second := stored(out.src), stored(ref)
		run.Progress = func(p Progress) {
			p.Total = first + second
			report(p)
		}
		compare.Progress = func(done int64) {
			report(Progress{Phase: "verify", Done: first + done, Total: first + second})
		}
	}
	hashes, err := hashesOf(ctx, out, run)
	if err != nil {
		return nil, err
	}
	found, problems, err := verify.Compare(ctx, ref, out.src, &compare)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*tensor.Record, len(records))
	for i := range records {
		byName[records[i].Name] = &records[i]
	}
	for i, in := range out.src.Tensors() {
		if r := byName[in.Name]; r != nil && r.Hash != hashes[i] {
			problems = append(problems, verify.Problem{Tensor: in.Name,
				Text: fmt.Sprintf("its bytes are not those that were written: value hash %v, want %v", hashes[i], r.Hash)})
		}
	}
	for i := range found {
		if r := byName[found[i].Name]; r != nil && !verify.SameFigures(r.Stats, found[i].Stats) {
			problems = append(problems, verify.Problem{Tensor: r.Name, Text: "its values do not give the figures that the conversion has reported"})
		}
	}
	return problems, nil
}

// recorded returns the tensors of c that records are of, with their names there.
func (c *Checkpoint) recorded(records []tensor.Record) tensor.Source {
	p := &picked{Source: c.src}
	for i := range records {
		name := records[i].Source
		if name == "" {
			name = records[i].Name
		}
		if k, ok := c.byName[name]; ok {
			p.add(k, records[i].Name)
		}
	}
	return p
}

// Records returns how each tensor came to be, in the order of the checkpoint:
// a store carries that; nil if it is none or does not.
func (c *Checkpoint) Records() ([]tensor.Record, error) {
	if s, ok := c.src.(interface {
		Records() ([]tensor.Record, error)
	}); ok {
		return s.Records()
	}
	return nil, nil
}
