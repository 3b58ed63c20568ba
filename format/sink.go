package format

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/tensor"
)

// WriteOptions are those of writing. A nil *WriteOptions and the zero value
// mean the defaults.
type WriteOptions struct {
	// Level says how tiles are compressed.
	Level codec.Level
	// Align is the alignment of the first byte of every tensor: a power of two
	// from MinAlign, which 0 stands for, to MaxAlign.
	Align int64
	// Hash says where the value hashes come from.
	Hash HashMode
	// Container is the name of the container that the tensors and the metadata
	// come from, such as "safetensors" or "gguf", if it is to be remembered: the
	// programs of which know the names and keys.
	Container string
	// Sources, if not nil, gives the headers of the files that the tensors come
	// from, when the first file of a set, or the only one, is finished.
	Sources func() ([]SourceHeader, error)
	// ShardOf, if not nil, divides a set further: tensors for whose names it
	// gives different numbers share no file. Those of one number have to come
	// one after another.
	ShardOf func(name string) int
}

// A HashMode says where the value hashes of tensors come from.
type HashMode uint8

// The modes.
const (
	HashValues  HashMode = iota // the sink computes them
	HashRecords                 // Finish takes them from the records
	HashNone                    // there are none
)

func (o *WriteOptions) orZero() (w WriteOptions) {
	if o != nil {
		w = *o
	}
	if w.Align == 0 {
		w.Align = MinAlign
	}
	return w
}

// A TileSink is a Sink whose tiles can be encoded by several goroutines, and
// are then appended in order by one. A *Sink is one.
type TileSink interface {
	tensor.Sink
	NewTileEncoder() *TileEncoder
	Append(i int, off int64, e *Encoded) error
}

// A Sink is a tensor.Sink that writes a file, a stream, or a set of files. It
// wants order. Its methods wait for each other, but those of its encoders do
// not.
//
// Write takes any number of bytes, encodes whole tiles and keeps the rest until
// it is one. Faster, by as many processors as there are, is to encode tiles
// with a TileEncoder a goroutine, and Append them. The bytes of the output are
// the same.
type Sink struct {
	opts   WriteOptions
	name   string            // of the output in errors
	layout func(*Sink) error // makes the parts
	last   func(*Sink) error // what Finish does when all parts have their names
	infos  []tensor.Info

	mu    sync.Mutex
	parts []*part
	link  tensor.Hash  // of the part after those that have theirs
	links int          // parts that have their link
	keep  map[int]bool // files that are there already
	omit  map[int]bool // files that somebody else writes
	state error        // why nothing can be written any more
	begun bool
	next  int // tensor whose byte off comes next
	off   int64
	part  int // that tensor next belongs to
	block int64
	root  valuehash.Root
	rest  []byte // of a tile that is not whole yet
	tiles *TileEncoder
	tile  Encoded
}

var (
	_ TileSink       = (*Sink)(nil)
	_ tensor.SetSink = (*Sink)(nil)

	errNotBegun = errors.New("demi: not begun, or ended")
	errBegun    = errors.New("demi: Begin was called before")
	errOmitted  = errors.New("demi: files of the set were omitted")
	errNoHashes = errors.New("demi: the value hashes were to come with the records, of which there are none")
)

// Create returns a Sink that writes the named file. The file appears at its
// name, complete and durable, when Finish returns nil; until then its bytes are
// in a staging file beside it. Begin refuses what cannot be written, before a
// file is made.
func Create(name string, o *WriteOptions) *Sink {
	return &Sink{opts: o.orZero(), name: name, layout: func(s *Sink) error {
		s.parts = []*part{{name: name, to: len(s.infos)}}
		return nil
	}}
}

// NewWriter returns a Sink that writes to w front to back, without seeking: the
// same bytes as Create. Begin writes the first of them. Abort cannot take back
// what w has got.
func NewWriter(w io.Writer, o *WriteOptions) *Sink {
	return &Sink{opts: o.orZero(), layout: func(s *Sink) error {
		s.parts = []*part{{out: output{w: w}, to: len(s.infos)}}
		return nil
	}}
}

// Level returns how hard the tiles are compressed.
func (s *Sink) Level() codec.Level { return s.opts.Level }

