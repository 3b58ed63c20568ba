package demi

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/demi-weights/demi/codec"
	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/cast"
	"github.com/demi-weights/demi/internal/crc"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// RunOptions say how the work is done; they do not change its result. The zero
// value means the defaults.
type RunOptions struct {
	// Workers is the number of goroutines that read, convert and write; 0
	// means twice the processors, at most 8; 8 for a source behind a URL.
	Workers int
	// MaxMemory is a limit on the bytes of all buffers together, and of what
	// Checkpoint.HeaderMemory says; it lowers the number of workers. 0 means no
	// limit: at most a few MiB a worker. A limit below what one worker needs is
	// tensor.ErrLimit.
	MaxMemory int64
	// Progress, if not nil, is called after each tile, never by two goroutines
	// at once.
	Progress func(Progress)

	headers int64 // bytes of MaxMemory that are not for buffers
	remote  bool  // a source is behind a URL
}

// A Progress says how far the work has come.
type Progress struct {
	Phase  string // "scan", "convert", "verify" or "hash"
	Done   int64  // bytes of the source that have been read
	Total  int64
	Tensor string // the one that the last tile belongs to
}

// The defaults for checkpoints behind a URL: workers, which wait for the network
// more than they work, and bytes that one of them asks for at a time. Shorter
// requests cost as much as what they bring: docs/perf.md.
const (
	remoteWorkers = 8
	remoteRun     = 1 << 20
)

// withDefaults returns the options for work on these checkpoints.
func (o *RunOptions) withDefaults(of ...*Checkpoint) RunOptions {
	var r RunOptions
	if o != nil {
		r = *o
	}
	if r.Workers <= 0 {
		r.Workers = min(8, 2*runtime.GOMAXPROCS(0))
	}
	for _, c := range of {
		r.headers += c.HeaderMemory()
		r.remote = r.remote || c.site != nil
	}
	if r.remote && (o == nil || o.Workers <= 0) {
		r.Workers = remoteWorkers
	}
	return r
}

