package safetensors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/demi-weights/demi/tensor"
)

const metadataKey = "__metadata__"

// A span is where a tensor lies, from the start of the data, as its header
// says: not checked yet.
type span struct{ begin, end uint64 }

// A parser reads the JSON header into f.infos and f.meta, and the offsets into
// spans, in the order of the header.
type parser struct {
	*reader
	f      *File
	spans  []span
	inside bool    // a member of the top-level object
	name   string  // of the tensor at hand
	dims   []int64 // of its shape
}

func newParser(f *File, header []byte) *parser {
	count := bytes.Count(header, []byte(`"data_offsets"`)) // a guess, bounded by what is there
	f.infos = make([]tensor.Info, 0, count)
	return &parser{reader: newReader(header), f: f, spans: make([]span, 0, count)}
}

// parse reads the whole header: the checks 4 and 5 of the reference.
func (p *parser) parse() error {
	if i := invalidUTF8(p.text); i >= 0 {
		return p.f.notHeader(tensor.ErrFormat, "header is not UTF-8 at byte %d of the file", lengthSize+i)
	}
	if len(bytes.Trim(p.text, space)) == 0 {
		return p.f.notHeader(tensor.ErrFormat, "header is empty, want a JSON object of 2 bytes at least")
	}
	err := p.object("header", p.member)
	switch {
	case err != nil && p.offset() == 0: // not even a brace
		return p.f.notHeader(tensor.ErrFormat, "%v", err)
	case err != nil && !p.inside:
		return p.fail(nameError(err))
	case err != nil:
		return p.fail(err)
	}
	return p.checkRest(p.rest())
}

// checkRest judges what follows the JSON object.
func (p *parser) checkRest(rest []byte) error {
	nuls := bytes.Count(rest, []byte{0})
	switch {
	case len(rest) == 0:
		return nil
	case len(bytes.Trim(rest, "\x00"+space)) > 0:
		return p.fail(fmt.Errorf("%d bytes after the JSON object, beginning with %.20q", len(rest), rest))
	case !p.f.lenient:
		return p.fail(fmt.Errorf("header is padded with %d NUL bytes, want spaces", nuls))
	}
	p.f.warn("header is padded with %d NUL bytes; the format wants spaces", nuls)
	return nil
}

// fail makes err one about the tensor at hand, at its place in the header.
func (p *parser) fail(err error) error {
	return &tensor.FileError{File: p.f.name, Tensor: p.name, Offset: lengthSize + p.locate(err), Err: withClass(err)}
}

// member reads a member of the top-level object.
func (p *parser) member(key string) (err error) {
	p.inside = true
	if key != metadataKey {
		p.name = key
		err = p.tensor(key)
	} else if err = p.metadata(); err != nil {
		err = fmt.Errorf("%s: %w", metadataKey, err)
	}
	if err == nil {
		p.inside, p.name = false, ""
	}
	return err
}

// nameError says which name comes twice, if that is the matter.
func nameError(err error) error {
	var t *textError
	if !errors.As(err, &t) || !t.twice {
		return err
	}
	if t.name == metadataKey {
		return &textError{offset: t.offset, err: fmt.Errorf("%s comes twice in header", metadataKey)}
	}
	return &textError{offset: t.offset, err: fmt.Errorf("duplicate tensor name %q in header", t.name)}
}

// metadata reads the map of strings; null is none.
func (p *parser) metadata() error {
	if p.dec.PeekKind() == 'n' {
		return p.skip()
	}
	return p.object("it", func(key string) error {
		value, err := p.str("value of " + shorten(strconv.AppendQuote(nil, key)))
		if err == nil {
			p.f.meta = append(p.f.meta, tensor.Entry{Key: key, Value: string(value)})
		}
		return err
	})
}

// tensor reads one tensor description.
func (p *parser) tensor(name string) error {
	in := tensor.Info{Name: name}
	var at span
	var seen fields
	err := p.object("description", func(key string) error {
		return p.field(key, &in, &at, &seen)
	})
	if err != nil {
		return err
	}
	p.f.infos, p.spans = append(p.f.infos, in), append(p.spans, at)
	return seen.missing()
}

// fields says which of the fields of a tensor description have come.
type fields struct{ dtype, shape, offsets bool }

func (s fields) missing() error {
	switch {
	case !s.dtype:
		return errors.New("field dtype is missing")
	case !s.shape:
		return errors.New("field shape is missing")
	case !s.offsets:
		return errors.New("field data_offsets is missing")
	}
	return nil
}

// field reads one member of a tensor description.
func (p *parser) field(key string, in *tensor.Info, at *span, seen *fields) (err error) {
	switch key {
	case "dtype":
		seen.dtype = true
		return p.dtype(in)
	case "shape":
		seen.shape = true
		in.Shape, err = p.shape()
		return err
	case "data_offsets":
		seen.offsets = true
		return p.dataOffsets(at)
	}
	return p.skip()
}

func (p *parser) dtype(in *tensor.Info) error {
	raw, err := p.str("dtype")
	if err != nil {
		return err
	}
	in.DType = tensor.FromName(string(raw))
	if in.DType != tensor.Invalid {
		return nil
	}
	if !p.f.lenient {
		return classed(tensor.ErrUnsupported, "unknown dtype %q", shorten(raw))
	}
	in.DType, in.Foreign.Name = tensor.Opaque, string(raw)
	return nil
}

