package format

import (
	"context"
	"fmt"
	"io"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A Tensor is one tensor of a File. It holds no memory of its own. Its methods
// may be called by several goroutines at once.
type Tensor struct {
	f *File
	i int
}

var _ io.ReaderAt = (*Tensor)(nil)

// Info returns the description of the tensor. Its Shape is not to be changed.
func (t *Tensor) Info() tensor.Info { return t.f.x.infos[t.i] }

// Hash returns the value hash of the tensor; ok is false if the file has none.
func (t *Tensor) Hash() (h tensor.Hash, ok bool) {
	e := &t.f.x.entries[t.i]
	return e.hash, e.hashed
}

// Blocks returns the number of blocks.
func (t *Tensor) Blocks() int64 { return tileCount(&t.f.x.infos[t.i]) }

// Block returns block k, which holds tile k.
func (t *Tensor) Block(k int64) Block {
	if k < 0 || k >= t.Blocks() {
		panic(fmt.Sprintf("format: block %d of %d", k, t.Blocks()))
	}
	return t.f.block(t.i, k)
}

// Stored returns the bytes that the tensor takes in the file, from its first
// block to the end of its last one.
func (t *Tensor) Stored() int64 {
	e := &t.f.x.entries[t.i]
	return e.end - e.offset
}

// ReadAt reads bytes of the tensor, decompressed, little-endian and row-major;
// off counts from the start of the tensor. It returns io.EOF at its end, as
// io.ReaderAt says. A range costs the tiles that it touches.
func (t *Tensor) ReadAt(p []byte, off int64) (n int, err error) {
	return (&data{t.f, t.i}).ReadAt(p, off)
}

// TileSize returns the bytes of a whole tile of the tensor.
func (t *Tensor) TileSize() int64 { return tileSize(t.f.x.infos[t.i].DType) }

// ReadTile decodes tile k to dst and returns its bytes, which are fewer than
// TileSize for the last one. dst must have room for them.
func (t *Tensor) ReadTile(dst []byte, k int64) (n int, err error) {
	b := t.Block(k)
	if int64(len(dst)) < b.Size {
		return 0, fmt.Errorf("tensor %q: tile %d has %d bytes, the buffer %d", t.f.x.infos[t.i].Name, k, b.Size, len(dst))
	}
	return t.f.readSome(t.i, dst[:b.Size], k*t.TileSize())
}

// Float32s reads len(dst) elements from number from on as float32: exactly for
// F32, F16 and BF16 (but signalling NaN of 16 bits become quiet), rounded to
// nearest even for F64. Other types are tensor.ErrUnsupported. Whole tiles are
// widened while they are decoded.
func (t *Tensor) Float32s(dst []float32, from int64) error {
	in := &t.f.x.infos[t.i]
	if !in.DType.IsFloat() {
		return fmt.Errorf("tensor %q: %w: elements of type %s as float32", in.Name, tensor.ErrUnsupported, in.TypeName())
	}
	if err := checkRange(in, from, int64(len(dst)), in.Elements(), "elements"); err != nil {
		return err
	}
	for len(dst) > 0 {
		n, err := t.f.widenSome(t.i, dst, from)
		if err != nil {
			return err
		}
		dst, from = dst[n:], from+int64(n)
	}
	return nil
}

// widenSome widens from one tile as many elements as it has and dst takes.
func (f *File) widenSome(i int, dst []float32, from int64) (n int, err error) {
	d := f.x.infos[i].DType
	width := int64(d.Bits() / 8)
	k, skip := from/tile.Elems, from%tile.Elems
	b := f.block(i, k)
	n = int(min(int64(len(dst)), b.Size/width-skip))
	c, err := f.slots.get(i, k)
	if err != nil {
		return 0, err
	}
	defer f.slots.put(c)
	if elem := elemOf(d); elem != codec.Bytes && int64(n) == b.Size/width && !c.holds(i, k) {
		stored, release, err := f.stored(c, i, k, &b)
		if err != nil {
			return 0, err
		}
		defer release()
		return n, f.blockErr(i, k, &b, c.decoder().Float32s(dst[:n], stored, elem, b.ID))
	}
	if err := f.load(c, i, k, &b); err != nil {
		return 0, err
	}
	wide := room(&c.wide, int64(n)*width) // aligned, and free to be swapped
	copy(wide, c.tile[skip*width:])
	tile.Swap(wide, d.Bits())
	widen(dst[:n], d, wide)
	return n, nil
}

// widen widens values in the byte order of the machine.
func widen(dst []float32, d tensor.DType, p []byte) {
	switch d {
	case tensor.F64:
		kernels.F64ToF32(dst, tile.Float64s(p), kernels.Mode{})
	case tensor.F32:
		copy(dst, tile.Float32s(p))
	case tensor.F16:
		kernels.F16ToF32(dst, tile.Uint16s(p))
	case tensor.BF16:
		kernels.BF16ToF32(dst, tile.Uint16s(p))
	}
}

// ReadAll decodes the whole tensor to dst, whose length must be its size, on
// the given number of goroutines: that of the caller for 1 and less. After an
// error, which is that of the first tile that has one, or of ctx, dst holds
// anything.
func (t *Tensor) ReadAll(ctx context.Context, dst []byte, workers int) error {
	in := &t.f.x.infos[t.i]
	if int64(len(dst)) != in.Size {
		return fmt.Errorf("tensor %q has %d bytes, the buffer %d", in.Name, in.Size, len(dst))
	}
	whole := t.TileSize()
	return ordered.Each(ctx, t.Blocks(), workers, func(k int64) error {
		_, err := t.f.readSome(t.i, dst[k*whole:min((k+1)*whole, in.Size)], k*whole)
		return err
	})
}