// Ordered returns true.
func (s *Sink) Ordered() bool { return true }

// Begin takes the tensors in the order in which they will come, and keeps
// infos. Everything that cannot be written is refused, all of it in one error
// (of errors.Join) whose parts are *tensor.FileError, and Begin may be called
// again.
func (s *Sink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.state != nil {
		return errBegun
	}
	if err := s.plan(infos, meta); err != nil {
		return err
	}
	s.begun, s.link = true, firstLink
	s.tiles = s.NewTileEncoder()
	for _, p := range s.parts {
		if err := p.begin(&s.opts, infos, meta); err != nil {
			return s.fail(err)
		}
		meta = nil // the first file of a set has it
	}
	s.enter()
	return nil
}

// plan refuses what cannot be written and makes the parts.
func (s *Sink) plan(infos []tensor.Info, meta tensor.Metadata) error {
	s.infos = infos
	err := s.opts.check(infos, meta)
	if err == nil {
		err = s.layout(s)
	}
	for _, p := range s.parts {
		if err == nil {
			err = checkIndex(p.least(infos))
		}
	}
	if err != nil && s.name != "" {
		err = fmt.Errorf("%s cannot be written: %w", s.name, err)
	}
	for i, p := range s.parts {
		p.kept, p.omitted = s.keep[i], s.omit[i]
	}
	return err
}

// fail gives the output up.
func (s *Sink) fail(err error) error {
	s.abort()
	s.state = err
	return err
}

func (s *Sink) ready() error {
	if s.state != nil {
		return s.state
	}
	if !s.begun {
		return errNotBegun
	}
	return nil
}

// enter goes on to the next tensor that lacks bytes and begins it.
func (s *Sink) enter() {
	for ; s.next < len(s.infos); s.next++ {
		for s.next >= s.parts[s.part].to {
			s.part++
		}
		if s.parts[s.part].kept || s.parts[s.part].omitted {
			s.next = s.parts[s.part].to - 1
			continue
		}
		in := &s.infos[s.next]
		s.off, s.block = 0, 0
		if s.opts.Hash == HashValues {
			s.root = valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
		}
		s.parts[s.part].enter()
		if in.Size > 0 {
			return
		}
		s.leave()
	}
}

// leave ends tensor next.
func (s *Sink) leave() {
	e := s.parts[s.part].entry(s.next)
	if s.opts.Hash == HashValues {
		e.hash, e.hashed = s.root.Sum(), true
	}
}

// expect checks that n bytes at off of tensor i come next.
func (s *Sink) expect(i int, off, n int64) error {
	if err := s.ready(); err != nil {
		return err
	}
	if i < 0 || i >= len(s.infos) {
		return fmt.Errorf("demi: write to tensor %d of %d", i, len(s.infos))
	}
	size := s.infos[i].Size
	switch {
	case off < 0 || off > size || n > size-off:
		return s.at(i, fmt.Errorf("write of %d bytes at %d of a tensor of %d bytes", n, off, size))
	case n > 0 && (i != s.next || off != s.off):
		return s.at(i, fmt.Errorf("write out of order: bytes at %d; byte %d of tensor %d comes next, this is tensor %d", off, s.off, s.next, i))
	}
	return nil
}

// at names tensor i in an error.
func (s *Sink) at(i int, err error) error {
	return &tensor.FileError{File: s.parts[min(s.part, len(s.parts)-1)].name, Tensor: s.infos[i].Name, Offset: -1, Err: err}
}

// Write takes the bytes of tensor i from off on, which must be those that come
// next.
func (s *Sink) Write(i int, off int64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(i, off, int64(len(p))); err != nil {
		return err
	}
	for len(p) > 0 {
		n := s.tileAt(i, s.off-int64(len(s.rest)))
		if len(s.rest) == 0 && int64(len(p)) >= n {
			if err := s.encode(i, p[:n]); err != nil {
				return err
			}
			p = p[n:]
			continue
		}
		k := min(len(p), int(n)-len(s.rest))
		s.rest = append(s.rest, p[:k]...)
		s.off, p = s.off+int64(k), p[k:]
		if int64(len(s.rest)) < n {
			continue
		}
		rest := s.rest
		s.off, s.rest = s.off-n, s.rest[:0]
		if err := s.encode(i, rest); err != nil {
			return err
		}
	}
	return nil
}

