package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

const (
	maxKey   = 65535   // bytes of a key, by the specification
	maxAlign = 1 << 20 // that is written; any is read
)

// WriteOptions are those of writing. A nil *WriteOptions and the zero value
// mean the defaults.
type WriteOptions struct {
	// Align is the alignment of every tensor in the file, in bytes: a power of
	// two from 32 to 1 MiB; 0 means 32. Other values than 32 are legal and
	// llama.cpp loads them, but its llama-quantize and llama-gguf-split --merge
	// make broken files out of such a file (they pad to 32 whatever the file
	// says), and one of ollama's readers takes the data to begin at a multiple
	// of 32. With 64, every tensor begins on a cache line.
	Align int64
	// ShardOf, if not nil, divides a set further: tensors for whose names it
	// gives different numbers share no file. Those of one number have to come
	// one after another.
	ShardOf func(name string) int
}

// align returns the alignment, checked.
func (o *WriteOptions) align() (int64, error) {
	if o == nil || o.Align == 0 {
		return defaultAlign, nil
	}
	if a := o.Align; a < defaultAlign || a&(a-1) != 0 || a > maxAlign {
		return 0, fmt.Errorf("%w: alignment %d, want a power of two from %d to %d", tensor.ErrUnsupported, a, defaultAlign, maxAlign)
	}
	return o.Align, nil
}

// A Layout says where everything lies in a file to be written. It is a value:
// nothing has been written yet.
type Layout struct {
	Header   []byte   // up to the first tensor, padded
	Size     int64    // of the whole file
	Align    int64    // of each tensor
	Warnings []string // what some readers may stumble over, a sentence each
	offsets  []int64
}

// Offset returns where tensor i begins, from the start of the file.
func (l *Layout) Offset(i int) int64 { return l.offsets[i] }

// Order returns the order in which the format likes its tensors: as they come,
// for GGUF prefers none.
func Order(infos []tensor.Info, _ *WriteOptions) []int {
	order := make([]int, len(infos))
	for i := range order {
		order[i] = i
	}
	return order
}

// Plan lays out a file of version 3, little-endian. Metadata is written in the
// order given with the types that it has, but for general.alignment, which
// says the real alignment; it is added at the end if it is needed and missing.
//
// Everything that the format cannot hold is refused, all of it in one error
// (of errors.Join): types without a ggml number (BOOL, unsigned, FP8, C64),
// more than 4 dimensions, names of 64 bytes and more or with a NUL, names and
// keys that come twice, empty keys, values of other types. Its parts wrap
// tensor.ErrUnsupported or tensor.ErrFormat; those about tensors are
// *tensor.FileError.
func Plan(infos []tensor.Info, meta tensor.Metadata, o *WriteOptions) (*Layout, error) {
	align, err := o.align()
	if err != nil {
		return nil, err
	}
	meta = withAlignment(meta, align)
	ids, errs := checkTensors(infos)
	if errs = append(errs, checkMetadata(meta)...); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	l := &Layout{Align: align, offsets: make([]int64, len(infos))}
	if align != defaultAlign {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s %d: llama-quantize and llama-gguf-split --merge write broken files from it", alignKey, align))
	}
	data, err := l.stack(infos)
	if err != nil {
		return nil, err
	}
	l.Header = header(infos, ids, meta, l)
	for i := range l.offsets {
		l.offsets[i] += int64(len(l.Header))
	}
	var ok bool
	if l.Size, ok = tensor.AddSize(int64(len(l.Header)), data); !ok {
		return nil, fmt.Errorf("%w: file would have more than 2^63 bytes", tensor.ErrUnsupported)
	}
	return l, nil
}

// withAlignment returns meta with general.alignment set, where it must be.
func withAlignment(meta tensor.Metadata, align int64) tensor.Metadata {
	i := slices.IndexFunc(meta, func(e tensor.Entry) bool { return e.Key == alignKey })
	if i < 0 && align == defaultAlign {
		return meta
	}
	meta = slices.Clone(meta)
	if i < 0 {
		return append(meta, tensor.Entry{Key: alignKey, Value: uint32(align)})
	}
	meta[i].Value = uint32(align)
	return meta
}

