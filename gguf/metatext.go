package gguf

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/demi-weights/demi/tensor"
)

// How typed metadata and the strings of safetensors become each other: see
// MetadataToStrings and StringsToMetadata.
const (
	typedPrefix   = "gguf."
	typedPrefix64 = "gguf-base64."
	plainPrefix   = "safetensors."
	orderKey      = "gguf"
	base64Mark    = ";base64"
	maxListed     = 64 // numbers of an array that are written as text
)

// MetadataToStrings turns metadata with types, as GGUF has it, into strings
// for a container that has strings only, such as safetensors. Nothing is lost:
// StringsToMetadata gives the same keys, types, bits and order again.
//
// A key "general.name" becomes "gguf.general.name", and its value says its
// type:
//
//	u32:32                    numbers, in the shortest form that comes back
//	bool:true
//	string:text
//	[u32;3]:[1,2,3]           arrays of up to 64 numbers or bools
//	[string;2]:["a","b"]      arrays of strings, as JSON
//	[f32;9000];base64:AAAA... other arrays: their bytes in a GGUF file
//
// ";base64" is also how a string that is not UTF-8 and a NaN are written (the
// bytes of the string, the little-endian bytes of the number); a key that is
// not UTF-8 becomes "gguf-base64." and its bytes in base64url. A string under
// a key "safetensors.x", which StringsToMetadata makes, becomes x again, the
// string itself, unless x is "gguf" or begins as the keys above do.
//
// If the keys so made are not in ascending order, one more key, "gguf", holds
// them in their order as a JSON array, for writers of safetensors sort them.
//
// Errors: a value of a Go type that no metadata has, an array whose bytes do
// not fit its length, a key that comes twice.
func MetadataToStrings(meta tensor.Metadata) (tensor.Metadata, error) {
	if errs := checkMetadata(meta); len(errs) > 0 {
		return nil, errs[0]
	}
	out := make(tensor.Metadata, 0, len(meta)+1)
	keys := make([]string, 0, len(meta))
	typed := false
	for _, e := range meta {
		key, value := textOf(e)
		typed = typed || reserved(key)
		out = append(out, tensor.Entry{Key: key, Value: value})
		keys = append(keys, key)
	}
	if typed && !slices.IsSorted(keys) {
		out = append(out, tensor.Entry{Key: orderKey, Value: jsonStrings(keys)})
	}
	return out, nil
}

// StringsToMetadata is the reverse of MetadataToStrings. Strings that it did
// not make, such as "format" with "pt" in a safetensors file, keep their value
// as a string under the key "safetensors.format". The order in the key "gguf"
// is followed if all keys that it lists are there.
//
// Errors: a value that is not a string, two keys that become the same.
func StringsToMetadata(meta tensor.Metadata) (tensor.Metadata, error) {
	out := make(tensor.Metadata, 0, len(meta))
	seen := make(map[string]struct{}, len(meta))
	place, hasOrder := order(meta)
	from := make(map[string]string, len(meta))
	for _, e := range meta {
		text, ok := e.Value.(string)
		if !ok {
			return nil, fmt.Errorf("%w: value of key %s is of Go type %T, want a string", tensor.ErrFormat, quote(e.Key), e.Value)
		}
		if hasOrder && e.Key == orderKey {
			continue
		}
		made := typedOf(e.Key, text)
		if _, dup := seen[made.Key]; dup {
			return nil, fmt.Errorf("%w: key %s becomes %s, as another key does", tensor.ErrFormat, quote(e.Key), quote(made.Key))
		}
		seen[made.Key] = struct{}{}
		from[made.Key] = e.Key
		out = append(out, made)
	}
	slices.SortStableFunc(out, func(a, b tensor.Entry) int { return rank(place, from[a.Key]) - rank(place, from[b.Key]) })
	return out, nil
}