// encode writes a whole tile at off.
func (s *Sink) encode(i int, p []byte) error {
	if err := s.tiles.Encode(&s.tile, i, s.off, p); err != nil {
		return err
	}
	return s.add(&s.tile)
}

// tileAt returns the bytes of the tile that begins at off of tensor i.
func (s *Sink) tileAt(i int, off int64) int64 {
	return min(tileSize(s.infos[i].DType), s.infos[i].Size-off)
}

// Append writes the tile that begins at off of tensor i, which must come next.
// e is the caller's again after the call.
func (s *Sink) Append(i int, off int64, e *Encoded) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(i, off, e.Raw); err != nil {
		return err
	}
	if len(s.rest) > 0 || e.Raw != s.tileAt(i, off) || len(e.Data) == 0 {
		return s.at(i, fmt.Errorf("no tile of %d bytes at %d", e.Raw, off))
	}
	return s.add(e)
}

// add writes the tile that comes next.
func (s *Sink) add(e *Encoded) error {
	p := s.parts[s.part]
	if err := p.block(e); err != nil {
		return s.fail(err)
	}
	if s.opts.Hash == HashValues {
		s.root.Add(e.leaves[:e.n])
	}
	s.off += e.Raw
	if s.off == s.infos[s.next].Size {
		s.leave()
		s.next++
		s.enter()
	}
	return nil
}

// Finish takes the records, which must be those of the tensors, or none.
func (s *Sink) Finish(records []tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	if s.next < len(s.infos) {
		return s.at(s.next, fmt.Errorf("byte %d of %d has not been written", s.off, s.infos[s.next].Size))
	}
	if err := checkRecords(s.infos, records); err != nil {
		return err
	}
	if s.opts.Hash == HashRecords && len(records) < len(s.infos) {
		return errNoHashes
	}
	if len(s.omit) > 0 {
		return errOmitted
	}
	if err := s.setLinks(len(s.parts) - 1); err != nil {
		return s.fail(err)
	}
	for no, p := range s.parts {
		if p.placed {
			continue
		}
		var own []tensor.Record
		if len(records) > 0 {
			own = records[p.from:p.to]
		}
		if err := p.finish(&s.opts, no == 0, own); err != nil {
			return s.fail(err)
		}
	}
	return s.commit()
}

// commit gives the files their names. If that fails for one of them, those that
// have theirs are removed, for they are of use together only.
func (s *Sink) commit() (err error) {
	for _, p := range s.parts {
		if p.placed {
			continue
		}
		if err = p.commit(); err != nil {
			break
		}
	}
	if err == nil && s.last != nil {
		err = s.last(s)
	}
	if err != nil {
		for _, p := range s.parts {
			if p.placed {
				err = errors.Join(err, p.remove())
			}
		}
		return s.fail(err)
	}
	s.state = errNotBegun
	return nil
}

// Files tells before Begin which files there will be, as tensor.SetSink says.
func (s *Sink) Files(infos []tensor.Info, meta tensor.Metadata) (files []tensor.SetFile, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.state != nil {
		return nil, errBegun
	}
	if err := s.plan(infos, meta); err != nil {
		return nil, err
	}
	for _, p := range s.parts {
		files = append(files, tensor.SetFile{Name: filepath.Base(p.name), From: p.from, To: p.to})
	}
	return files, nil
}

// Keep says before Begin that a file is in its place already, as
// tensor.SetSink says.
func (s *Sink) Keep(file int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keep == nil {
		s.keep = map[int]bool{}
	}
	s.keep[file] = true
}

// Omit says before Begin that somebody else writes a file, as tensor.SetSink
// says. The files after it cannot have their links, which depend on all values
// before: they get a pending one, and are no files of a set until a Sink that
// keeps all files, those before them too, is finished.
func (s *Sink) Omit(file int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.omit == nil {
		s.omit = map[int]bool{}
	}
	s.omit[file] = true
}