// stack sets the offsets from the start of the data and returns its length.
func (l *Layout) stack(infos []tensor.Info) (next int64, err error) {
	for i := range infos {
		l.offsets[i] = next
		end, ok := tensor.AddSize(next, infos[i].Size)
		if ok {
			next, ok = tensor.AlignUp(end, l.Align)
		}
		if !ok {
			return 0, cannotHold(infos[i].Name, "data would end beyond 2^63")
		}
	}
	return next, nil
}

func cannotHold(name, format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{tensor.ErrUnsupported}, args...)...)
	return &tensor.FileError{Tensor: name, Offset: -1, Err: err}
}

// checkTensors returns the ggml numbers of the types, and all that is wrong.
func checkTensors(infos []tensor.Info) (ids []uint32, errs []error) {
	ids = make([]uint32, len(infos))
	seen := make(map[string]struct{}, len(infos))
	for i := range infos {
		in := &infos[i]
		if _, dup := seen[in.Name]; dup {
			errs = append(errs, cannotHold(in.Name, "name comes twice"))
		}
		seen[in.Name] = struct{}{}
		errs = append(errs, checkName(in)...)
		id, err := checkType(in)
		if err != nil {
			errs = append(errs, err)
		}
		ids[i] = id
	}
	return ids, errs
}

func checkName(in *tensor.Info) (errs []error) {
	if len(in.Name) >= maxName {
		errs = append(errs, cannotHold(in.Name, "name has %d bytes, GGUF holds fewer than %d", len(in.Name), maxName))
	}
	if strings.Contains(in.Name, "\x00") {
		errs = append(errs, cannotHold(in.Name, "name has a NUL"))
	}
	if len(in.Shape) > maxDims {
		errs = append(errs, cannotHold(in.Name, "shape %v has %d dimensions, GGUF holds at most %d", in.Shape, len(in.Shape), maxDims))
	}
	return errs
}

// checkType returns the ggml number of a tensor's type, and checks its size.
func checkType(in *tensor.Info) (uint32, error) {
	id, ok := writtenType(in)
	if !ok && in.DType == tensor.Opaque && in.Foreign.BlockElems > 0 {
		return 0, cannotHold(in.Name, "GGUF has no type %s with number %d and %d bytes for %d elements", in.TypeName(), in.Foreign.ID, in.Foreign.BlockBytes, in.Foreign.BlockElems)
	}
	if !ok {
		return 0, cannotHold(in.Name, "GGUF has no type for %s", in.TypeName())
	}
	_, size, err := sizeOf(in)
	if err != nil {
		return 0, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err}
	}
	if size >= 0 && size != in.Size || in.Size < 0 {
		err = fmt.Errorf("%w: size is %d bytes, shape %v of %s takes %d", tensor.ErrFormat, in.Size, in.Shape, in.TypeName(), size)
		return 0, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err}
	}
	return id, nil
}

// writtenType returns the ggml number for the type of in. An Opaque type must
// be the very type that has its number here, or one that a lenient reader has
// made up.
func writtenType(in *tensor.Info) (uint32, bool) {
	if in.DType != tensor.Opaque {
		return typeIDOf(in.DType)
	}
	id := in.Foreign.ID
	if known, ok := TypeByID(id); ok {
		return id, known == in.Foreign && ggmlTypes[id].dtype == tensor.Opaque
	}
	return id, in.Foreign == tensor.Foreign{Name: unknownName(id), ID: id}
}

// checkMetadata lists all that is wrong with keys and values.
func checkMetadata(meta tensor.Metadata) (errs []error) {
	seen := make(map[string]struct{}, len(meta))
	for _, e := range meta {
		if _, dup := seen[e.Key]; dup {
			errs = append(errs, fmt.Errorf("%w: key %s comes twice", tensor.ErrUnsupported, quote(e.Key)))
		}
		seen[e.Key] = struct{}{}
		if e.Key == "" || len(e.Key) > maxKey {
			errs = append(errs, fmt.Errorf("%w: key %s has %d bytes, GGUF holds 1 to %d", tensor.ErrUnsupported, quote(e.Key), len(e.Key), maxKey))
		}
		if err := checkValue(e.Value); err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", quote(e.Key), err))
		}
	}
	return errs
}

