package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Metadata is a list of keys and values in the order of their file. Keys are
// unique; readers see to it.
type Metadata []Entry

// An Entry is one key with its value: a string for safetensors; for GGUF also
// bool, int8 to int64, uint8 to uint64, float32, float64 or Array.
type Entry struct {
	Key   string
	Value any
}

// Get returns the value of key.
func (m Metadata) Get(key string) (value any, ok bool) {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value, true
		}
	}
	return nil, false
}

// Text returns the value of key if it is a string.
func (m Metadata) Text(key string) (value string, ok bool) {
	v, _ := m.Get(key)
	value, ok = v.(string)
	return value, ok
}

// A Kind is the type of a metadata value. The numbers are those of GGUF.
type Kind uint32

// The kinds of metadata values.
const (
	KindU8 Kind = iota
	KindI8
	KindU16
	KindI16
	KindU32
	KindI32
	KindF32
	KindBool
	KindString
	KindArray
	KindU64
	KindI64
	KindF64
	kindEnd
)

var kindNames = [kindEnd]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"}

// String returns a short name such as "u32".
func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Size returns the bytes of one value, 0 for strings and arrays.
func (k Kind) Size() int {
	switch k {
	case KindU8, KindI8, KindBool:
		return 1
	case KindU16, KindI16:
		return 2
	case KindU32, KindI32, KindF32:
		return 4
	case KindU64, KindI64, KindF64:
		return 8
	}
	return 0
}

// KindOf returns the kind of a metadata value; ok is false for a Go type that
// no metadata has.
func KindOf(v any) (k Kind, ok bool) {
	switch v.(type) {
	case uint8:
		return KindU8, true
	case int8:
		return KindI8, true
	case uint16:
		return KindU16, true
	case int16:
		return KindI16, true
	case uint32:
		return KindU32, true
	case int32:
		return KindI32, true
	case float32:
		return KindF32, true
	case bool:
		return KindBool, true
	case string:
		return KindString, true
	case Array:
		return KindArray, true
	case uint64:
		return KindU64, true
	case int64:
		return KindI64, true
	case float64:
		return KindF64, true
	}
	return 0, false
}

// An Array is a list of values of one kind, kept in the encoding of GGUF
// version 3, little-endian: fixed-width values one after another, strings each
// as a 64-bit length and its bytes. A vocabulary of 100,000 words so costs its
// bytes and no more. Raw is whole and checked when a reader gives it out.
type Array struct {
	Elem Kind
	Len  int
	Raw  []byte
}

// Strings returns the elements of an array of strings; nil for other kinds.
func (a Array) Strings() []string { return a.FirstStrings(a.Len) }

// FirstStrings returns the first n elements of an array of strings, or all if
// there are fewer; nil for other kinds.
func (a Array) FirstStrings(n int) []string {
	if a.Elem != KindString {
		return nil
	}
	out := make([]string, 0, min(n, a.Len))
	for raw := a.Raw; len(raw) >= 8 && len(out) < n; {
		n := binary.LittleEndian.Uint64(raw)
		if n > uint64(len(raw)-8) {
			break
		}
		out = append(out, string(raw[8:8+n]))
		raw = raw[8+n:]
	}
	return out
}

// At returns element i of an array of numbers or bools as an Entry would have
// it; nil for strings. It panics if i is out of range.
func (a Array) At(i int) any {
	size := a.Elem.Size()
	if size == 0 {
		return nil
	}
	raw := slices.Clip(a.Raw) // so that no element lies behind the last one
	return decodeValue(a.Elem, raw[i*size:(i+1)*size])
}

func decodeValue(k Kind, p []byte) any {
	le := binary.LittleEndian
	switch k {
	case KindU8:
		return p[0]
	case KindI8:
		return int8(p[0])
	case KindBool:
		return p[0] != 0
	case KindU16:
		return le.Uint16(p)
	case KindI16:
		return int16(le.Uint16(p))
	case KindU32:
		return le.Uint32(p)
	case KindI32:
		return int32(le.Uint32(p))
	case KindF32:
		return math.Float32frombits(le.Uint32(p))
	case KindU64:
		return le.Uint64(p)
	case KindI64:
		return int64(le.Uint64(p))
	case KindF64:
		return math.Float64frombits(le.Uint64(p))
	}
	return nil
}
