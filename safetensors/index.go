package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

// An Index says in which file of a set each tensor is: the content of
// stem.safetensors.index.json.
type Index struct {
	// Meta is the metadata in the order of the file, total_size included.
	Meta []IndexEntry
	// Files has the file of each tensor: a plain name, in the directory of the
	// index.
	Files map[string]string
}

// An IndexEntry is one member of an index's metadata.
type IndexEntry struct {
	Key  string
	JSON string // the value, as JSON text: "123", `"a string"`, `{"a":[1]}`
}

const totalSize = "total_size"

// ParseIndex reads an index. It refuses what is not strict JSON, names that
// come twice, a missing weight_map, and file names that are not plain names of
// safetensors files: those that leave the directory above all. Members that it
// does not know are accepted. Its errors wrap tensor.ErrFormat or
// tensor.ErrUnsupported.
func ParseIndex(text []byte) (*Index, error) {
	x := &Index{}
	r := newReader(text)
	err := r.object("index", func(key string) error {
		switch key {
		case "metadata":
			return x.readMeta(r)
		case "weight_map":
			x.Files = make(map[string]string)
			return r.object(key, func(name string) error { return x.readFile(r, name) })
		}
		return r.skip()
	})
	switch rest := r.rest(); {
	case err == nil && len(rest) > 0:
		err = fmt.Errorf("%d bytes after the JSON object, beginning with %.20q", len(rest), rest)
	case err == nil && x.Files == nil:
		err = errors.New("weight_map is missing")
	}
	if err != nil {
		return nil, &tensor.FileError{Offset: r.locate(err), Err: withClass(err)}
	}
	return x, nil
}

// withClass makes err one of tensor.ErrFormat unless it has a class.
func withClass(err error) error {
	if errors.Is(err, tensor.ErrUnsupported) || errors.Is(err, tensor.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", tensor.ErrFormat, err)
}

func (x *Index) readMeta(r *reader) error {
	if r.dec.PeekKind() == 'n' {
		return r.skip()
	}
	return r.object("metadata", func(key string) error {
		start := r.offset()
		if err := r.skip(); err != nil {
			return err
		}
		raw := strings.TrimLeft(string(r.text[start:r.offset()]), ": \t\r\n")
		x.Meta = append(x.Meta, IndexEntry{key, raw})
		return nil
	})
}

func (x *Index) readFile(r *reader, name string) error {
	file, err := r.str("file of " + shorten(strconv.AppendQuote(nil, name)))
	if err != nil {
		return err
	}
	x.Files[name] = string(file)
	if err := checkFileName(string(file)); err != nil {
		return fmt.Errorf("weight_map: tensor %q: %w", name, err)
	}
	return nil
}

// Names returns the files of the set, sorted.
func (x *Index) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(x.Files)))
}

// TotalSize returns total_size of the metadata, if it is there and an integer.
func (x *Index) TotalSize() (bytes int64, ok bool) {
	for _, e := range x.Meta {
		if e.Key == totalSize {
			n, err := strconv.ParseInt(e.JSON, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// AppendJSON appends the text of the index, as Python's json module writes it
// with an indent of two spaces: tensors sorted by name, ASCII alone, a newline
// at the end. total_size is set to total.
func (x *Index) AppendJSON(p []byte, total int64) ([]byte, error) {
	p = append(p, "{\n  \"metadata\": {"...)
	sep := "\n    "
	for _, e := range withTotal(x.Meta, total) {
		p = appendASCII(append(p, sep...), e.Key)
		value, err := indentValue(e)
		if err != nil {
			return nil, err
		}
		p = append(append(p, ": "...), value...)
		sep = ",\n    "
	}
	p = append(p, "\n  },\n  \"weight_map\": {"...)
	sep = "\n    "
	for _, name := range slices.Sorted(maps.Keys(x.Files)) {
		p = appendASCII(append(p, sep...), name)
		p = appendASCII(append(p, ": "...), x.Files[name])
		sep = ",\n    "
	}
	if len(x.Files) > 0 {
		p = append(p, "\n  "...)
	}
	return append(p, "}\n}\n"...), nil
}

// withTotal returns the metadata with total_size, where it was or else first.
func withTotal(meta []IndexEntry, total int64) []IndexEntry {
	size := IndexEntry{totalSize, strconv.FormatInt(total, 10)}
	i := slices.IndexFunc(meta, func(e IndexEntry) bool { return e.Key == totalSize })
	if i < 0 {
		return append([]IndexEntry{size}, meta...)
	}
	meta = slices.Clone(meta)
	meta[i] = size
	return meta
}

// indentValue lays a metadata value out at its depth.
func indentValue(e IndexEntry) ([]byte, error) {
	text, err := jsontext.AppendFormat(nil, e.JSON, jsontext.PreserveRawStrings(true), jsontext.Multiline(true),
		jsontext.WithIndentPrefix("    "), jsontext.WithIndent("  "))
	if err != nil {
		return nil, classed(tensor.ErrFormat, "index metadata %q is not JSON: %v", e.Key, err)
	}
	return text, nil
}

// appendASCII appends s as a JSON string with all but printable ASCII escaped.
// s is UTF-8.
func appendASCII(p []byte, s string) []byte {
	quoted := appendString(nil, s)
	for len(quoted) > 0 {
		r, n := utf8.DecodeRune(quoted)
		switch {
		case r < 0x7f:
			p = append(p, byte(r))
		case r < 0x10000:
			p = fmt.Appendf(p, `\u%04x`, r)
		default:
			r -= 0x10000
			p = fmt.Appendf(p, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		quoted = quoted[n:]
	}
	return p
}
