package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/demi-weights/demi/tensor"
)

const alignKey = "general.alignment"

// metadata reads count keys with their values.
func (f *File) metadata(d *decoder, count uint64) error {
	seen := make(map[string]struct{})
	for i := uint64(0); i < count; i++ {
		at := d.off
		key, err := d.str("key")
		if err != nil {
			return nth(err, "key", i, count)
		}
		if key == "" {
			return d.fail(at, tensor.ErrFormat, "key %d of %d is empty", i+1, count)
		}
		if _, dup := seen[key]; dup {
			return d.fail(at, tensor.ErrFormat, "key %s comes twice", quote(key))
		}
		seen[key] = struct{}{}
		at = d.off
		value, err := f.value(d, key)
		if err != nil {
			return err
		}
		if key == alignKey {
			if err := f.setAlignment(d, at, value); err != nil {
				return err
			}
		}
		f.meta = append(f.meta, tensor.Entry{Key: key, Value: value})
	}
	return nil
}

// setAlignment takes the value of general.alignment.
func (f *File) setAlignment(d *decoder, at int64, value any) error {
	n, ok := value.(uint32)
	if !ok {
		k, _ := tensor.KindOf(value)
		return d.fail(at, tensor.ErrFormat, "%s is of type %v, want u32", alignKey, k)
	}
	if n == 0 || n&(n-1) != 0 {
		return d.fail(at, tensor.ErrFormat, "%s is %d, want a power of two", alignKey, n)
	}
	f.head.Alignment = int64(n)
	return nil
}

// value reads a type and a value of it.
func (f *File) value(d *decoder, key string) (any, error) {
	at := d.off
	id, err := d.u32("type of key " + quote(key))
	if err != nil {
		return nil, err
	}
	switch kind := tensor.Kind(id); {
	case kind > tensor.KindF64:
		return nil, d.fail(at, tensor.ErrFormat, "key %s has type %d, want 0 to %d", quote(key), id, tensor.KindF64)
	case kind == tensor.KindArray:
		return f.array(d, key)
	case kind == tensor.KindString:
		return d.str("value of key " + quote(key))
	default:
		return f.scalar(d, key, kind)
	}
}

func (f *File) scalar(d *decoder, key string, kind tensor.Kind) (any, error) {
	if err := d.need(uint64(kind.Size()), "value of key "+quote(key)); err != nil {
		return nil, err
	}
	at, p := d.off, d.word[:kind.Size()]
	if err := d.fill(p); err != nil {
		return nil, err
	}
	if kind == tensor.KindBool && p[0] > 1 {
		f.warn("byte %d: key %s: bool is %d, read as true", at, quote(key), p[0])
	}
	return numberOf(kind, p, d.order), nil
}

// numberOf decodes one number or bool.
func numberOf(kind tensor.Kind, p []byte, order binary.ByteOrder) any {
	switch kind {
	case tensor.KindU8:
		return p[0]
	case tensor.KindI8:
		return int8(p[0])
	case tensor.KindBool:
		return p[0] != 0
	case tensor.KindU16:
		return order.Uint16(p)
	case tensor.KindI16:
		return int16(order.Uint16(p))
	case tensor.KindU32:
		return order.Uint32(p)
	case tensor.KindI32:
		return int32(order.Uint32(p))
	case tensor.KindF32:
		return math.Float32frombits(order.Uint32(p))
	case tensor.KindU64:
		return order.Uint64(p)
	case tensor.KindI64:
		return int64(order.Uint64(p))
	case tensor.KindF64:
		return math.Float64frombits(order.Uint64(p))
	}
	return nil
}

// array reads element type, count and elements.
func (f *File) array(d *decoder, key string) (any, error) {
	at := d.off
	id, err := d.u32("element type of array " + quote(key))
	if err != nil {
		return nil, err
	}
	elem := tensor.Kind(id)
	if elem == tensor.KindArray {
		return nil, d.fail(at, tensor.ErrUnsupported, "key %s is an array of arrays", quote(key))
	}
	if elem > tensor.KindF64 {
		return nil, d.fail(at, tensor.ErrFormat, "array %s has element type %d, want 0 to %d", quote(key), id, tensor.KindF64)
	}
	at = d.off
	count, err := d.u64("length of array " + quote(key))
	if err != nil {
		return nil, err
	}
	if err := checkCount(d, at, key, elem, count); err != nil {
		return nil, err
	}
	if elem == tensor.KindString {
		return stringArray(d, key, count)
	}
	return numberArray(d, elem, count)
}

// checkCount compares the length of an array with the limit and with what is
// left of the file. A string takes at least the 8 bytes of its length.
func checkCount(d *decoder, at int64, key string, elem tensor.Kind, count uint64) error {
	size := uint64(elem.Size())
	if elem == tensor.KindString {
		size = 8
	}
	if count > d.left()/size {
		return d.fail(at, tensor.ErrTruncated, "array %s is said to have %d elements of %v, %d bytes are left in the file",
			quote(key), count, elem, d.left())
	}
	if count > maxItems {
		return d.fail(at, tensor.ErrLimit, "array %s has %d elements, more than %d", quote(key), count, maxItems)
	}
	return d.need(count*size, "array "+quote(key))
}

func numberArray(d *decoder, elem tensor.Kind, count uint64) (any, error) {
	raw, err := d.appendBytes(nil, count*uint64(elem.Size()))
	if err != nil {
		return nil, err
	}
	if d.order == binary.BigEndian {
		reverseEach(raw, elem.Size())
	}
	return tensor.Array{Elem: elem, Len: int(count), Raw: raw}, nil
}

func stringArray(d *decoder, key string, count uint64) (any, error) {
	var raw []byte
	what := "an element of array " + quote(key)
	for range count {
		n, err := d.length(what)
		if err != nil {
			return nil, err
		}
		raw = binary.LittleEndian.AppendUint64(raw, n)
		if raw, err = d.appendBytes(raw, n); err != nil {
			return nil, err
		}
	}
	return tensor.Array{Elem: tensor.KindString, Len: int(count), Raw: raw}, nil
}

// reverseEach reverses the bytes of each element of p.
func reverseEach(p []byte, width int) {
	if width < 2 {
		return
	}
	for ; len(p) >= width; p = p[width:] {
		slices.Reverse(p[:width])
	}
}

// quote quotes a key or a name for an error, cut short.
func quote(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q and %d bytes more", s[:80], len(s)-80)
	}
	return fmt.Sprintf("%q", s)
}