func (p *parser) shape() ([]int64, error) {
	if err := p.begin('[', "shape"); err != nil {
		return nil, err
	}
	p.dims = p.dims[:0]
	for {
		done, err := p.end()
		if err != nil {
			return nil, err
		}
		if done {
			return append(make([]int64, 0, len(p.dims)), p.dims...), nil
		}
		dim, err := p.count("shape")
		if err != nil {
			return nil, err
		}
		if dim > math.MaxInt64 {
			return nil, tooLarge(p.dims, dim)
		}
		p.dims = append(p.dims, int64(dim))
	}
}

// tooLarge is the error for a dimension that no Info can hold: it can be legal
// after a 0 only.
func tooLarge(before []int64, dim uint64) error {
	class := tensor.ErrFormat
	if slices.Contains(before, 0) {
		class = tensor.ErrUnsupported
	}
	return classed(class, "dimension %d does not fit 63 bits", dim)
}

func (p *parser) dataOffsets(at *span) (err error) {
	if err := p.begin('[', "data_offsets"); err != nil {
		return err
	}
	for i, to := range []*uint64{&at.begin, &at.end} {
		if p.dec.PeekKind() == ']' {
			return fmt.Errorf("data_offsets has %d numbers, want 2", i)
		}
		if *to, err = p.count("data_offsets"); err != nil {
			return err
		}
	}
	done, err := p.end()
	if err == nil && !done {
		err = errors.New("data_offsets has more than 2 numbers")
	}
	return err
}

// place sorts the tensors by their offsets and makes the checks 6 to 10 of the
// reference: they tile the data, and each has the size of its shape and type.
func (f *File) place(spans []span) error {
	spans = f.sort(spans)
	f.starts = make([]int64, len(spans))
	next := uint64(0)
	for i, s := range spans {
		in := &f.infos[i]
		if s.begin != next || s.end < s.begin {
			return f.gap(i, s, next)
		}
		if s.end > uint64(math.MaxInt64-f.head.DataStart) {
			return f.fail(in.Name, -1, tensor.ErrFormat, "data_offsets [%d, %d] end beyond 2^63", s.begin, s.end)
		}
		if err := f.measure(in, s); err != nil {
			return err
		}
		f.starts[i] = f.head.DataStart + int64(s.begin)
		next = s.end
	}
	return f.checkEnd(f.head.DataStart + int64(next))
}

// sort brings f.infos and spans in the order of the data.
func (f *File) sort(spans []span) []span {
	less := func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	}
	if slices.IsSortedFunc(spans, less) {
		return spans
	}
	order := identity(len(spans))
	slices.SortStableFunc(order, func(a, b int) int { return less(spans[a], spans[b]) })
	infos, sorted := make([]tensor.Info, len(spans)), make([]span, len(spans))
	for to, from := range order {
		infos[to], sorted[to] = f.infos[from], spans[from]
	}
	f.infos = infos
	return sorted
}

func identity(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// gap tells a hole, an overlap and offsets that run backwards apart.
func (f *File) gap(i int, s span, next uint64) error {
	name, after := f.infos[i].Name, "the start of the data"
	if i > 0 {
		after = fmt.Sprintf("tensor %q, which ends at %d", f.infos[i-1].Name, next)
	}
	switch {
	case s.end < s.begin:
		return f.fail(name, -1, tensor.ErrFormat, "data_offsets [%d, %d] end before they begin", s.begin, s.end)
	case s.begin > next:
		return f.fail(name, -1, tensor.ErrFormat, "data_offsets [%d, %d] leave a hole of %d bytes after %s", s.begin, s.end, s.begin-next, after)
	}
	return f.fail(name, -1, tensor.ErrFormat, "data_offsets [%d, %d] overlap %s", s.begin, s.end, after)
}

// measure compares the size by shape and type with that by offsets, and sets
// it. Types that are not known have the latter only.
func (f *File) measure(in *tensor.Info, s span) error {
	elems, err := tensor.Elements(in.Shape)
	size := int64(s.end - s.begin)
	if in.DType == tensor.Opaque {
		f.warn("tensor %q: unknown dtype %q, taken as %d bytes", in.Name, in.Foreign.Name, size)
	} else if err == nil {
		size, err = tensor.ByteSize(in.DType, elems)
	}
	if err == nil && uint64(size) != s.end-s.begin {
		err = classed(tensor.ErrFormat, "data_offsets [%d, %d] hold %d bytes, %v of shape %v takes %d", s.begin, s.end, s.end-s.begin, in.DType, in.Shape, size)
	}
	if err != nil {
		return &tensor.FileError{File: f.name, Tensor: in.Name, Offset: -1, Err: err}
	}
	in.Size = size
	return nil
}

// checkEnd compares the end of the last tensor with that of the file.
func (f *File) checkEnd(end int64) error {
	switch {
	case f.size < end:
		return f.fail("", -1, tensor.ErrTruncated, "file has %d bytes, header needs %d: truncated by %d; %s", f.size, end, end-f.size, f.lastComplete())
	case f.size == end:
		return nil
	case !f.lenient:
		return f.fail("", end, tensor.ErrFormat, "%d bytes after the last tensor: file has %d bytes, header needs %d", f.size-end, f.size, end)
	}
	f.head.Trailing = f.size - end
	f.warn("%d bytes after the last tensor are left out", f.head.Trailing)
	return nil
}

// lastComplete names the last tensor whose data the file has.
func (f *File) lastComplete() string {
	for i := len(f.infos) - 1; i >= 0; i-- {
		if f.infos[i].Size > 0 && f.starts[i]+f.infos[i].Size <= f.size {
			return fmt.Sprintf("last complete tensor %q (%d of %d)", f.infos[i].Name, i+1, len(f.infos))
		}
	}
	return "no tensor is complete"
}
