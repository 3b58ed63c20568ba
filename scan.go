package demi

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// MaxDistinct is the number of distinct values up to which Scan counts those of
// F32 and F64 exactly. Of narrower types it always does.
const MaxDistinct = 8192

// A ScanRow says what the values of one tensor are.
type ScanRow struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"`
	Size   int64   `json:"bytes"`
	Values *Values `json:"values"` // nil for types whose values Scan does not read
}

// Values sum up the values of a tensor of type F64, F32, F16, BF16 or one of
// the floats of 8 bits, which are taken without the scale that may belong to
// them.
type Values struct {
	Count     int64        `json:"count"`
	NaN       int64        `json:"nan"`
	Inf       int64        `json:"inf"`
	Zero      int64        `json:"zero"`      // of either sign
	Subnormal int64        `json:"subnormal"` // subnormal in their type
	FirstNaN  *SpecialItem `json:"first_nan"` // nil without any
	FirstInf  *SpecialItem `json:"first_inf"`
	Min       *float64     `json:"min"` // of the finite values; nil without any
	Max       *float64     `json:"max"`
	AbsMax    *float64     `json:"abs_max"`
	// Distinct is the number of distinct bit patterns; if MoreDistinct is set,
	// there are more than that.
	Distinct     int64 `json:"distinct"`
	MoreDistinct bool  `json:"more_distinct"`
	// Effective is the smallest type that holds every value, so that all come
	// back to the bit: F8_E4M3, F8_E5M2, BF16, F16, F32, or the type of the
	// tensor, which is taken if no type of fewer bits will do.
	Effective tensor.DType `json:"effective"`
}

// A SpecialItem is an element that is not finite.
type SpecialItem struct {
	Index int64  `json:"index"` // row-major, from 0
	Value string `json:"value"` // "NaN", "Inf" or "-Inf"
	Bits  string `json:"bits"`  // as "0x7fc00000"
}

