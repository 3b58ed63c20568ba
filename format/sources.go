package format

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/demi-weights/demi/tensor"
)

// A SourceHeader is what is needed, beside its tensors, to write a file again
// that tensors came from.
type SourceHeader struct {
	Name    string         // of the file, without a directory
	Size    int64          // of the file, in bytes
	SHA256  [32]byte       // of the file; zeros if it is not known
	Bytes   []byte         // the first bytes of the file: its header
	Tensors []SourceTensor // of the file, by offset
}

// A SourceTensor says where a tensor lies in the file that it came from. Bytes
// that neither the header nor a tensor has are zero.
type SourceTensor struct {
	Name   string
	Offset int64
}

func appendSources(p []byte, list []SourceHeader) []byte {
	p = le.AppendUint32(p, uint32(len(list)))
	for i := range list {
		h := &list[i]
		p = le.AppendUint64(appendStr(p, h.Name), uint64(h.Size))
		sum := sha256.Sum256(h.Bytes)
		p = append(append(p, h.SHA256[:]...), sum[:]...)
		p = le.AppendUint64(p, uint64(len(h.Bytes)))
		p = append(p, h.Bytes...)
		p = le.AppendUint32(p, uint32(len(h.Tensors)))
		for _, t := range h.Tensors {
			p = le.AppendUint64(appendStr(p, t.Name), uint64(t.Offset))
		}
	}
	return p
}

