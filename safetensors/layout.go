package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

const (
	cacheLine      = 64 // bytes
	canonicalAlign = 8  // bytes, of the data of the reference writer
)

// WriteOptions are those of writing. A nil *WriteOptions and the zero value
// mean the defaults.
type WriteOptions struct {
	// Canonical is for byte identity with the reference writer: Order gives
	// its order, and the data begins on a multiple of 8 bytes instead of 64.
	Canonical bool
	// NoFormat leaves the metadata as it is. Otherwise "format": "pt" is added
	// when there is no such key: loaders refuse metadata without it.
	NoFormat bool
	// Lenient writes tensors of element types that are not known, under the
	// names that a lenient reader of this package found. Those of other
	// containers are refused also then.
	Lenient bool
	// IndexMeta is what a set's index has in its metadata beside total_size,
	// which is computed.
	IndexMeta []IndexEntry
	// ShardOf, if not nil, divides a set further: tensors for whose names it
	// gives different numbers share no file. Those of one number have to come
	// one after another.
	ShardOf func(name string) int
}

func (o *WriteOptions) orZero() WriteOptions {
	if o == nil {
		return WriteOptions{}
	}
	return *o
}

// A Layout says where everything lies in a file to be written. It is a value:
// nothing has been written yet.
type Layout struct {
	Header []byte // up to the first tensor: length, JSON text, padding
	Size   int64  // of the whole file, in bytes
	starts []int64
}

// Offset returns where tensor i begins, from the start of the file.
func (l *Layout) Offset(i int) int64 { return l.starts[i] }

// Order returns the order in which the format likes its tensors: a permutation
// of their indexes.
//
// The canonical order is that of the reference: by element type, those with
// the widest alignment first (as the constants of tensor.DType), then by name,
// byte by byte. So every tensor is aligned to its own type.
//
// The default puts those first whose size is a multiple of 64 bytes, and keeps
// the canonical order among these and among the others. The format allows no
// hole between tensors, so a tensor begins on a cache line only if all before
// it end on one: all of the first group do, and the first of the second.
func Order(infos []tensor.Info, o *WriteOptions) []int {
	canonical := o.orZero().Canonical
	order := identity(len(infos))
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &infos[i], &infos[j]
		if !canonical && (a.Size%cacheLine == 0) != (b.Size%cacheLine == 0) {
			return cmp.Compare(min(a.Size%cacheLine, 1), min(b.Size%cacheLine, 1))
		}
		return cmp.Or(cmp.Compare(a.DType, b.DType), cmp.Compare(a.Name, b.Name))
	})
	return order
}

// Plan lays out a file with the tensors in the order given and the metadata
// sorted by key.
//
// Everything that the format cannot hold is refused, all of it in one error
// (of errors.Join): opaque types (but see WriteOptions.Lenient), names that
// come twice, that are not UTF-8, or that the format reserves, sizes that are
// not those of shape and type, metadata that are not strings, a header of more
// than MaxHeader bytes. Its parts are *tensor.FileError, without a file, and
// wrap tensor.ErrUnsupported or tensor.ErrFormat.
func Plan(infos []tensor.Info, meta tensor.Metadata, o *WriteOptions) (*Layout, error) {
	return planWithin(MaxHeader, infos, meta, o)
}

// planWithin is Plan for a header of at most limit bytes.
func planWithin(limit int, infos []tensor.Info, meta tensor.Metadata, o *WriteOptions) (*Layout, error) {
	opts := o.orZero()
	errs := checkTensors(infos, opts.Lenient)
	if errs = append(errs, checkMetadata(meta)...); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	l := &Layout{starts: make([]int64, len(infos))}
	data, err := l.stack(infos)
	if err != nil {
		return nil, err
	}
	if l.Header, err = l.header(infos, sorted(meta, !opts.NoFormat), opts.align(), limit); err != nil {
		return nil, err
	}
	for i := range l.starts {
		l.starts[i] += int64(len(l.Header))
	}
	var ok bool
	if l.Size, ok = tensor.AddSize(int64(len(l.Header)), data); !ok {
		return nil, cannotHold("", "file would have more than 2^63 bytes")
	}
	return l, nil
}

func (o *WriteOptions) align() int {
	if o.Canonical {
		return canonicalAlign
	}
	return cacheLine
}

// cannotHold is the error for what the format has no place for.
func cannotHold(name, format string, args ...any) error {
	return &tensor.FileError{Tensor: name, Offset: -1, Err: classed(tensor.ErrUnsupported, format, args...)}
}

func checkTensors(infos []tensor.Info, lenient bool) (errs []error) {
	seen := make(map[string]struct{}, len(infos))
	for i := range infos {
		name := infos[i].Name
		switch _, dup := seen[name]; {
		case dup:
			errs = append(errs, cannotHold(name, "duplicate tensor name %q", name))
		case name == metadataKey:
			errs = append(errs, cannotHold(name, "the name is reserved by the format"))
		case !utf8.ValidString(name):
			errs = append(errs, cannotHold(name, "the name is not UTF-8"))
		}
		seen[name] = struct{}{}
		if err := checkSize(&infos[i], lenient); err != nil {
			errs = append(errs, &tensor.FileError{Tensor: name, Offset: -1, Err: err})
		}
	}
	return errs
}