// order returns the places that the order key gives to keys; ok is false if
// there is none, or if it lists keys that are not there.
func order(meta tensor.Metadata) (place map[string]int, ok bool) {
	text, _ := meta.Text(orderKey)
	list, ok := parseStrings(text)
	if !ok {
		return nil, false
	}
	place = make(map[string]int, len(list))
	for i, key := range list {
		place[key] = i
	}
	found := 0
	for _, e := range meta {
		if _, listed := place[e.Key]; listed && e.Key != orderKey {
			found++
		}
	}
	if found == 0 || found != len(list) {
		return nil, false
	}
	return place, true
}

// reserved reports whether a string's key is one that MetadataToStrings may
// have made.
func reserved(key string) bool {
	return key == orderKey || strings.HasPrefix(key, typedPrefix) || strings.HasPrefix(key, typedPrefix64)
}

// rank returns the place of a key; those without one come last.
func rank(place map[string]int, key string) int {
	if at, ok := place[key]; ok {
		return at
	}
	return math.MaxInt32
}

// textOf encodes one entry, which has been checked.
func textOf(e tensor.Entry) (key, value string) {
	text, isText := e.Value.(string)
	plain, hasPrefix := strings.CutPrefix(e.Key, plainPrefix)
	if isText && hasPrefix && !reserved(plain) && utf8.ValidString(plain) && utf8.ValidString(text) {
		return plain, text
	}
	if utf8.ValidString(e.Key) {
		return typedPrefix + e.Key, valueText(e.Value)
	}
	return typedPrefix64 + base64.RawURLEncoding.EncodeToString([]byte(e.Key)), valueText(e.Value)
}

// typedOf decodes one entry. What textOf would not have written so is a plain
// string.
func typedOf(key, text string) tensor.Entry {
	if e, ok := parseTyped(key, text); ok {
		if k, v := textOf(e); k == key && v == text {
			return e
		}
	}
	return tensor.Entry{Key: plainPrefix + key, Value: text}
}

func parseTyped(key, text string) (e tensor.Entry, ok bool) {
	if packed, found := strings.CutPrefix(key, typedPrefix64); found {
		name, err := base64.RawURLEncoding.DecodeString(packed)
		if err != nil {
			return e, false
		}
		e.Key = string(name)
	} else if e.Key, found = strings.CutPrefix(key, typedPrefix); !found {
		return e, false
	}
	tag, body, found := strings.Cut(text, ":")
	if !found || e.Key == "" {
		return e, false
	}
	tag, packed := strings.CutSuffix(tag, base64Mark)
	if list, isArray := strings.CutPrefix(tag, "["); isArray {
		e.Value, ok = parseArray(strings.TrimSuffix(list, "]"), body, packed)
	} else {
		e.Value, ok = parseScalar(tag, body, packed)
	}
	return e, ok
}

// valueText encodes a value with its type.
func valueText(v any) string {
	if a, ok := v.(tensor.Array); ok {
		tag := fmt.Sprintf("[%v;%d]", a.Elem, a.Len)
		if text, ok := listText(a); ok {
			return tag + ":" + text
		}
		return tag + base64Mark + ":" + base64.StdEncoding.EncodeToString(a.Raw)
	}
	kind, _ := tensor.KindOf(v)
	if text, ok := scalarText(v); ok {
		return kind.String() + ":" + text
	}
	raw := appendValue(nil, v)
	if s, isText := v.(string); isText {
		raw = []byte(s)
	}
	return kind.String() + base64Mark + ":" + base64.StdEncoding.EncodeToString(raw)
}

// scalarText prints a value; ok is false for what text cannot hold.
func scalarText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, utf8.ValidString(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32), v == v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), v == v
	}
	return fmt.Sprint(v), true
}

