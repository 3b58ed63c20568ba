package demi

import (
	"context"
	"errors"
	"fmt"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// ErrOverflow is a conversion refused by OverflowError.
var ErrOverflow = errors.New("values would overflow")

// ErrNaN is a conversion refused by NaNError.
var ErrNaN = errors.New("values are NaN")

// A decider is one run of Decide. Findings belong to the open tensors.
type decider struct {
	plan     *Plan
	open     []int // undecided tensors of the plan
	findings []finding
}

// A finding is what the values of a tensor say: scan of a candidate for
// Exact, stats of a trial where overflow decides, NaN where they do.
type finding struct {
	scan  kernels.Scan
	stats tensor.Stats
	nan   nanCount
}

func (d *decider) read(ctx context.Context, src tensor.Source, o RunOptions) error {
	d.findings = make([]finding, len(d.open))
	grid := tile.NewGrid(len(d.open), func(i int) (int64, int) {
		in := d.plan.Tensors[d.open[i]].In
		return in.Size, in.DType.Bits()
	})
	var each int64
	for _, i := range d.open {
		m, _ := d.plan.Tensors[i].memory()
		each = max(each, m)
	}
	n, reads, err := o.divide(each, 0)
	if err != nil {
		return err
	}
	workers := make([]worker, n)
	meter := newProgress(o, "scan", grid)
	return ordered.Runs(ctx, grid.Len(), n, 2*n*tilesIn(reads), grid.Runs(reads), func(_ context.Context, w int, k int64) (f finding, err error) {
		i, off, _ := grid.At(k)
		t := &d.plan.Tensors[d.open[i]]
		in, err := workers[w].in.Read(grid, k, reads, func(_ int, p []byte, off int64) error { return tensor.ReadFull(src, t.Source, p, off) })
		if err != nil {
			return f, err
		}
		return workers[w].look(d.plan, t, in, off), nil
	}, func(k int64, f finding) error {
		i, _, n := grid.At(k)
		d.findings[i].scan.Merge(&f.scan)
		d.findings[i].stats.Merge(&f.stats)
		d.findings[i].nan.merge(f.nan)
		meter.add(n, d.plan.Tensors[d.open[i]].In.Name)
		return nil
	})
}

// look finds out about one tile of an undecided tensor.
func (w *worker) look(p *Plan, t *Choice, in []byte, off int64) (f finding) {
	tile.Swap(in, t.In.DType.Bits())
	if p.Options.OnNaN == NaNError {
		f.nan = countNaN(t.In.DType, in, off)
	}
	switch {
	case t.Converted() && t.narrowed() && p.overflowDecides():
		_, f.stats = w.cast(p, t, in, off)
	case t.Converted():
	case t.In.DType == tensor.F64:
		f.scan.F64(tile.Float64s(in))
	default:
		f.scan.F32(tile.Float32s(in))
	}
	return f
}

// settleOverflow decides the tensors with a type whose values may overflow.
func (d *decider) settleOverflow() error {
	var errs []error
	for k, i := range d.open {
		t, s := &d.plan.Tensors[i], &d.findings[k].stats
		if !t.Converted() {
			continue
		}
		t.Undecided = false
		if s.Overflowed == 0 {
			t.fits = d.plan.promisesFit(t)
			continue
		}
		text := fmt.Sprintf("%d of %d values are beyond the range of %s", s.Overflowed, s.Count, t.Out.DType)
		if d.plan.Options.Overflow == OverflowError {
			errs = append(errs, fmt.Errorf("tensor %q: %w: %s", t.In.Name, ErrOverflow, text))
			continue
		}
		t.Out = t.In
		t.because("kept: " + text)
	}
	return errors.Join(errs...)
}

// settleExact decides the candidates for Exact: one 16-bit type for all of
// them, whichever saves more, or BF16 before F16 for each if types may mix.
func (d *decider) settleExact() error {
	half := tensor.BF16
	if !d.plan.Options.Mixed {
		half = d.half()
	}
	for k, i := range d.open {
		t, s := &d.plan.Tensors[i], &d.findings[k].scan
		if !t.Undecided {
			continue
		}
		t.Undecided, t.scan = false, s
		to := half
		if d.plan.Options.Mixed && s.NotBF16 != 0 {
			to = tensor.F16
		}
		misfits := s.NotBF16
		if to == tensor.F16 {
			misfits = s.NotF16
		}
		var err error
		switch {
		case misfits == 0:
			err = t.retype(to, "exact: all values fit "+to.String())
		case t.In.DType == tensor.F64 && s.NotF32 == 0:
			err = t.retype(tensor.F32, "exact: all values fit F32")
		default:
			t.because(fmt.Sprintf("exact: of %d values %d do not fit BF16, %d F16", s.Count, s.NotBF16, s.NotF16))
		}
		if err != nil {
			return err
		}
		t.exact = t.Converted()
	}
	return nil
}

// settleNaN refuses NaN in tensors that get another type.
func (d *decider) settleNaN() error {
	if d.plan.Options.OnNaN != NaNError {
		return nil
	}
	var errs []error
	for k, i := range d.open {
		t, n := &d.plan.Tensors[i], d.findings[k].nan
		if !t.Converted() {
			continue
		}
		if n.count > 0 {
			errs = append(errs, nanError(t.In, n))
		}
		t.clean = n.count == 0
	}
	return errors.Join(errs...)
}

func nanError(in tensor.Info, n nanCount) error {
	return fmt.Errorf("tensor %q: %w: %d of %d, the first at [%d]", in.Name, ErrNaN, n.count, in.Elements(), n.first)
}

// promisesFit tells of a decided tensor whether no value may overflow.
func (p *Plan) promisesFit(t *Choice) bool { return t.narrowed() && p.overflowDecides() }

// A nanCount is the number of NaN in some values, and the index of the first.
type nanCount struct{ count, first int64 }

// merge adds those of a later tile.
func (n *nanCount) merge(later nanCount) {
	if n.count == 0 {
		n.first = later.first
	}
	n.count += later.count
}

// countNaN looks at a tile that begins at byte off of its tensor, in the byte
// order of the machine.
func countNaN(d tensor.DType, in []byte, off int64) (n nanCount) {
	at := off / int64(d.Bits()/8)
	found := func(i int) { n.merge(nanCount{1, at + int64(i)}) }
	switch d {
	case tensor.F64:
		for i, x := range tile.Float64s(in) {
			if x != x {
				found(i)
			}
		}
	case tensor.F32:
		for i, x := range tile.Float32s(in) {
			if x != x {
				found(i)
			}
		}
	default:
		inf := uint16(0x7c00)
		if d == tensor.BF16 {
			inf = 0x7f80
		}
		for i, x := range tile.Uint16s(in) {
			if x&^0x8000 > inf {
				found(i)
			}
		}
	}
	return n
}

// half returns the 16-bit type that saves more bytes; BF16 on a tie.
func (d *decider) half() tensor.DType {
	var bf16, f16 int64
	for k, i := range d.open {
		t, s := &d.plan.Tensors[i], &d.findings[k].scan
		if !t.Undecided {
			continue
		}
		saved := t.In.Size - 2*s.Count
		if s.NotBF16 == 0 {
			bf16 += saved
		}
		if s.NotF16 == 0 {
			f16 += saved
		}
	}
	if f16 > bf16 {
		return tensor.F16
	}
	return tensor.BF16
}
