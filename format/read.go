package format

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

// A Block says how one tile of a tensor is stored.
type Block struct {
	Offset int64    // in the file
	Stored int64    // bytes there
	Size   int64    // bytes of the tile
	ID     codec.ID // how it is coded
	CRC    uint32   // as SPEC.md says
}

// block returns block k of tensor i.
func (f *File) block(i int, k int64) Block {
	in, e := &f.x.infos[i], &f.x.entries[i]
	whole := tileSize(in.DType)
	stored, id, crc := f.x.blocks.at(e.first + k)
	return Block{f.x.blockAt(e, e.first+k), stored, min(whole, in.Size-k*whole), id, crc}
}

// A slot is what decoding a tile takes: a decoder, and memory for the stored
// bytes and the tile.
type slot struct {
	dec    *codec.Decoder // nil until it is needed
	stored []byte
	tile   []byte
	wide   []byte
	have   bool // tile holds a tile: block k of tensor i
	i      int
	k      int64
	n      int64 // bytes of it
}

// decoder is not called for raw tiles, which need none.
func (c *slot) decoder() *codec.Decoder {
	if c.dec == nil {
		c.dec = codec.NewDecoder()
	}
	return c.dec
}

// decode decodes a tile.
func (c *slot) decode(dst, stored []byte, d tensor.DType, id codec.ID) error {
	if id == codec.Raw && len(dst) == len(stored) {
		copy(dst, stored)
		return nil
	}
	return c.decoder().Decode(dst, stored, elemOf(d), id)
}

// slots are those that wait for work.
type slots struct {
	mu     sync.Mutex
	idle   []*slot
	closed bool
}

// get returns a slot that nobody else uses: one that has block k of tensor i,
// if there is one.
func (s *slots) get(i int, k int64) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fs.ErrClosed
	}
	last := len(s.idle) - 1
	if last < 0 {
		return &slot{}, nil
	}
	for at, c := range s.idle {
		if c.have && c.i == i && c.k == k {
			s.idle[at], s.idle[last] = s.idle[last], c
			break
		}
	}
	c := s.idle[last]
	s.idle = s.idle[:last]
	return c, nil
}

// put gives a slot back.
func (s *slots) put(c *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && len(s.idle) < runtime.GOMAXPROCS(0) {
		s.idle = append(s.idle, c)
	}
}

func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.closed = nil, true
}

func room(b *[]byte, n int64) []byte {
	if int64(len(*b)) < n {
		*b = tile.NewBuffer(int(n))
	}
	return (*b)[:n]
}

// A data reads one tensor.
type data struct {
	f *File
	i int
}

// ReadAt reads bytes of the tensor, decompressed.
func (d *data) ReadAt(p []byte, off int64) (n int, err error) {
	in := &d.f.x.infos[d.i]
	if off < 0 {
		return 0, fmt.Errorf("tensor %q: negative offset %d", in.Name, off)
	}
	if off >= in.Size {
		return 0, io.EOF
	}
	want := len(p)
	if int64(want) > in.Size-off {
		p = p[:in.Size-off]
	}
	for n < len(p) {
		k, err := d.f.readSome(d.i, p[n:], off+int64(n))
		if n += k; err != nil {
			return n, err
		}
	}
	if n < want {
		err = io.EOF
	}
	return n, err
}

// readSome reads from one tile as much of p as it has.
func (f *File) readSome(i int, p []byte, off int64) (n int, err error) {
	whole := tileSize(f.x.infos[i].DType)
	k, skip := off/whole, off%whole
	b := f.block(i, k)
	c, err := f.slots.get(i, k)
	if err != nil {
		return 0, err
	}
	defer f.slots.put(c)
	if skip == 0 && int64(len(p)) >= b.Size && !c.holds(i, k) {
		if err := f.readBlock(c, i, k, &b, p[:b.Size]); err != nil {
			return 0, err
		}
		return int(b.Size), nil
	}
	if err := f.load(c, i, k, &b); err != nil {
		return 0, err
	}
	return copy(p, c.tile[skip:b.Size]), nil
}

func (c *slot) holds(i int, k int64) bool { return c.have && c.i == i && c.k == k }

// load makes the slot hold block k of tensor i.
func (f *File) load(c *slot, i int, k int64, b *Block) error {
	if c.holds(i, k) {
		return nil
	}
	c.have = false
	if err := f.readBlock(c, i, k, b, room(&c.tile, b.Size)); err != nil {
		return err
	}
	c.have, c.i, c.k, c.n = true, i, k, b.Size
	return nil
}

// readBlock reads block k of tensor i, checks it and decodes it to dst.
func (f *File) readBlock(c *slot, i int, k int64, b *Block, dst []byte) error {
	if b.ID == codec.Raw && f.mapped == nil {
		if err := f.fetch(dst, i, k, b); err != nil {
			return err
		}
		return f.checkBlock(dst, i, k, b)
	}
	stored, release, err := f.stored(c, i, k, b)
	if err != nil {
		return err
	}
	defer release()
	return f.blockErr(i, k, b, c.decode(dst, stored, f.x.infos[i].DType, b.ID))
}

// stored returns the stored bytes of a block, which are right. They are valid
// until release is called.
func (f *File) stored(c *slot, i int, k int64, b *Block) (p []byte, release func(), err error) {
	release = func() {}
	if b.ID > codec.Zstd {
		return nil, nil, f.blockErr(i, k, b, classed(tensor.ErrUnsupported, "codec %d", uint8(b.ID)))
	}
	if f.mapped == nil {
		p = room(&c.stored, b.Stored)
		err = f.fetch(p, i, k, b)
	} else if p, err = f.mapped.Hold(b.Offset, b.Stored); err == nil {
		release = f.mapped.Release
	}
	if err == nil {
		if err = f.checkBlock(p, i, k, b); err == nil {
			return p, release, nil
		}
		release()
	}
	return nil, nil, err
}

func (f *File) fetch(p []byte, i int, k int64, b *Block) error {
	n, err := f.r.ReadAt(p, b.Offset)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = classed(tensor.ErrTruncated, "%d of %d bytes are there", n, len(p))
	}
	return f.blockErr(i, k, b, err)
}

func (f *File) checkBlock(p []byte, i int, k int64, b *Block) error {
	if got := blockCRC(p, b.ID); got != b.CRC {
		return f.blockErr(i, k, b, badChecksum("CRC-32C of %d bytes is %08x, want %08x", len(p), got, b.CRC))
	}
	return nil
}

// blockErr says where err, which may be nil, was found.
func (f *File) blockErr(i int, k int64, b *Block, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, codec.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", tensor.ErrFormat, err)
	}
	return &tensor.FileError{File: f.name, Tensor: f.x.infos[i].Name, Offset: b.Offset, Err: fmt.Errorf("block %d: %w", k, err)}
}
