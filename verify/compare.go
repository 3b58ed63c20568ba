package verify

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/demi-weights/demi/internal/crc"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// Options of Compare. The zero value means the defaults.
type Options struct {
	// Workers is the number of goroutines that read and measure; 0 means
	// twice the processors, at most 8.
	Workers int
	// MaxMemory is a limit on the bytes of all buffers; it lowers the number
	// of workers. 0 means no limit; one below what a worker needs is
	// tensor.ErrLimit.
	MaxMemory int64
	// Mode says how the values of got were narrowed, as far as it is known;
	// it decides what counts as overflow.
	Mode kernels.Mode
	// Detail asks for Report.Details. They are made in plain Go and take several
	// times as long as the rest.
	Detail bool
	// Explain asks for Report.Explanations.
	Explain bool
	// AllowMissing and AllowExtra, if not nil, tell of a name whether that tensor
	// may be missing in got, or be there and not in ref: it is then no problem.
	AllowMissing, AllowExtra func(name string) bool
	// Uncertain, if not nil, tells of a name whether the layout of that tensor may
	// differ: another shape or type is then no problem.
	Uncertain func(name string) bool
	// Progress, if not nil, is called from one goroutine after each tile with
	// the bytes of the reference that have been compared.
	Progress func(bytes int64)
}

// A Problem is a difference that is not one of values: a tensor that is
// missing, additional, of another shape or an incomparable type, or of a type
// that has no values to measure and bytes that differ.
type Problem struct {
	Tensor string `json:"tensor"`
	Text   string `json:"text"`
}

// A Report is what a comparison has found.
type Report struct {
	// Records has the tensors that were compared, in the order of got. They have
	// no reason, rounding or hash; Stats is nil for types that are not floats.
	Records []tensor.Record
	// Details has those of Records, with Options.Detail: nil where Stats is nil.
	Details []*Detail
	// Explanations has those of Records, with Options.Explain: nil where Stats is
	// nil.
	Explanations []*Explanation
	// Problems come in the order of ref, then those of additional tensors, then
	// those of bytes that differ. Allowed are those which the options
	// allow.
	Problems, Allowed []Problem
}

// Compare returns the records and problems of Measure.
func Compare(ctx context.Context, ref, got tensor.Source, o *Options) ([]tensor.Record, []Problem, error) {
	r, err := Measure(ctx, ref, got, o)
	return r.Records, r.Problems, err
}

// Measure compares every tensor of got with the tensor of the same name in
// ref. Each byte is read once, by several goroutines, in bounded memory. The
// error tells of reading only, and the report is then not complete:
// differences are results. A wrong checksum of what is compared is an error of
// reading, tensor.ErrFormat, also of a source whose reads do not compare it
// (tensor.Summed): where it is not that of a whole tensor, what it is of is read
// once more.
func Measure(ctx context.Context, ref, got tensor.Source, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	c := &comparison{ref: ref, got: got, options: o}
	c.match()
	c.grid = tile.NewGrid(len(c.pairs), func(i int) (int64, int) {
		info := ref.Tensors()[c.pairs[i].ref]
		return info.Size, info.DType.Bits()
	})
	err := c.run(ctx)
	for i, differs := range c.differs {
		if differs {
			c.problem(c.Records[i].Name, "the stored bytes of type "+c.Records[i].From+" differ")
		}
	}
	for _, e := range c.explaining {
		if e == nil {
			c.Explanations = append(c.Explanations, nil)
		} else {
			c.Explanations = append(c.Explanations, e.explanation())
		}
	}
	return &c.Report, err
}

// A comparison is one run of Measure. Records, Details, differs and explaining
// belong to pairs.
type comparison struct {
	Report
	ref, got   tensor.Source
	options    *Options
	grid       *tile.Grid
	pairs      []pair
	differs    []bool        // of tensors that are not floats: the bytes
	explaining []*explaining // nil if not asked for
	workers    []compareWorker

	refSums, gotSums *crc.Check
}

// A pair is one tensor in both sources. Floats are measured; the rest is
// compared byte by byte.
type pair struct {
	ref, got int
	float    bool
}

func (c *comparison) problem(name, text string) {
	c.Problems = append(c.Problems, Problem{name, text})
}

