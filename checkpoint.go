package demi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"

	"github.com/demi-weights/demi/internal/crc"
	"github.com/demi-weights/demi/internal/dequant"
	"github.com/demi-weights/demi/internal/httpfile"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A Checkpoint is a set of named tensors, whatever it is stored in. Its
// methods may be called by several goroutines at once; reads that are under
// way when Close is called, and later ones, fail.
type Checkpoint struct {
	src       tensor.Source
	format    Format
	layout    []Section      // of all files
	sections  []Section      // of those in the operating system
	dir       string         // that Open was given, "" if it was not one
	tree      regular.Tree   // that the files are in
	site      *httpfile.Site // the same, if it is behind a URL
	warnings  []string
	indexMeta []safetensors.IndexEntry // of the index of a safetensors set
	byName    map[string]int
	aliases   map[string]string // names that the metadata give to tensors
	shared    map[string]string // tensors that are another one's memory in the file, with the name of that

	quantized *dequant.Source // src, if quantised tensors are decoded; else nil
	way       Dequantize      // in which they are

	components []component // of a pipeline, in order; nil for anything else
}

func newCheckpoint(src tensor.Source, f Format, warnings []string, sections []Section) *Checkpoint {
	for i := range sections {
		if sections[i].format == "" {
			sections[i].format = f
		}
	}
	c := &Checkpoint{format: f, layout: sections, sections: sections, warnings: warnings}
	c.setSource(src)
	return c
}

func (c *Checkpoint) setSource(src tensor.Source) {
	c.src = src
	c.byName = make(map[string]int, len(src.Tensors()))
	for i, in := range src.Tensors() {
		c.byName[in.Name] = i
	}
	c.aliases = c.findAliases()
}

// FromSource makes a Checkpoint of a Source of the caller's own. The format
// says of which kind its metadata is. Close closes the Source.
func FromSource(src tensor.Source, f Format) *Checkpoint { return newCheckpoint(src, f, nil, nil) }

// Source returns the tensors as the other packages know them.
func (c *Checkpoint) Source() tensor.Source { return c.src }

// Format returns the format of the files.
func (c *Checkpoint) Format() Format { return c.format }

// Sections returns the layout of each file, in order.
func (c *Checkpoint) Sections() []Section { return c.layout }

// Warnings returns what was accepted although it is not quite right, a
// sentence each.
func (c *Checkpoint) Warnings() []string { return c.warnings }

// Meta returns the metadata in file order: strings for safetensors, values of
// several types for GGUF.
func (c *Checkpoint) Meta() tensor.Metadata { return c.src.Meta() }

// CheckSums reads the files of PyTorch and compares every part of them with its
// CRC-32, which reading tensors does not, nor ReadAll; one that differs is
// tensor.ErrFormat. Convert, Scan, Advise and verify.Measure do that themselves,
// for the tensors that they read. Other formats have no such sums, or compare
// them at each read; a lenient Open does without, and so does OpenURL, for which
// it would be a second download.
func (c *Checkpoint) CheckSums(ctx context.Context) error {
	if c.site != nil {
		return nil
	}
	return crc.All(ctx, c.stored())
}

// Shared returns the names of tensors that are the memory of another one in
// the source, as tied weights are in files of PyTorch, each with the name of
// that one. Both are tensors of the Checkpoint.
func (c *Checkpoint) Shared() map[string]string { return maps.Clone(c.shared) }

// Len returns the number of tensors.
func (c *Checkpoint) Len() int { return len(c.src.Tensors()) }

// Tensors yields the tensors in file order.
func (c *Checkpoint) Tensors() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		for i := range c.src.Tensors() {
			if !yield(&Tensor{c, i}) {
				return
			}
		}
	}
}

// Tensor returns the tensor of that name, or that of which it is an alias; ok is
// false if there is none.
func (c *Checkpoint) Tensor(name string) (t *Tensor, ok bool) {
	i, ok := c.byName[name]
	if !ok {
		i, ok = c.byName[c.aliases[name]]
	}
	if !ok {
		return nil, false
	}
	return &Tensor{c, i}, true
}

// fileOf returns a function that gives the number of the file that a tensor is
// in.
func (c *Checkpoint) fileOf() func(name string) int {
	numbers := make(map[string]int, len(c.layout))
	for i := range c.layout {
		numbers[c.layout[i].File] = i
	}
	return func(name string) int {
		file, _ := c.src.Place(c.byName[name])
		return numbers[file]
	}
}

// Close frees what the Checkpoint holds.
func (c *Checkpoint) Close() error {
	err := c.src.Close()
	if c.site != nil {
		err = errors.Join(err, c.site.Close())
	}
	return err
}

// A Tensor is one tensor of a Checkpoint. It holds no memory of its own.
type Tensor struct {
	c *Checkpoint
	i int
}

// Info returns the description of the tensor. Its Shape is not to be changed.
func (t *Tensor) Info() tensor.Info { return t.c.src.Tensors()[t.i] }

// Place returns the file that the tensor is in, and its offset there.
func (t *Tensor) Place() (file string, offset int64) { return t.c.src.Place(t.i) }

// ReadAt reads stored bytes, little-endian and row-major; off counts from the
// start of the tensor. At its end ReadAt returns io.EOF, as io.ReaderAt says.
func (t *Tensor) ReadAt(p []byte, off int64) (n int, err error) {
	return t.c.src.Data(t.i).ReadAt(p, off)
}

var _ io.ReaderAt = (*Tensor)(nil)

// Float32s reads len(dst) elements from number from on as float32: exactly for
// F32, F16 and BF16, rounded to nearest even for F64. Other types are
// tensor.ErrUnsupported. It uses up to 512 KiB of memory of its own.
func (t *Tensor) Float32s(dst []float32, from int64) error {
	in := t.Info()
	if !in.DType.IsFloat() {
		return fmt.Errorf("tensor %q: %w: elements of type %s as float32", in.Name, tensor.ErrUnsupported, in.TypeName())
	}
	if n := in.Elements(); from < 0 || int64(len(dst)) > n-from {
		return fmt.Errorf("tensor %q: elements %d to %d of %d", in.Name, from, from+int64(len(dst)), n)
	}
	width := in.DType.Bits() / 8
	buf := tile.NewBuffer(min(len(dst), tile.Elems) * width)
	for len(dst) > 0 {
		n := min(len(dst), tile.Elems)
		p := buf[:n*width]
		if err := tensor.ReadFull(t.c.src, t.i, p, from*int64(width)); err != nil {
			return err
		}
		tile.Swap(p, in.DType.Bits())
		if in.DType == tensor.F64 {
			kernels.F64ToF32(dst[:n], tile.Float64s(p), kernels.Mode{})
		} else {
			verify.Widen(dst[:n], in.DType, p)
		}
		dst, from = dst[n:], from+int64(n)
	}
	return nil
}