// checkSize compares the size with that by shape and type.
func checkSize(in *tensor.Info, lenient bool) error {
	elems, err := tensor.Elements(in.Shape)
	if err != nil {
		return err
	}
	if in.DType == tensor.Opaque {
		return checkForeign(in, lenient)
	}
	size, err := tensor.ByteSize(in.DType, elems)
	if err == nil && size != in.Size {
		err = classed(tensor.ErrFormat, "size is %d bytes, %v of shape %v takes %d", in.Size, in.DType, in.Shape, size)
	}
	return err
}

// checkForeign lets the types pass that a lenient reader has found: those of
// other containers have a number or a geometry.
func checkForeign(in *tensor.Info, lenient bool) error {
	t := in.Foreign
	switch {
	case t.ID != 0 || t.BlockElems != 0 || t.BlockBytes != 0 || t.Name == "" || tensor.FromName(t.Name) != tensor.Invalid:
		return classed(tensor.ErrUnsupported, "safetensors cannot hold elements of type %s", in.TypeName())
	case !utf8.ValidString(t.Name):
		return classed(tensor.ErrUnsupported, "element type %q is not UTF-8", t.Name)
	case !lenient:
		return classed(tensor.ErrUnsupported, "element type %q is not known", t.Name)
	case in.Size < 0:
		return classed(tensor.ErrFormat, "size is %d bytes", in.Size)
	}
	return nil
}

func checkMetadata(meta tensor.Metadata) (errs []error) {
	seen := make(map[string]struct{}, len(meta))
	for _, e := range meta {
		value, text := e.Value.(string)
		switch _, dup := seen[e.Key]; {
		case dup:
			errs = append(errs, cannotHold("", "metadata key %q comes twice", e.Key))
		case !text:
			errs = append(errs, cannotHold("", "metadata %q is %s, safetensors holds strings only", e.Key, kindOf(e.Value)))
		case !utf8.ValidString(e.Key), !utf8.ValidString(value):
			errs = append(errs, cannotHold("", "metadata %q is not UTF-8", e.Key))
		}
		seen[e.Key] = struct{}{}
	}
	return errs
}

func kindOf(v any) string {
	if k, ok := tensor.KindOf(v); ok {
		return "of type " + k.String()
	}
	return "of an unknown type"
}

// sorted returns meta by key, with format: pt if that is wanted and missing.
func sorted(meta tensor.Metadata, format bool) tensor.Metadata {
	meta = slices.Clone(meta)
	if _, has := meta.Get("format"); format && !has {
		meta = append(meta, tensor.Entry{Key: "format", Value: "pt"})
	}
	slices.SortFunc(meta, func(a, b tensor.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return meta
}

// stack sets the offsets from the start of the data and returns its length.
func (l *Layout) stack(infos []tensor.Info) (next int64, err error) {
	for i := range infos {
		l.starts[i] = next
		var ok bool
		if next, ok = tensor.AddSize(next, infos[i].Size); !ok {
			return 0, cannotHold(infos[i].Name, "data would end beyond 2^63")
		}
	}
	return next, nil
}

// header returns the length and the JSON text, padded with spaces so that the
// data begins on a multiple of align. The text may have limit bytes.
func (l *Layout) header(infos []tensor.Info, meta tensor.Metadata, align, limit int) ([]byte, error) {
	p := make([]byte, lengthSize, lengthSize+sizeHint(infos))
	p = append(p, '{')
	if len(meta) > 0 {
		p = appendMeta(p, meta)
	}
	for i := range infos {
		if len(p) > lengthSize+limit {
			return nil, cannotHold("", "header has more than %d bytes after %d of %d tensors: write several files", limit, i, len(infos))
		}
		p = l.appendTensor(p, &infos[i], i)
	}
	p = append(p, '}')
	for len(p)%align != 0 {
		p = append(p, ' ')
	}
	if n := len(p) - lengthSize; n > limit {
		return nil, cannotHold("", "header has %d bytes, at most %d can be read: write several files", n, limit)
	}
	binary.LittleEndian.PutUint64(p, uint64(len(p)-lengthSize))
	return p, nil
}

// sizeHint guesses the bytes of the JSON text, for one allocation in place of
// many.
func sizeHint(infos []tensor.Info) int {
	n := 128
	for i := range infos {
		n += len(infos[i].Name) + 8*len(infos[i].Shape) + 80
	}
	return min(n, MaxHeader)
}

func appendMeta(p []byte, meta tensor.Metadata) []byte {
	p = append(p, `"__metadata__":{`...)
	for i, e := range meta {
		if i > 0 {
			p = append(p, ',')
		}
		p = append(appendString(p, e.Key), ':')
		p = appendString(p, e.Value.(string))
	}
	return append(p, '}')
}

func (l *Layout) appendTensor(p []byte, in *tensor.Info, i int) []byte {
	if p[len(p)-1] != '{' {
		p = append(p, ',')
	}
	p = append(appendString(p, in.Name), `:{"dtype":`...)
	p = append(appendString(p, in.TypeName()), `,"shape":[`...)
	for k, dim := range in.Shape {
		if k > 0 {
			p = append(p, ',')
		}
		p = strconv.AppendInt(p, dim, 10)
	}
	p = append(p, `],"data_offsets":[`...)
	p = append(strconv.AppendInt(p, l.starts[i], 10), ',')
	p = strconv.AppendInt(p, l.starts[i]+in.Size, 10)
	return append(p, `]}`...)
}

// appendString escapes what JSON demands and nothing else: quote, backslash
// and control characters, the way of the reference. s is UTF-8.
func appendString(p []byte, s string) []byte {
	p, _ = jsontext.AppendQuote(p, s) // its error is about UTF-8
	return p
}