// Convert carries out a plan: it reads the tensors of c, converts and measures
// them, and writes them to sink. It returns a record of each tensor, in the
// order of the output. Whatever the workers and the processor, bytes and
// records are the same.
//
// Convert finishes the sink, or aborts it when it returns an error. Files of the
// source that are written to meanwhile are tensor.ErrChanged.
//
// Of a source that has checksums which reading does not compare, the entries of
// PyTorch's zip archives, Convert compares those of the tensors that it reads,
// and of what no tensor lies in, such as the pickle, before the sink is finished
// and before a file of it counts as complete: one that is wrong is
// tensor.ErrFormat. An entry that a tensor takes from end to end is summed up as
// it passes by; where tensors are parts or views of an entry, the entry is read a
// second time, but not from a URL. Entries of tensors that are left out, or
// that an earlier run has written, are not looked at.
func Convert(ctx context.Context, c *Checkpoint, sink tensor.Sink, p *Plan, o *RunOptions) ([]tensor.Record, error) {
	ended := false
	defer func() {
		if !ended { // by an error, or by a panic
			sink.Abort()
		}
	}()
	v, err := newConversion(c, sink, p, o.withDefaults(c))
	if err == nil {
		before := c.stamps()
		v.unwritten = func() error { return c.unchanged(before) }
		err = v.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	ended = true
	return v.records, nil
}

// A conversion is one run of Convert.
type conversion struct {
	c       *Checkpoint
	src     tensor.Source
	sink    tensor.Sink
	plan    *Plan
	options RunOptions
	grid    *tile.Grid
	workers []worker
	reads   int64 // bytes that are read at once; 0 for a tile
	window  int
	spare   chan []byte         // output buffers that wait, for sinks that want order
	tiles   store.TileSink      // the sink, if it takes tiles that are encoded; else nil
	encoded chan *store.Encoded // those that wait
	records []tensor.Record
	have    map[int]tensor.Record // of tensors that an earlier run has written
	done    int                   // records before this one are complete
	root    valuehash.Root
	sums    *crc.Check

	unwritten func() error // says whether the files of the source were written to
}

// A resumer is a Sink that may have tensors from an earlier run, and wants to
// know when one is complete.
type resumer interface {
	resume(ctx context.Context, infos []tensor.Info, meta tensor.Metadata, workers int) (map[int]tensor.Record, error)
	completed(i int, records []tensor.Record)
}

func newConversion(c *Checkpoint, sink tensor.Sink, p *Plan, o RunOptions) (*conversion, error) {
	if p.Undecided() > 0 || p.tieOpen {
		return nil, errUndecided
	}
	v := &conversion{c: c, src: c.src, sink: sink, plan: p, options: o}
	if err := v.divide(); err != nil {
		return nil, err
	}
	for i := range p.Tensors {
		v.records = append(v.records, p.record(&p.Tensors[i]))
	}
	return v, nil
}

// record returns the record of a tensor before anything has been measured.
func (p *Plan) record(t *Choice) tensor.Record {
	r := tensor.Record{
		Name: t.In.Name, Source: t.Renamed, From: t.In.TypeName(), To: t.Out.TypeName(), Reason: t.Reason,
		Shape: t.In.Shape, SizeIn: t.In.Size, SizeOut: t.Out.Size,
	}
	if t.Converted() {
		r.Stats = &tensor.Stats{MaxIndex: -1}
	}
	if t.narrowed() {
		r.Rounding, r.Overflow, r.Flush = p.Options.Rounding.String(), string(p.Options.Overflow), p.Options.Flush
		if p.Options.Rounding == kernels.Stochastic {
			r.Seed = p.Options.Seed
		}
	}
	return r
}

// divide finds how many workers the memory allows. A worker has its buffers,
// and each place of the window an output buffer if the sink wants order.
func (v *conversion) divide() (err error) {
	var each, queued int64
	for i := range v.plan.Tensors {
		m, out := v.plan.Tensors[i].memory()
		each, queued = max(each, m), max(queued, out)
	}
	if !v.sink.Ordered() {
		queued = 0
	}
	each += 2 * queued
	if v.plan.Options.Format == Demi {
		each += encoderMemory(v.sink)
	}
	var n int
	if n, v.reads, err = v.options.divide(each, 2*queued); err != nil {
		return err
	}
	v.workers, v.window = make([]worker, n), 2*n*tilesIn(v.reads)
	v.spare, v.encoded = make(chan []byte, v.window), make(chan *store.Encoded, v.window)
	return nil
}

// encoderMemory returns about what a store.TileEncoder of a Sink holds. The
// level small tries the densest Zstandard, which was measured at 36 MiB.
func encoderMemory(s tensor.Sink) int64 {
	level := codec.Fast
	switch s := base(s).(type) {
	case *dirSink:
		level = s.options.Level
	case *partSink:
		level = s.level
	case *store.Sink:
		level = s.Level()
	}
	if level == codec.Small {
		return 40 << 20
	}
	return 512 << 10
}

// memory returns the bytes of the buffers that a tile of t takes, and those of
// its output among them.
func (t *Choice) memory() (all, out int64) {
	in := min(tile.Size(t.In.DType.Bits()), t.In.Size)
	if !t.Converted() {
		return in, in
	}
	out = min(tile.Size(t.Out.DType.Bits()), t.Out.Size)
	return in + out + verify.MeterMemory(t.In.DType, t.Out.DType), out
}

func (v *conversion) run(ctx context.Context) error {
	if err := v.begin(ctx); err != nil {
		return err
	}
	v.tiles = encoder(v.sink)
	if len(v.records) > 0 {
		v.root = v.newRoot(0)
	}
	meter := newProgress(v.options, "convert", v.grid)
	v.sums = v.checkSums()
	err := v.sums.During(ctx, func() error {
		return ordered.Runs(ctx, v.grid.Len(), len(v.workers), v.window, v.grid.Runs(v.reads), v.tile, func(k int64, r tileResult) error {
			i, _, n := v.grid.At(k)
			meter.add(n, v.records[i].Name)
			if err := v.sums.Add(i, r.sum, n); err != nil {
				return err
			}
			return v.collect(i, r)
		})
	})
	if err != nil {
		return err
	}
	if err := v.complete(len(v.records)); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), v.unwritten(), v.unchanged()); err != nil {
		return err
	}
	return v.sink.Finish(v.records)
}

