package format

import (
	"context"
	"errors"
	"io"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/tensor"
)

// Verify reads the whole file on the given number of goroutines, at least one,
// and checks everything that can be: the checksum of every block, that it
// decodes, the value hash of every tensor that has one, that padding is zero,
// and that records and headers of sources are well-formed, with no tensor of a
// source in the place of another. Header, footer and
// index were checked when the file was opened. So no byte of the file can be
// another without an error, but for those of sections that this program does
// not know the data of.
//
// The error joins (errors.Join) the first one of every tensor that has one, in
// order, each a *tensor.FileError; an error of reading or of ctx ends the run.
func (f *File) Verify(ctx context.Context, workers int) error {
	v := newVerifier(f, max(workers, 1))
	err := ordered.Map(ctx, v.grid.Len(), len(v.slots), 2*len(v.slots), v.tile, v.add)
	if err != nil {
		return err
	}
	v.leave(len(f.x.infos))
	_, err = f.Records()
	v.errs = append(v.errs, err)
	v.errs = append(v.errs, f.checkSources(), v.lastGap())
	return errors.Join(v.errs...)
}

// A verifier is one run of Verify.
type verifier struct {
	f     *File
	grid  *tile.Grid
	slots []*slot
	ends  []int64 // of the data before each tensor; one more at the end
	next  int     // tensors before this one are done
	root  valuehash.Root
	bad   error // of the tensor
	errs  []error
}

func newVerifier(f *File, workers int) *verifier {
	v := &verifier{f: f, slots: make([]*slot, workers), ends: make([]int64, 0, len(f.x.infos)+1)}
	for i := range v.slots {
		v.slots[i] = &slot{}
	}
	v.grid = tile.NewGrid(len(f.x.infos), func(i int) (int64, int) {
		return f.x.infos[i].Size, f.x.infos[i].DType.Bits()
	})
	end := int64(headerSize)
	for i := range f.x.entries {
		v.ends = append(v.ends, end)
		if f.x.infos[i].Size > 0 {
			end = f.x.entries[i].end
		}
	}
	v.ends = append(v.ends, end)
	v.begin()
	return v
}

// A verified is what a tile has given.
type verified struct {
	leaves [leavesPerTile]valuehash.Leaf
	n      int
	err    error // of the content
}

// tile reads a block together with the padding before it.
func (v *verifier) tile(_ context.Context, worker int, number int64) (r verified, err error) {
	i, off, n := v.grid.At(number)
	f, c := v.f, v.slots[worker]
	k := off / tileSize(f.x.infos[i].DType)
	b := f.block(i, k)
	from := v.ends[i]
	if k > 0 {
		before := f.block(i, k-1)
		from = before.Offset + before.Stored
	}
	p, release, err := f.span(c, from, b.Offset+b.Stored)
	if err != nil {
		return r, f.blockErr(i, k, &b, err)
	}
	defer release()
	gap, stored := p[:b.Offset-from], p[b.Offset-from:]
	if !zeros(gap) {
		r.err = f.fail(f.x.infos[i].Name, from, tensor.ErrFormat, "padding before block %d is not zero", k)
		return r, nil
	}
	if r.err = f.checkBlock(stored, i, k, &b); r.err != nil {
		return r, nil
	}
	dst := room(&c.tile, n)
	if r.err = f.blockErr(i, k, &b, c.decode(dst, stored, f.x.infos[i].DType, b.ID)); r.err == nil && f.x.entries[i].hashed {
		r.n = len(valuehash.AppendLeaves(r.leaves[:0], dst))
	}
	return r, nil
}

// span returns bytes of the file.
func (f *File) span(c *slot, from, to int64) (p []byte, release func(), err error) {
	if f.mapped != nil {
		p, err = f.mapped.Hold(from, to-from)
		return p, f.mapped.Release, err
	}
	p = room(&c.stored, to-from)
	n, err := f.r.ReadAt(p, from)
	if n == len(p) {
		return p, func() {}, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = classed(tensor.ErrTruncated, "%d of %d bytes at %d are there", n, len(p), from)
	}
	return nil, nil, err
}

// add takes the result of the next tile.
func (v *verifier) add(number int64, r verified) error {
	i, _, _ := v.grid.At(number)
	v.leave(i)
	if v.bad == nil {
		v.bad = r.err
	}
	v.root.Add(r.leaves[:r.n])
	return nil
}

func (v *verifier) begin() {
	if v.next < len(v.f.x.infos) {
		in := &v.f.x.infos[v.next]
		v.root = valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
	}
	v.bad = nil
}

// leave ends the tensors before i.
func (v *verifier) leave(i int) {
	for ; v.next < i; v.begin() {
		in, e := &v.f.x.infos[v.next], &v.f.x.entries[v.next]
		if got := tensor.Hash(v.root.Sum()); v.bad == nil && e.hashed && got != e.hash {
			v.bad = &tensor.FileError{File: v.f.name, Tensor: in.Name, Offset: e.offset, Err: badChecksum("value hash is %v, want %v", got, e.hash)}
		}
		v.errs = append(v.errs, v.bad)
		v.next++
	}
}

// lastGap checks the padding before the index.
func (v *verifier) lastGap() error {
	from, to := v.ends[len(v.ends)-1], v.f.foot.index
	if v.f.x.foreign() {
		return nil
	}
	p, release, err := v.f.span(v.slots[0], from, to)
	if err != nil {
		return v.f.wrap(from, err)
	}
	defer release()
	if !zeros(p) {
		return v.f.fail("", from, tensor.ErrFormat, "padding before the index is not zero")
	}
	return nil
}