// unmatched notes a tensor that has no counterpart to compare with.
func (c *comparison) unmatched(name, text string, allow func(string) bool) {
	if allow != nil && allow(name) {
		c.Allowed = append(c.Allowed, Problem{name, text})
		return
	}
	c.problem(name, text)
}

// match pairs the tensors that can be compared, in the order of got.
func (c *comparison) match() {
	byName := index(c.got)
	for i, a := range c.ref.Tensors() {
		if j, ok := byName[a.Name]; !ok {
			c.unmatched(a.Name, "missing", c.options.AllowMissing)
		} else if text := incomparable(a, c.got.Tensors()[j]); text != "" {
			c.unmatched(a.Name, text, c.options.Uncertain)
		} else {
			c.pairs = append(c.pairs, pair{i, j, a.DType.IsFloat()})
		}
	}
	slices.SortFunc(c.pairs, func(a, b pair) int { return a.got - b.got })
	known := index(c.ref)
	for _, b := range c.got.Tensors() {
		if _, ok := known[b.Name]; !ok {
			c.unmatched(b.Name, "additional", c.options.AllowExtra)
		}
	}
	c.differs = make([]bool, len(c.pairs))
	for _, p := range c.pairs {
		c.Records = append(c.Records, newRecord(c.ref.Tensors()[p.ref], c.got.Tensors()[p.got]))
		if c.options.Detail {
			c.Details = append(c.Details, c.newDetail(p))
		}
		if c.options.Explain {
			c.explaining = append(c.explaining, newExplainingOf(p.float))
		}
	}
}

// index returns the number of each tensor by its name.
func index(src tensor.Source) map[string]int {
	m := make(map[string]int, len(src.Tensors()))
	for i, info := range src.Tensors() {
		m[info.Name] = i
	}
	return m
}

// incomparable says why two tensors cannot be compared; "" if they can.
func incomparable(a, b tensor.Info) string {
	floats := a.DType.IsFloat() && b.DType.IsFloat()
	switch {
	case !slices.Equal(a.Shape, b.Shape):
		return fmt.Sprintf("shape %v became %v", a.Shape, b.Shape)
	case !floats && (a.TypeName() != b.TypeName() || a.Size != b.Size):
		return fmt.Sprintf("type %s (%d bytes) became %s (%d bytes)", a.TypeName(), a.Size, b.TypeName(), b.Size)
	}
	return ""
}

func newRecord(ref, got tensor.Info) tensor.Record {
	r := tensor.Record{
		Name: got.Name, From: ref.TypeName(), To: got.TypeName(),
		Shape: got.Shape, SizeIn: ref.Size, SizeOut: got.Size,
	}
	if ref.DType.IsFloat() {
		r.Stats = &tensor.Stats{MaxIndex: -1}
	}
	return r
}

func (c *comparison) newDetail(p pair) *Detail {
	if !p.float {
		return nil
	}
	d := &Detail{MaxRelIndex: -1}
	d.complete(c.got.Tensors()[p.got].DType) // there may be no tile to do it
	return d
}

func newExplainingOf(float bool) *explaining {
	if !float {
		return nil
	}
	return newExplaining()
}

// workerMemory is what a worker may hold: two tiles of F64, those of its meter,
// and what details need.
func (o *Options) workerMemory() int64 {
	n := int64(2*tile.Elems*8 + tile.Elems*(4+8))
	if o.Detail {
		n += detailMemory
	}
	if o.Explain {
		n += roundingMemory
	}
	return n
}

func (c *comparison) run(ctx context.Context) error {
	workers := c.options.Workers
	if workers <= 0 {
		workers = min(8, 2*runtime.GOMAXPROCS(0))
	}
	o := c.options
	if o.MaxMemory > 0 {
		workers = int(min(int64(workers), o.MaxMemory/o.workerMemory()))
	}
	if workers == 0 {
		return fmt.Errorf("%w: a memory limit of %d bytes; one worker needs %d", tensor.ErrLimit, o.MaxMemory, o.workerMemory())
	}
	c.workers = make([]compareWorker, workers)
	c.checkSums()
	return c.refSums.During(ctx, func() error {
		return c.gotSums.During(ctx, func() error { return c.readTiles(ctx) })
	})
}