// listText prints an array as JSON; ok is false for one that is long, or has
// what JSON cannot hold.
func listText(a tensor.Array) (text string, ok bool) {
	if a.Elem == tensor.KindString {
		list := a.Strings()
		for _, s := range list {
			if !utf8.ValidString(s) {
				return "", false
			}
		}
		return jsonStrings(list), true
	}
	if a.Len > maxListed {
		return "", false
	}
	var b strings.Builder
	for i := range a.Len {
		text, ok := scalarText(a.At(i))
		if !ok || strings.HasSuffix(text, "Inf") || a.Elem == tensor.KindBool && a.Raw[i] > 1 {
			return "", false
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text)
	}
	return "[" + b.String() + "]", true
}

func jsonStrings(list []string) string {
	if list == nil {
		list = []string{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(list) // strings, to memory: cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

func parseStrings(text string) (list []string, ok bool) {
	err := json.Unmarshal([]byte(text), &list)
	return list, err == nil && jsonStrings(list) == text
}

func parseScalar(tag, body string, packed bool) (v any, ok bool) {
	kind, ok := kindNamed(tag)
	if !ok || kind == tensor.KindArray {
		return nil, false
	}
	if !packed {
		return scalarOf(kind, body)
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, false
	}
	if kind == tensor.KindString {
		return string(raw), true
	}
	if len(raw) != kind.Size() {
		return nil, false
	}
	return numberOf(kind, raw, binary.LittleEndian), true
}

func kindNamed(name string) (tensor.Kind, bool) {
	for k := tensor.Kind(0); k <= tensor.KindF64; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// scalarOf reads what scalarText has printed.
func scalarOf(kind tensor.Kind, text string) (v any, ok bool) {
	bits := kind.Size() * 8
	switch kind {
	case tensor.KindString:
		return text, true
	case tensor.KindBool:
		return text == "true", text == "true" || text == "false"
	case tensor.KindF32, tensor.KindF64:
		f, err := strconv.ParseFloat(text, bits)
		if kind == tensor.KindF32 {
			return float32(f), err == nil
		}
		return f, err == nil
	case tensor.KindU8, tensor.KindU16, tensor.KindU32, tensor.KindU64:
		n, err := strconv.ParseUint(text, 10, bits)
		return numberOf(kind, binary.LittleEndian.AppendUint64(nil, n), binary.LittleEndian), err == nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	return numberOf(kind, binary.LittleEndian.AppendUint64(nil, uint64(n)), binary.LittleEndian), err == nil
}

// parseArray reads an array; list is its element type and length.
func parseArray(list, body string, packed bool) (v any, ok bool) {
	name, length, found := strings.Cut(list, ";")
	kind, known := kindNamed(name)
	n, err := strconv.Atoi(length)
	if !found || !known || err != nil {
		return nil, false
	}
	a := tensor.Array{Elem: kind, Len: n}
	switch {
	case packed:
		a.Raw, err = base64.StdEncoding.DecodeString(body)
		ok = err == nil
	case kind == tensor.KindString:
		var list []string
		if list, ok = parseStrings(body); ok {
			a.Raw = rawStrings(list)
		}
	default:
		a.Raw, ok = rawNumbers(kind, strings.TrimSuffix(strings.TrimPrefix(body, "["), "]"))
	}
	return a, ok && checkArray(a) == nil
}

func rawStrings(list []string) (raw []byte) {
	for _, s := range list {
		raw = appendString(raw, s)
	}
	return raw
}

func rawNumbers(kind tensor.Kind, body string) (raw []byte, ok bool) {
	if body == "" {
		return nil, true
	}
	for text := range strings.SplitSeq(body, ",") {
		v, ok := scalarOf(kind, text)
		if !ok || kind == tensor.KindArray {
			return nil, false
		}
		raw = appendValue(raw, v)
	}
	return raw, true
}

// Strings returns an Array of strings, for keys such as general.tags.
func Strings(list ...string) tensor.Array {
	return tensor.Array{Elem: tensor.KindString, Len: len(list), Raw: rawStrings(list)}
}
