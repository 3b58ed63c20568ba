package gguf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

const (
	maxName = 64 // GGML_MAX_NAME: names have fewer bytes
	maxDims = 4  // GGML_MAX_DIMS
)

// An infoPlace is what the description of a tensor says about its place.
type infoPlace struct {
	at     int64  // of the field, for errors
	offset uint64 // from the start of the data
}

// tensors reads count descriptions and checks them against the file.
func (f *File) tensors(d *decoder, count uint64, lenient bool) error {
	seen := make(map[string]struct{})
	var places []infoPlace
	for i := uint64(0); i < count; i++ {
		in, place, err := f.info(d, i, count, lenient)
		if err != nil {
			return err
		}
		cut, _, hasNUL := strings.Cut(in.Name, "\x00")
		if hasNUL {
			f.warn("tensor %q: name has a NUL, where readers in C end it", in.Name)
		}
		if _, dup := seen[cut]; dup {
			return inTensor(in.Name, d.fail(place.at, tensor.ErrFormat, "name comes twice"))
		}
		seen[cut] = struct{}{}
		f.infos = growTo(f.infos, count, in)
		places = growTo(places, count, place)
	}
	return f.place(d, places)
}

// growTo appends v; capacity doubles but does not pass count.
func growTo[T any](s []T, count uint64, v T) []T {
	if len(s) == cap(s) {
		room := min(count-uint64(len(s)), uint64(max(len(s), 64)))
		s = append(make([]T, 0, len(s)+int(room)), s...)
	}
	return append(s, v)
}

// inTensor adds the name of a tensor to an error of the decoder.
func inTensor(name string, err error) error {
	if fe, ok := err.(*tensor.FileError); ok {
		fe.Tensor = name
	}
	return err
}

// nth says in an error of the decoder which item it is about.
func nth(err error, what string, i, count uint64) error {
	if fe, ok := err.(*tensor.FileError); ok {
		fe.Err = fmt.Errorf("%s %d of %d: %w", what, i+1, count, fe.Err)
	}
	return err
}

// info reads one description.
func (f *File) info(d *decoder, i, count uint64, lenient bool) (in tensor.Info, place infoPlace, err error) {
	at := d.off
	n, err := d.length("name")
	if err != nil {
		return in, place, nth(err, "tensor", i, count)
	}
	if n >= maxName {
		err = d.fail(at, tensor.ErrFormat, "name has %d bytes, want fewer than %d", n, maxName)
		return in, place, nth(err, "tensor", i, count)
	}
	var name [maxName]byte
	if err := d.fill(name[:n]); err != nil {
		return in, place, err
	}
	in.Name = string(name[:n])
	place, err = f.describe(d, &in, lenient)
	return in, place, inTensor(in.Name, err)
}

// describe reads what follows the name.
func (f *File) describe(d *decoder, in *tensor.Info, lenient bool) (place infoPlace, err error) {
	at := d.off
	if in.Shape, err = shape(d); err != nil {
		return place, err
	}
	typeAt := d.off
	id, err := d.u32("type")
	if err != nil {
		return place, err
	}
	if err := f.setType(d, typeAt, in, id, lenient); err != nil {
		return place, err
	}
	if err := setSize(d, at, in); err != nil {
		return place, err
	}
	place.at = d.off
	place.offset, err = d.u64("offset")
	return place, err
}

// shape reads the dimensions, the slowest last, and reverses them.
func shape(d *decoder) ([]int64, error) {
	at := d.off
	n, err := d.u32("number of dimensions")
	if err != nil {
		return nil, err
	}
	if n > maxDims {
		return nil, d.fail(at, tensor.ErrFormat, "%d dimensions, want at most %d", n, maxDims)
	}
	dims := make([]int64, n)
	for i := range dims {
		at = d.off
		dim, err := d.u64("dimension")
		if err != nil {
			return nil, err
		}
		if dim > math.MaxInt64 {
			return nil, d.fail(at, tensor.ErrFormat, "dimension %d is %d, which does not fit 63 bits", i, dim)
		}
		dims[len(dims)-1-i] = int64(dim)
	}
	return dims, nil
}

// setType sets type and geometry.
func (f *File) setType(d *decoder, at int64, in *tensor.Info, id uint32, lenient bool) error {
	foreign, known := TypeByID(id)
	if !known {
		if !lenient {
			return d.fail(at, tensor.ErrUnsupported, "%s", refusal(id))
		}
		foreign = tensor.Foreign{Name: unknownName(id), ID: id}
	}
	in.DType, in.Foreign = tensor.Opaque, foreign
	if known && ggmlTypes[id].dtype != tensor.Opaque {
		in.DType, in.Foreign = ggmlTypes[id].dtype, tensor.Foreign{}
	}
	if in.DType == tensor.Opaque && f.head.BigEndian {
		return d.fail(at, tensor.ErrUnsupported, "type %s in a big-endian file: its blocks mix fields of several widths", foreign.Name)
	}
	return nil
}