// checkSums prepares to compare the checksums of the tensors that have tiles.
func (v *conversion) checkSums() *crc.Check {
	read := make([]int, len(v.plan.Tensors))
	for i := range read {
		if read[i] = v.plan.Tensors[i].Source; v.has(i) {
			read[i] = -1
		}
	}
	return crc.New(v.src, read)
}

// has reports whether an earlier run has written tensor i.
func (v *conversion) has(i int) bool {
	_, done := v.have[i]
	return done
}

// begin begins the output and finds out what is left to do.
func (v *conversion) begin(ctx context.Context) (err error) {
	infos := v.plan.Infos()
	if r, ok := base(v.sink).(resumer); ok {
		if v.have, err = r.resume(ctx, infos, v.plan.Meta, len(v.workers)); err != nil {
			return err
		}
	}
	v.grid = tile.NewGrid(len(infos), func(i int) (int64, int) {
		if v.has(i) {
			return 0, 0
		}
		in := v.plan.Tensors[i].In
		return in.Size, in.DType.Bits()
	})
	return v.sink.Begin(infos, v.plan.Meta)
}

// unchanged compares what Decide has seen with what was converted.
func (v *conversion) unchanged() error {
	for i := range v.plan.Tensors {
		t, s := &v.plan.Tensors[i], v.records[i].Stats
		if t.Converted() && s == nil {
			continue // another run has looked
		}
		if t.exact && s.Changed > 0 || t.fits && s.Overflowed > 0 || t.clean && s.NaNIn > 0 || t.trial != nil && *t.trial != *s {
			file, offset := v.src.Place(t.Source)
			return &tensor.FileError{File: file, Tensor: t.In.Name, Offset: offset,
				Err: fmt.Errorf("%w: its values are not those that the plan was made for", tensor.ErrChanged)}
		}
	}
	return nil
}

func (v *conversion) newRoot(i int) valuehash.Root {
	out := v.plan.Tensors[i].Out
	return valuehash.NewRoot(out.TypeName(), out.Shape, out.Size)
}

// complete closes the records up to that of tensor i, which is the next to
// get results. Tensors without data have no tiles and get their hash here. Who
// watches may keep a tensor for the next run, which will not read it: its
// checksum comes first.
func (v *conversion) complete(i int) error {
	watch, _ := base(v.sink).(resumer)
	for v.done < i {
		if r, ok := v.have[v.done]; ok {
			v.records[v.done] = r
		} else {
			v.records[v.done].Hash = v.root.Sum()
		}
		if watch != nil {
			if err := v.sums.Wait(v.done); err != nil {
				return err
			}
			watch.completed(v.done, v.records)
		}
		if v.done++; v.done < len(v.records) {
			v.root = v.newRoot(v.done)
		}
	}
	return nil
}

// encoder returns s, which has begun, as a Sink for which the workers do the
// encoding, while a tile is in their cache; nil if it is none.
func encoder(s tensor.Sink) store.TileSink {
	s = base(s)
	switch d := s.(type) {
	case *dirSink:
		s = d.SetSink
	case *partSink:
		s = d.SetSink
	}
	t, _ := s.(store.TileSink)
	return t
}

// A tileResult is what a worker has found and, for a sink that wants order,
// made.
type tileResult struct {
	stats  tensor.Stats
	leaves [leavesPerTile]valuehash.Leaf
	n      int    // of leaves
	sum    uint32 // for the checksum of the source
	off    int64
	out    []byte // nil if it has been written or encoded
	tile   *store.Encoded
}

// leavesPerTile is that of the widest output, F64.
const leavesPerTile = tile.Elems * 8 / valuehash.LeafSize