func checkValue(v any) error {
	kind, ok := tensor.KindOf(v)
	if !ok {
		return fmt.Errorf("%w: GGUF has no type for a value of Go type %T", tensor.ErrUnsupported, v)
	}
	switch kind {
	case tensor.KindString:
		if n := len(v.(string)); n > maxString {
			return fmt.Errorf("%w: string has %d bytes, GGUF readers accept %d", tensor.ErrUnsupported, n, maxString)
		}
	case tensor.KindArray:
		return checkArray(v.(tensor.Array))
	}
	return nil
}

// checkArray checks that Raw has exactly the elements that Len says.
func checkArray(a tensor.Array) error {
	if a.Len < 0 || a.Len > maxItems {
		return fmt.Errorf("%w: array has %d elements, GGUF readers accept %d", tensor.ErrUnsupported, a.Len, maxItems)
	}
	if a.Elem == tensor.KindString {
		return checkStrings(a)
	}
	if a.Elem > tensor.KindF64 || a.Elem == tensor.KindArray {
		return fmt.Errorf("%w: array of %v", tensor.ErrUnsupported, a.Elem)
	}
	if want := int64(a.Len) * int64(a.Elem.Size()); want != int64(len(a.Raw)) {
		return fmt.Errorf("%w: array of %d %v has %d bytes, want %d", tensor.ErrFormat, a.Len, a.Elem, len(a.Raw), want)
	}
	return nil
}

func checkStrings(a tensor.Array) error {
	rest := a.Raw
	for i := range a.Len {
		if len(rest) < 8 || binary.LittleEndian.Uint64(rest) > min(uint64(len(rest)-8), maxString) {
			return fmt.Errorf("%w: array of %d strings ends within string %d", tensor.ErrFormat, a.Len, i)
		}
		rest = rest[8+binary.LittleEndian.Uint64(rest):]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: array of %d strings has %d bytes more", tensor.ErrFormat, a.Len, len(rest))
	}
	return nil
}

// header encodes everything before the data, padded.
func header(infos []tensor.Info, ids []uint32, meta tensor.Metadata, l *Layout) []byte {
	le := binary.LittleEndian
	p := le.AppendUint32([]byte(magic), 3)
	p = le.AppendUint64(p, uint64(len(infos)))
	p = le.AppendUint64(p, uint64(len(meta)))
	for _, e := range meta {
		kind, _ := tensor.KindOf(e.Value)
		p = le.AppendUint32(appendString(p, e.Key), uint32(kind))
		p = appendValue(p, e.Value)
	}
	for i := range infos {
		shape := infos[i].Shape
		p = le.AppendUint32(appendString(p, infos[i].Name), uint32(len(shape)))
		for _, dim := range slices.Backward(shape) {
			p = le.AppendUint64(p, uint64(dim))
		}
		p = le.AppendUint32(p, ids[i])
		p = le.AppendUint64(p, uint64(l.offsets[i]))
	}
	pad := -int64(len(p)) & (l.Align - 1)
	return append(p, make([]byte, pad)...)
}

func appendString(p []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(p, uint64(len(s))), s...)
}

// appendValue encodes a value whose type has been checked.
func appendValue(p []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendString(p, v)
	case tensor.Array:
		p = binary.LittleEndian.AppendUint32(p, uint32(v.Elem))
		p = binary.LittleEndian.AppendUint64(p, uint64(v.Len))
		return append(p, v.Raw...)
	case float32:
		return binary.LittleEndian.AppendUint32(p, math.Float32bits(v))
	case float64:
		return binary.LittleEndian.AppendUint64(p, math.Float64bits(v))
	}
	p, _ = binary.Append(p, binary.LittleEndian, v) // bools and integers: cannot fail
	return p
}