// checkSums prepares to compare the checksums of both sources.
func (c *comparison) checkSums() {
	var ref, got []int
	for _, p := range c.pairs {
		ref, got = append(ref, p.ref), append(got, p.got)
	}
	c.refSums, c.gotSums = crc.New(c.ref, ref), crc.New(c.got, got)
}

func (c *comparison) readTiles(ctx context.Context) error {
	var done int64
	o, workers := c.options, len(c.workers)
	return ordered.Map(ctx, c.grid.Len(), workers, 2*workers, c.tile, func(k int64, r tileResult) error {
		i, off, n := c.grid.At(k)
		if err := c.addSums(i, n, &r); err != nil {
			return err
		}
		c.merge(i, &r)
		if r.detail != nil && off+n == c.ref.Tensors()[c.pairs[i].ref].Size {
			c.Details[i].complete(c.got.Tensors()[c.pairs[i].got].DType)
		}
		if done += n; o.Progress != nil {
			o.Progress(done)
		}
		return nil
	})
}

// addSums adds the next tile, of n bytes of ref, to the checksums of pair i.
func (c *comparison) addSums(i int, n int64, r *tileResult) error {
	if err := c.refSums.Add(i, r.refSum, n); err != nil {
		return err
	}
	return c.gotSums.Add(i, r.gotSum, c.gotBytes(c.pairs[i], n))
}

// merge adds the next tile of pair i.
func (c *comparison) merge(i int, r *tileResult) {
	if s := c.Records[i].Stats; s != nil {
		if r.detail != nil {
			c.Details[i].merge(r.detail, s.Count)
		}
		if r.deviations != nil {
			c.explaining[i].merge(r.deviations, s.Count)
		}
		s.Merge(&r.stats)
	}
	c.differs[i] = c.differs[i] || r.differs
}

// A compareWorker is the memory of one goroutine.
type compareWorker struct {
	meter    Meter
	detail   detailMeter
	rounding roundingMeter
	ref, got []byte
}

type tileResult struct {
	stats      tensor.Stats
	detail     *Detail      // nil if not asked for
	deviations []*Deviation // nil if not asked for
	differs    bool

	refSum, gotSum uint32
}

// tile compares tile k.
func (c *comparison) tile(_ context.Context, worker int, k int64) (r tileResult, err error) {
	w := &c.workers[worker]
	if w.ref == nil {
		w.ref, w.got = tile.NewBuffer(tile.Elems*8), tile.NewBuffer(tile.Elems*8)
	}
	i, off, n := c.grid.At(k)
	p := c.pairs[i]
	a, b := c.ref.Tensors()[p.ref].DType, c.got.Tensors()[p.got].DType
	x, y := w.ref[:n], w.got[:c.gotBytes(p, n)]
	if err = tensor.ReadFull(c.ref, p.ref, x, off); err == nil {
		err = tensor.ReadFull(c.got, p.got, y, c.gotBytes(p, off))
	}
	if err != nil {
		return r, err
	}
	r.refSum, r.gotSum = c.refSums.Of(i, x), c.gotSums.Of(i, y)
	if !p.float {
		r.differs = !bytes.Equal(x, y)
		return r, nil
	}
	tile.Swap(x, a.Bits())
	tile.Swap(y, b.Bits())
	r.stats = w.meter.Tile(a, x, b, y, c.options.Mode)
	if c.options.Detail {
		r.detail = w.detail.tile(c.ref.Tensors()[p.ref], x, b, y, off/int64(a.Bits()/8))
	}
	if c.options.Explain {
		r.deviations = w.rounding.tile(c.explaining[i], off, a, x, b, y)
	}
	return r, nil
}

// gotBytes turns bytes of the first tensor of a pair into those of its second.
func (c *comparison) gotBytes(p pair, n int64) int64 {
	if !p.float {
		return n
	}
	return rescale(n, c.ref.Tensors()[p.ref].DType, c.got.Tensors()[p.got].DType)
}

// rescale turns bytes of elements of type a into bytes of as many of type b.
func rescale(n int64, a, b tensor.DType) int64 {
	return n / int64(a.Bits()/8) * int64(b.Bits()/8)
}