// setSize computes the stored bytes, -1 if only the place of the next tensor
// tells them.
func setSize(d *decoder, at int64, in *tensor.Info) error {
	n, size, err := sizeOf(in)
	if err != nil {
		return &tensor.FileError{File: d.name, Offset: at, Err: err}
	}
	in.Size = size
	if n > 0 && uint64(size) > uint64(d.size) {
		return d.fail(at, tensor.ErrTruncated, "shape %v of %s takes %d bytes, the file has %d", in.Shape, in.TypeName(), size, d.size)
	}
	return nil
}

// sizeOf returns elements and stored bytes by shape and type; -1 bytes if the
// type's geometry is unknown. Every product is checked.
func sizeOf(in *tensor.Info) (elems, size int64, err error) {
	if elems, err = tensor.Elements(in.Shape); err != nil {
		return 0, 0, err
	}
	if in.DType != tensor.Opaque {
		size, err = tensor.ByteSize(in.DType, elems)
		return elems, size, err
	}
	block := in.Foreign.BlockElems
	if block == 0 {
		return 0, -1, nil
	}
	row := int64(1)
	if len(in.Shape) > 0 {
		row = in.Shape[len(in.Shape)-1]
	}
	if row%block != 0 {
		return 0, 0, fmt.Errorf("%w: rows of %d elements are not whole blocks of %d (%s)", tensor.ErrFormat, row, block, in.Foreign.Name)
	}
	size, err = tensor.BlockSize(elems, block, in.Foreign.BlockBytes)
	return elems, size, err
}

// place checks that the tensors lie one after another, each padded, and that
// the file has their bytes.
func (f *File) place(d *decoder, places []infoPlace) error {
	f.head.Size = d.off
	start, ok := tensor.AlignUp(d.off, f.head.Alignment)
	if !ok {
		return d.fail(d.off, tensor.ErrFormat, "data starts beyond 2^63 (%s %d)", alignKey, f.head.Alignment)
	}
	f.head.DataStart = start
	f.offsets = make([]int64, len(f.infos))
	next := int64(0) // where the next tensor has to be, from start
	for i := range f.infos {
		if err := f.placeOne(d, places, i, &next); err != nil {
			return inTensor(f.infos[i].Name, err)
		}
	}
	f.judgeEnd(start + next)
	return nil
}

// placeOne checks the place of tensor i and moves next behind it.
func (f *File) placeOne(d *decoder, places []infoPlace, i int, next *int64) error {
	in, p := &f.infos[i], places[i]
	if p.offset != uint64(*next) {
		return d.fail(p.at, tensor.ErrFormat, "data is said to be at offset %d, want %d (sizes before it, padded to %d)", p.offset, *next, f.head.Alignment)
	}
	if in.Size < 0 {
		if err := f.measure(d, places, i); err != nil {
			return err
		}
	}
	f.offsets[i] = f.head.DataStart + *next
	end, ok := tensor.AddSize(f.offsets[i], in.Size)
	if !ok || end > f.size && in.Size > 0 {
		return d.fail(p.at, tensor.ErrTruncated, "data of %d bytes at %d ends beyond the file of %d bytes", in.Size, f.offsets[i], f.size)
	}
	up, ok := tensor.AlignUp(*next+in.Size, f.head.Alignment)
	if _, fits := tensor.AddSize(f.head.DataStart, up); !ok || !fits {
		return d.fail(p.at, tensor.ErrFormat, "data and padding end beyond 2^63")
	}
	*next = up
	return nil
}

// measure sets the size of tensor i, whose type is unknown, by what follows.
func (f *File) measure(d *decoder, places []infoPlace, i int) error {
	in, start := &f.infos[i], places[i].offset
	f.warn("tensor %q: type %d is unknown, its bytes are copied", in.Name, in.Foreign.ID)
	end := uint64(max(f.size-f.head.DataStart, 0))
	if i+1 < len(places) {
		end = places[i+1].offset
	}
	if end < start || end-start > uint64(f.size) {
		return d.fail(places[i].at, tensor.ErrFormat, "type %d is unknown and its end cannot be told: it starts at %d, the next data at %d", in.Foreign.ID, start, end)
	}
	in.Size = int64(end - start)
	return nil
}

// judgeEnd compares the end of the last tensor's padding with the file's.
func (f *File) judgeEnd(end int64) {
	switch {
	case f.size > end:
		f.head.Trailing = f.size - end
		f.warn("%d bytes follow the last tensor and its padding", f.head.Trailing)
	case f.size < end && len(f.infos) > 0 && !f.measuredLast():
		f.head.Padding = end - f.size
		f.warn("%d bytes of padding are missing at the end", f.head.Padding)
	}
	f.infos = slices.Clip(f.infos)
}

// measuredLast reports whether the last tensor was said to go up to the end.
func (f *File) measuredLast() bool {
	last := &f.infos[len(f.infos)-1]
	return last.DType == tensor.Opaque && last.Foreign.BlockElems == 0
}