func checkSources(list []SourceHeader) error {
	var errs []error
	for i := range list {
		h := &list[i]
		if uint64(len(h.Tensors)) > math.MaxUint32 || uint64(len(h.Name)) > math.MaxUint32 {
			errs = append(errs, classed(tensor.ErrUnsupported, "source %s has more than 2^32 tensors", quote(h.Name)))
		}
		if err := h.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// check looks at what can be seen without the sizes of the tensors.
func (h *SourceHeader) check() error {
	end := int64(len(h.Bytes))
	for _, t := range h.Tensors {
		if t.Offset < end {
			return classed(tensor.ErrFormat, "source %s: tensor %s at %d overlaps what is before it", quote(h.Name), quote(t.Name), t.Offset)
		}
		end = t.Offset
	}
	if end > h.Size {
		return classed(tensor.ErrFormat, "source %s of %d bytes has some at %d", quote(h.Name), h.Size, end)
	}
	return nil
}

// Check compares h with the tensors of src, of which it must be: all that h names
// are there, and none overlaps what is before it, or ends beyond the file.
func (h *SourceHeader) Check(src tensor.Source) error {
	return h.checkIn(sizesOf(src.Tensors()), true)
}

// sizesOf returns the sizes of tensors by their names.
func sizesOf(infos []tensor.Info) map[string]int64 {
	sizes := make(map[string]int64, len(infos))
	for i := range infos {
		sizes[infos[i].Name] = infos[i].Size
	}
	return sizes
}

// checkIn is Check; all says whether all tensors must be there.
func (h *SourceHeader) checkIn(sizes map[string]int64, all bool) error {
	if err := h.check(); err != nil {
		return err
	}
	end := int64(len(h.Bytes))
	for _, t := range h.Tensors {
		size, ok := sizes[t.Name]
		switch {
		case !ok && all:
			return classed(tensor.ErrFormat, "source %s: tensor %s is not there", quote(h.Name), quote(t.Name))
		case t.Offset < end:
			return classed(tensor.ErrFormat, "source %s: tensor %s at %d overlaps what is before it, up to %d", quote(h.Name), quote(t.Name), t.Offset, end)
		case size > h.Size-t.Offset:
			return classed(tensor.ErrFormat, "source %s: tensor %s of %d bytes at %d ends beyond the file, of %d", quote(h.Name), quote(t.Name), size, t.Offset, h.Size)
		}
		end = t.Offset + size
	}
	return nil
}

// checkSources is the check of the sources in one file. The tensors of a set may
// be in its other files, as those of an old set that does not say so.
func (f *File) checkSources() error {
	list, err := f.Sources()
	if err != nil {
		return err
	}
	return f.checkSourcesIn(list, sizesOf(f.x.infos), false)
}

func (f *File) checkSourcesIn(list []SourceHeader, sizes map[string]int64, all bool) error {
	for i := range list {
		if err := list[i].checkIn(sizes, all); err != nil {
			return f.wrap(f.x.section(secSources).at, err)
		}
	}
	return nil
}

// checkSources is the check of the sources in a set.
func (s *Set) checkSources() error {
	sizes := sizesOf(s.Tensors())
	for _, f := range s.files {
		list, err := f.Sources()
		if err != nil {
			return nil // Verify of the file says so
		}
		if err := f.checkSourcesIn(list, sizes, true); err != nil {
			return err
		}
	}
	return nil
}

// Sources returns the headers of the files that the tensors came from; nil if
// the file has none. It decodes them and checks their sums at each call.
func (f *File) Sources() ([]SourceHeader, error) {
	s := f.x.section(secSources)
	if s == nil {
		return nil, nil
	}
	c, err := f.open(s)
	if err != nil {
		return nil, err
	}
	var list []SourceHeader
	for n := c.count(4+8+64+8+4, "number of sources"); n > 0 && c.err == nil; n-- {
		list = append(list, readSource(c))
	}
	return list, c.end()
}

func readSource(c *cursor) (h SourceHeader) {
	start := c.at()
	h.Name, h.Size = c.str("name of a source"), c.size64("size of a source")
	h.SHA256 = c.hash("SHA-256 of a source")
	want := c.hash("SHA-256 of a header")
	h.Bytes = append([]byte(nil), c.bytes(c.u64("length of a header"), "header of a source")...)
	if got := sha256.Sum256(h.Bytes); got != want && c.err == nil {
		c.fail(start, tensor.ErrFormat, "source %s: the header has SHA-256 %x, want %x", quote(h.Name), got, want)
	}
	for n := c.count(4+8, "number of tensors of a source"); n > 0 && c.err == nil; n-- {
		h.Tensors = append(h.Tensors, SourceTensor{c.str("name of a tensor"), c.size64("offset of a tensor")})
	}
	if c.err == nil {
		if err := h.check(); err != nil {
			c.fail(start, tensor.ErrFormat, "%v", err)
		}
	}
	return h
}

// Restore writes the file again that h describes, byte for byte, from the
// tensors of src, which may be the file that h is from, or the set. The caller
// knows that they are as they were in it: that they were not converted. If h
// has the hash of the file, the result is compared with it, at the end.
func (h *SourceHeader) Restore(w io.Writer, src tensor.Source) error {
	if err := h.Check(src); err != nil {
		return err
	}
	byName := make(map[string]int, len(src.Tensors()))
	for i, in := range src.Tensors() {
		byName[in.Name] = i
	}
	sum := sha256.New()
	out := &restorer{w: io.MultiWriter(w, sum), buf: make([]byte, 1<<20)}
	out.bytes(h.Bytes)
	for _, t := range h.Tensors {
		out.zeros(t.Offset)
		out.tensor(src, byName[t.Name])
	}
	if out.zeros(h.Size); out.err != nil {
		return fmt.Errorf("source %s: %w", quote(h.Name), out.err)
	}
	if h.SHA256 != [32]byte{} && string(sum.Sum(nil)) != string(h.SHA256[:]) {
		return fmt.Errorf("source %s: %w", quote(h.Name), badChecksum("SHA-256 is %x, want %x", sum.Sum(nil), h.SHA256))
	}
	return nil
}

// A restorer writes a file front to back. The first error stays.
type restorer struct {
	w   io.Writer
	pos int64
	buf []byte
	err error
}

func (r *restorer) bytes(p []byte) {
	if r.err == nil {
		_, r.err = r.w.Write(p)
	}
	r.pos += int64(len(p))
}

// zeros writes zeros up to an offset.
func (r *restorer) zeros(to int64) {
	clear(r.buf)
	for r.pos < to && r.err == nil {
		r.bytes(r.buf[:min(int64(len(r.buf)), to-r.pos)])
	}
}

// tensor writes the bytes of tensor i, in pieces that are whole tiles.
func (r *restorer) tensor(src tensor.Source, i int) {
	size := src.Tensors()[i].Size
	for off := int64(0); off < size && r.err == nil; {
		p := r.buf[:min(int64(len(r.buf)), size-off)]
		if err := tensor.ReadFull(src, i, p, off); err != nil {
			r.err = err
			return
		}
		r.bytes(p)
		off += int64(len(p))
	}
}
