package demi

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/crc"
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
// of memory that does not suffice. Checksums of the tensors that it reads are
// compared as Convert does.
func Scan(ctx context.Context, c *Checkpoint, o *RunOptions) ([]ScanRow, error) {
	var rows []ScanRow
	var read []int
	for i, in := range c.src.Tensors() {
		rows = append(rows, newScanRow(in))
		if hasValues(in.DType) {
			read = append(read, i)
		}
	}
	s, err := newScan(c.src, read, o.withDefaults(c))
	if err != nil {
		return nil, err
	}
	s.sums = crc.New(c.src, read)
	s.complete = func(k int, sum *scanTile) { rows[read[k]].Values = sum.values(c.src.Tensors()[read[k]].DType) }
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return rows, nil
}

func newScanRow(in tensor.Info) ScanRow {
	return ScanRow{Name: in.Name, Type: in.TypeName(), Shape: in.Shape, Size: in.Size}
}

// A scan reads the values of some tensors, once. The numbers of tensors are
// those in read.
type scan struct {
	src      tensor.Source
	options  RunOptions
	read     []int                      // the tensors whose values are read
	trials   []trials                   // what they are tried as; nil for nothing
	complete func(k int, sum *scanTile) // is called for each tensor, in order; sum is the scan's
	grid     *tile.Grid
	workers  []scanWorker
	reads    int64 // bytes that are read at once; 0 for a tile
	window   int
	spare    chan *scanTile
	full     []atomic.Bool // more than MaxDistinct values
	sums     *crc.Check    // nil: somebody else compares them

	done  int // tensors before this one are complete
	sum   scanTile
	known distinct // those of the tensor at done
}

// scanMemory is what a scan holds for each worker beside a tile: the tile as
// F32 (256 KiB), what has been seen of it, and two results that wait.
const scanMemory = 768 << 10

// scanWaiting is what two results take that wait: up to MaxDistinct values, and a
// set of patterns for the tensor and for each of three trials.
const scanWaiting = 2 * (8*MaxDistinct + 4*9<<10)

// newScan prepares to read the tensors in read, each of which has values.
func newScan(src tensor.Source, read []int, o RunOptions) (*scan, error) {
	return newSurvey(src, read, nil, o)
}

// newSurvey prepares to read the tensors in read, and to try each of them as
// trials say, if that is not nil.
func newSurvey(src tensor.Source, read []int, tries []trials, o RunOptions) (*scan, error) {
	infos := src.Tensors()
	var each int64
	for k, i := range read {
		m := min(tile.Size(infos[i].DType.Bits()), infos[i].Size)
		if tries != nil {
			m += tries[k].memory(infos[i])
		}
		each = max(each, m)
	}
	n, reads, err := o.divide(each+scanMemory, scanWaiting)
	if err != nil {
		return nil, err
	}
	s := &scan{src: src, options: o, read: read, trials: tries, reads: reads}
	s.grid = tile.NewGrid(len(read), func(k int) (int64, int) {
		in := infos[read[k]]
		return in.Size, in.DType.Bits()
	})
	s.workers, s.window, s.full = make([]scanWorker, n), 2*n*tilesIn(reads), make([]atomic.Bool, len(read))
	s.spare = make(chan *scanTile, s.window)
	return s, nil
}

func (s *scan) run(ctx context.Context) error {
	meter := newProgress(s.options, "scan", s.grid)
	err := s.sums.During(ctx, func() error {
		return ordered.Runs(ctx, s.grid.Len(), len(s.workers), s.window, s.grid.Runs(s.reads), s.tile, func(number int64, t *scanTile) error {
			k, _, n := s.grid.At(number)
			s.add(k, t)
			err := s.sums.Add(k, t.crc, n)
			recycle(s.spare, t)
			meter.add(n, s.info(k).Name)
			return err
		})
	})
	if err != nil {
		return err
	}
	s.completeTo(len(s.read))
	return nil
}

func (s *scan) info(k int) tensor.Info { return s.src.Tensors()[s.read[k]] }

func hasValues(d tensor.DType) bool { return d.IsFloat() || d.IsSmallFloat() && d.Bits() == 8 }

// tile looks at one tile.
func (s *scan) tile(_ context.Context, worker int, number int64) (*scanTile, error) {
	w := &s.workers[worker]
	k, off, _ := s.grid.At(number)
	in := s.info(k)
	p, err := w.in.Read(s.grid, number, s.reads, func(k int, p []byte, off int64) error { return tensor.ReadFull(s.src, s.read[k], p, off) })
	if err != nil {
		return nil, err
	}
	t := s.newTile()
	t.crc = s.sums.Of(k, p)
	tile.Swap(p, in.DType.Bits())
	t.first = off / int64(in.DType.Bits()/8)
	w.look(t, in.DType, p, s.full[k].Load())
	if t.more {
		s.full[k].Store(true)
	}
	if s.trials != nil {
		w.try(t, in.DType, p, &s.trials[k])
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

// add takes the next tile, of tensor k.
func (s *scan) add(k int, t *scanTile) {
	s.completeTo(k)
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

// completeTo completes the tensors before tensor k.
func (s *scan) completeTo(k int) {
	for ; s.done < k; s.done++ {
		s.sum.list = append(s.sum.list[:0], s.known.list...)
		s.complete(s.done, &s.sum)
		s.sum.reset()
		s.known.reset()
	}
}

// A scanTile is what the values of a tile are, or those of a tensor.
type scanTile struct {
	kernels.Scan
	first    int64 // element
	min, max float64
	ranged   bool // min and max are set
	nan, inf *SpecialItem
	seen     patternSet // the patterns, of types of up to 16 bits
	list     []uint64   // the distinct ones of other types, unless more is set
	more     bool
	trials   []trialTile
	crc      uint32 // for the checksum of the source
}

func (t *scanTile) reset() { *t = scanTile{list: t.list[:0], trials: t.trials[:0]} }

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
	t.mergeTrials(u)
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

// values writes down the sum of a tensor of type d.
func (t *scanTile) values(d tensor.DType) *Values {
	v := &Values{Effective: d, Count: t.Count, NaN: t.NaN, Inf: t.Inf, Zero: t.Zero, Subnormal: t.Subnormal, FirstNaN: t.nan, FirstInf: t.inf}
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
	return v
}
