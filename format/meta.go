package format

import (
	"math"

	"github.com/demi-weights/demi/tensor"
)

// appendMeta appends the section of metadata. Its values have been checked.
func appendMeta(p []byte, meta tensor.Metadata) []byte {
	p = le.AppendUint32(p, uint32(len(meta)))
	for _, e := range meta {
		kind, _ := tensor.KindOf(e.Value)
		p = le.AppendUint32(appendStr(p, e.Key), uint32(kind))
		p = appendValue(p, e.Value)
	}
	return p
}

func appendValue(p []byte, v any) []byte {
	switch v := v.(type) {
	case uint8:
		return append(p, v)
	case int8:
		return append(p, byte(v))
	case bool:
		if v {
			return append(p, 1)
		}
		return append(p, 0)
	case uint16:
		return le.AppendUint16(p, v)
	case int16:
		return le.AppendUint16(p, uint16(v))
	case uint32:
		return le.AppendUint32(p, v)
	case int32:
		return le.AppendUint32(p, uint32(v))
	case float32:
		return le.AppendUint32(p, math.Float32bits(v))
	case uint64:
		return le.AppendUint64(p, v)
	case int64:
		return le.AppendUint64(p, uint64(v))
	case float64:
		return le.AppendUint64(p, math.Float64bits(v))
	case string:
		return appendStr(p, v)
	case tensor.Array:
		p = le.AppendUint32(p, uint32(v.Elem))
		p = le.AppendUint64(p, uint64(v.Len))
		p = le.AppendUint64(p, uint64(len(v.Raw)))
		return append(p, v.Raw...)
	}
	return p
}

// checkMeta says what of the metadata cannot be written.
func checkMeta(meta tensor.Metadata) (errs []error) {
	seen := make(map[string]struct{}, len(meta))
	for _, e := range meta {
		if _, dup := seen[e.Key]; dup {
			errs = append(errs, classed(tensor.ErrUnsupported, "metadata key %s comes twice", quote(e.Key)))
		}
		seen[e.Key] = struct{}{}
		if _, ok := tensor.KindOf(e.Value); !ok {
			errs = append(errs, classed(tensor.ErrUnsupported, "metadata %s has a value of type %T", quote(e.Key), e.Value))
			continue
		}
		if text, ok := e.Value.(string); ok && uint64(len(text)) > math.MaxUint32 || uint64(len(e.Key)) > math.MaxUint32 {
			errs = append(errs, classed(tensor.ErrUnsupported, "metadata %s is longer than 4 GiB", quote(e.Key)))
		}
		if a, ok := e.Value.(tensor.Array); ok {
			if bad := checkArray(a); bad != "" {
				errs = append(errs, classed(tensor.ErrUnsupported, "metadata %s: %s", quote(e.Key), bad))
			}
		}
	}
	return errs
}

// checkArray says what is wrong with an array, or "".
func checkArray(a tensor.Array) string {
	size := uint64(a.Elem.Size())
	switch {
	case a.Elem == tensor.KindArray || a.Elem > tensor.KindF64:
		return "array of kind " + a.Elem.String()
	case a.Len < 0:
		return "array of a negative length"
	case size > 0 && uint64(len(a.Raw))/size != uint64(a.Len), size > 0 && uint64(len(a.Raw))%size != 0:
		return "the bytes of the array are not those of its elements"
	case a.Elem == tensor.KindString && !wholeStrings(a.Raw, a.Len):
		return "the strings of the array do not fill its bytes"
	}
	return ""
}

func wholeStrings(raw []byte, n int) bool {
	for ; n > 0; n-- {
		if len(raw) < 8 || le.Uint64(raw) > uint64(len(raw)-8) {
			return false
		}
		raw = raw[8+le.Uint64(raw):]
	}
	return len(raw) == 0
}

func (f *File) parseMeta() error {
	s := f.x.section(secMetadata)
	if s == nil {
		return nil
	}
	c, err := f.open(s)
	if err != nil {
		return err
	}
	n := c.count(4+4+1, "number of keys")
	seen := make(map[string]struct{}, likely(n))
	f.x.meta = make(tensor.Metadata, 0, likely(n))
	for range n {
		at := c.at()
		key := c.str("key")
		if _, dup := seen[key]; dup {
			c.fail(at, tensor.ErrFormat, "key %s comes twice", quote(key))
		}
		seen[key] = struct{}{}
		value := readValue(c, key)
		if c.err != nil {
			return c.err
		}
		f.x.meta = append(f.x.meta, tensor.Entry{Key: key, Value: value})
	}
	return c.end()
}

func readValue(c *cursor, key string) any {
	at := c.at()
	switch kind := tensor.Kind(c.u32("kind of a value")); kind {
	case tensor.KindString:
		return c.str("value of a key")
	case tensor.KindArray:
		return readArray(c, key)
	default:
		if c.err == nil && kind.Size() == 0 {
			c.fail(at, tensor.ErrFormat, "key %s has a value of kind %d", quote(key), uint32(kind))
		}
		return readNumber(c, key, kind)
	}
}

func readNumber(c *cursor, key string, kind tensor.Kind) any {
	at := c.at()
	raw := c.bytes(uint64(kind.Size()), "value of a key")
	if kind == tensor.KindBool && c.err == nil && raw[0] > 1 {
		c.fail(at, tensor.ErrFormat, "key %s: bool is %d, want 0 or 1", quote(key), raw[0])
	}
	if c.err != nil {
		return nil
	}
	return tensor.Array{Elem: kind, Len: 1, Raw: raw}.At(0)
}

func readArray(c *cursor, key string) any {
	at := c.at()
	a := tensor.Array{Elem: tensor.Kind(c.u32("kind of an array"))}
	n := c.size64("length of an array")
	raw := c.bytes(c.u64("bytes of an array"), "array")
	if n > int64(len(raw)) { // every element has a byte at least
		c.fail(at, tensor.ErrFormat, "key %s: array of %d elements in %d bytes", quote(key), n, len(raw))
	}
	a.Len, a.Raw = int(n), append([]byte(nil), raw...)
	if bad := checkArray(a); bad != "" {
		c.fail(at, tensor.ErrFormat, "key %s: %s", quote(key), bad)
	}
	return a
}