// Scan reads all values once and says what they are, a row for each tensor in
// the order of the checkpoint. Nothing in the rows depends on the number of
// workers. The error is one of reading, of ctx, or tensor.ErrLimit for a limit
// of memory that does not suffice.
func Scan(ctx context.Context, c *Checkpoint, o *RunOptions) ([]ScanRow, error) {
	s, err := newScan(c, o.withDefaults(c))
	if err != nil {
		return nil, err
	}
	meter := newProgress(s.options, "scan", s.grid)
	err = ordered.Map(ctx, s.grid.Len(), len(s.workers), s.window, s.tile, func(k int64, t *scanTile) error {
		i, _, n := s.grid.At(k)
		s.add(s.read[i], t)
		recycle(s.spare, t)
		meter.add(n, s.rows[s.read[i]].Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.completeTo(len(s.rows))
	return s.rows, nil
}

// A scan is one run of Scan.
type scan struct {
	src     tensor.Source
	options RunOptions
	rows    []ScanRow
	read    []int // the tensors whose values are read
	grid    *tile.Grid
	workers []scanWorker
	window  int
	spare   chan *scanTile
	full    []atomic.Bool // of the tensors read: more than MaxDistinct values

	done  int // rows before this one are complete
	sum   scanTile
	known distinct // those of the row at done
}

// scanMemory is what a scan holds for each worker beside a tile: the tile as
// F32 (256 KiB), what has been seen of it, and two results that wait.
const scanMemory = 768 << 10

func newScan(c *Checkpoint, o RunOptions) (*scan, error) {
	s := &scan{src: c.src, options: o}
	infos := c.src.Tensors()
	var largest int64
	for i, in := range infos {
		row := ScanRow{Name: in.Name, Type: in.TypeName(), Shape: in.Shape, Size: in.Size}
		if hasValues(in.DType) {
			row.Values = &Values{Effective: in.DType}
			s.read = append(s.read, i)
			largest = max(largest, min(tile.Size(in.DType.Bits()), in.Size))
		}
		s.rows = append(s.rows, row)
	}
	n, err := o.workers(largest + scanMemory)
	if err != nil {
		return nil, err
	}
	s.grid = tile.NewGrid(len(s.read), func(i int) (int64, int) {
		in := infos[s.read[i]]
		return in.Size, in.DType.Bits()
	})
	s.workers, s.window, s.full = make([]scanWorker, n), 2*n, make([]atomic.Bool, len(s.read))
	s.spare = make(chan *scanTile, s.window)
	return s, nil
}

func hasValues(d tensor.DType) bool { return d.IsFloat() || d.IsSmallFloat() && d.Bits() == 8 }

// tile looks at tile k.
func (s *scan) tile(_ context.Context, number int, k int64) (*scanTile, error) {
	w := &s.workers[number]
	i, off, n := s.grid.At(k)
	in := s.src.Tensors()[s.read[i]]
	p := grow(&w.in, n)
	if err := tensor.ReadFull(s.src, s.read[i], p, off); err != nil {
		return nil, err
	}
	tile.Swap(p, in.DType.Bits())
	t := s.newTile()
	t.first = off / int64(in.DType.Bits()/8)
	w.look(t, in.DType, p, s.full[i].Load())
	if t.more {
		s.full[i].Store(true)
	}
	return t, nil
}

func (s *scan) newTile() *scanTile {
	select {
	case t := <-s.spare:
		t.reset()
		return t
	default:
		return new(scanTile)
	}
}

// add takes the next tile, of tensor i.
func (s *scan) add(i int, t *scanTile) {
	s.completeTo(i)
	s.sum.merge(t)
	if s.sum.more = s.sum.more || t.more; s.sum.more {
		return
	}
	for _, v := range t.list {
		if !s.known.add(v) {
			s.sum.more = true
			return
		}
	}
}

// completeTo completes the rows before row i.
func (s *scan) completeTo(i int) {
	for ; s.done < i; s.done++ {
		if v := s.rows[s.done].Values; v != nil {
			s.sum.list = append(s.sum.list[:0], s.known.list...)
			s.sum.values(v, s.src.Tensors()[s.done].DType)
			s.sum.reset()
			s.known.reset()
		}
	}
}

// A scanTile is what the values of a tile are, or those of a tensor.
type scanTile struct {
	kernels.Scan
	first    int64 // element
	min, max float64
	ranged   bool // min and max are set
	nan, inf *SpecialItem
	seen     [1 << 16 / 64]uint64 // the patterns, of types of up to 16 bits
	list     []uint64             // the distinct ones of other types, unless more is set
	more     bool
}

func (t *scanTile) reset() { *t = scanTile{list: t.list[:0]} }

// merge adds all but the list of a tile that comes later.
func (t *scanTile) merge(u *scanTile) {
	t.Scan.Merge(&u.Scan)
	if u.ranged {
		t.extend(u.min, u.max)
	}
	if t.nan == nil {
		t.nan = u.nan
	}
	if t.inf == nil {
		t.inf = u.inf
	}
	for k, w := range u.seen {
		t.seen[k] |= w
	}
}

// extend makes the range hold lo and hi, too.
func (t *scanTile) extend(lo, hi float64) {
	if !t.ranged {
		t.min, t.max, t.ranged = lo, hi, true
	}
	t.min, t.max = min(t.min, lo), max(t.max, hi)
}

// special notes an element that is not finite, if it is the first.
func (t *scanTile) special(d tensor.DType, at int, bits uint64) {
	item := &SpecialItem{t.first + int64(at), "NaN", fmt.Sprintf("0x%0*x", d.Bits()/4, bits)}
	if isNaN(d, bits) {
		if t.nan == nil {
			t.nan = item
		}
	} else if t.inf == nil {
		item.Value = "Inf"
		if bits>>(d.Bits()-1) != 0 {
			item.Value = "-Inf"
		}
		t.inf = item
	}
}

// values writes the sum down.
func (t *scanTile) values(v *Values, d tensor.DType) {
	v.Count, v.NaN, v.Inf, v.Zero, v.Subnormal = t.Count, t.NaN, t.Inf, t.Zero, t.Subnormal
	v.FirstNaN, v.FirstInf = t.nan, t.inf
	if d.Bits() <= 16 {
		t.patterns(d)
	}
	v.Distinct, v.MoreDistinct = int64(len(t.list)), t.more
	if t.more {
		v.Distinct = MaxDistinct
	}
	if t.ranged {
		lo, hi := t.min+0, t.max+0 // -0 is 0
		abs := max(-lo, hi)
		v.Min, v.Max, v.AbsMax = &lo, &hi, &abs
	}
	if t.Count > 0 {
		v.Effective = t.effective(d)
	}
}