// tile does all the work on tile k.
func (v *conversion) tile(_ context.Context, number int, k int64) (r tileResult, err error) {
	w := &v.workers[number]
	i, off, _ := v.grid.At(k)
	t := &v.plan.Tensors[i]
	in, err := w.in.Read(v.grid, k, v.reads, func(_ int, p []byte, off int64) error { return tensor.ReadFull(v.src, t.Source, p, off) })
	if err != nil {
		return r, err
	}
	out := in
	r.off, r.sum = off, v.sums.Of(i, in)
	if t.Converted() {
		tile.Swap(in, t.In.DType.Bits())
		out, r.stats = w.cast(v.plan, t, in, off)
		tile.Swap(out, t.Out.DType.Bits())
		r.off = off / int64(t.In.DType.Bits()) * int64(t.Out.DType.Bits())
	}
	r.n = len(valuehash.AppendLeaves(r.leaves[:0], out))
	switch {
	case v.tiles != nil:
		r.tile, err = v.encode(w, i, r.off, out)
	case v.sink.Ordered():
		r.out = v.copyOf(out)
	default:
		err = v.sink.Write(i, r.off, out)
	}
	return r, err
}

func (v *conversion) encode(w *worker, i int, off int64, out []byte) (e *store.Encoded, err error) {
	select {
	case e = <-v.encoded:
	default:
		e = new(store.Encoded)
	}
	if w.encoder == nil {
		w.encoder = v.tiles.NewTileEncoder()
	}
	return e, w.encoder.Encode(e, i, off, out)
}

// copyOf keeps an output until its turn comes.
func (v *conversion) copyOf(out []byte) []byte {
	select {
	case b := <-v.spare:
		return append(b[:0], out...)
	default:
		return append([]byte(nil), out...)
	}
}

// collect adds the result of the next tile, of tensor i.
func (v *conversion) collect(i int, r tileResult) error {
	if err := v.complete(i); err != nil {
		return err
	}
	v.root.Add(r.leaves[:r.n])
	if s := v.records[i].Stats; s != nil {
		s.Merge(&r.stats)
	}
	switch {
	case r.tile != nil:
		err := v.tiles.Append(i, r.off, r.tile)
		recycle(v.encoded, r.tile)
		return err
	case r.out != nil:
		err := v.sink.Write(i, r.off, r.out)
		recycle(v.spare, r.out)
		return err
	}
	return nil
}

func recycle[T any](pool chan T, x T) {
	select {
	case pool <- x:
	default:
	}
}

// A worker is the memory of one goroutine.
type worker struct {
	in      tile.Reader
	out     []byte
	meter   verify.Meter
	encoder *store.TileEncoder
}

// grow returns n bytes of a buffer, which it makes larger if it must.
func grow(b *[]byte, n int64) []byte {
	if int64(len(*b)) < n {
		*b = tile.NewBuffer(int(n))
	}
	return (*b)[:n]
}

// cast converts a tile that begins at byte off of tensor t, in the byte order
// of the machine, and measures it. The result is the worker's.
func (w *worker) cast(p *Plan, t *Choice, in []byte, off int64) ([]byte, tensor.Stats) {
	mode := p.Options.mode(t.sourceName())
	mode.First = off / int64(t.In.DType.Bits()/8)
	return w.castTile(t.In.DType, in, t.Out.DType, mode)
}

// castTile converts a tile from one type to another, and measures it. mode is
// that of its first element.
func (w *worker) castTile(from tensor.DType, in []byte, to tensor.DType, mode kernels.Mode) ([]byte, tensor.Stats) {
	out := grow(&w.out, int64(len(in)/(from.Bits()/8)*(to.Bits()/8)))
	cast.Values(to, out, from, in, mode)
	return out, w.meter.Tile(from, in, to, out, mode)
}

// A progress adds up the bytes for RunOptions.Progress.
type progress struct {
	report func(Progress)
	now    Progress
}

func newProgress(o RunOptions, phase string, grid *tile.Grid) *progress {
	return &progress{o.Progress, Progress{Phase: phase, Total: grid.Bytes()}}
}

func (p *progress) add(n int64, name string) {
	if p.report == nil {
		return
	}
	p.now.Done += n
	p.now.Tensor = name
	p.report(p.now)
}