// FinishFile ends a file whose tensors are complete, as tensor.SetSink says.
func (s *Sink) FinishFile(file int, records []tensor.Record) error {
	p, err := s.closed(file, records)
	if err == nil {
		err = p.finish(&s.opts, file == 0, records)
	}
	if err == nil {
		err = p.commit()
	}
	return err
}

// closed returns a file that gets no more tiles.
func (s *Sink) closed(file int, records []tensor.Record) (*part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return nil, err
	}
	p := s.parts[file]
	switch {
	case p.file == nil || p.placed:
		return nil, errNotBegun
	case s.next < p.to:
		return nil, s.at(s.next, fmt.Errorf("byte %d of %d has not been written", s.off, s.infos[s.next].Size))
	case s.opts.Hash == HashRecords && len(records) < p.to-p.from:
		return nil, errNoHashes
	}
	if err := s.setLinks(file); err != nil {
		return nil, err
	}
	return p, checkRecords(p.x.infos, records)
}

// setLinks gives the parts up to number last their places in the set. The
// tensors of all of them are complete. One that was there must have its place.
func (s *Sink) setLinks(last int) error {
	for ; s.links <= last && len(s.parts) > 1; s.links++ {
		p := s.parts[s.links]
		place := member{uint32(s.links + 1), uint32(len(s.parts)), s.link}
		if p.kept && p.x.member == place.pending() {
			if err := p.relink(place); err != nil {
				return err
			}
		}
		if p.kept && p.x.member != place {
			return &tensor.FileError{File: p.name, Offset: -1, Err: fmt.Errorf("%w: the file that is there is not of this set: remove it", tensor.ErrChanged)}
		}
		p.x.member = place
		if s.link = nextLink(s.link, p.x.blocks); p.omitted || place == place.pending() {
			s.link = tensor.Hash{}
		}
	}
	return nil
}

// Abort gives the output up. After Finish it does nothing.
func (s *Sink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort()
}

func (s *Sink) abort() {
	for _, p := range s.parts {
		p.abort()
	}
	if s.state == nil {
		s.state = errNotBegun
	}
}

// An Encoded is a tile as it is stored.
type Encoded struct {
	ID   codec.ID
	Data []byte // the stored bytes
	CRC  uint32 // as SPEC.md says, over Data and ID
	Raw  int64  // bytes of the tile before it was encoded

	leaves [leavesPerTile]valuehash.Leaf
	n      int // of leaves
}

// leavesPerTile is that of the widest elements.
const leavesPerTile = tile.Elems * 8 / valuehash.LeafSize

// A TileEncoder encodes tiles for a Sink. It is for one goroutine at a time,
// and has about half a megabyte of memory.
type TileEncoder struct {
	s   *Sink
	enc *codec.Encoder
}

// NewTileEncoder returns a TileEncoder for the tensors of Begin. It may be
// called before it.
func (s *Sink) NewTileEncoder() *TileEncoder { return &TileEncoder{s, codec.NewEncoder()} }

// Encode encodes the tile p, which begins at off of tensor i, into the memory
// of e. It does not touch the output and may run while others do; Begin must
// have returned. Everything about the tile is done here: what is left for
// Append is to write it.
func (t *TileEncoder) Encode(e *Encoded, i int, off int64, p []byte) error {
	s := t.s
	if i < 0 || i >= len(s.infos) {
		return fmt.Errorf("demi: tensor %d of %d", i, len(s.infos))
	}
	in := &s.infos[i]
	if off < 0 || off >= in.Size || off%tileSize(in.DType) != 0 || int64(len(p)) != s.tileAt(i, off) {
		return &tensor.FileError{Tensor: in.Name, Offset: -1, Err: fmt.Errorf("no tile of %d bytes at %d", len(p), off)}
	}
	e.Data, e.ID = t.enc.Encode(e.Data[:0], p, elemOf(in.DType), s.opts.Level)
	e.CRC, e.Raw, e.n = blockCRC(e.Data, e.ID), int64(len(p)), 0
	if s.opts.Hash == HashValues {
		e.n = len(valuehash.AppendLeaves(e.leaves[:0], p))
	}
	return nil
}

// digestOf is the digest of a file with this index.
func digestOf(index []byte) tensor.Hash { return blake3.Sum256(index) }
