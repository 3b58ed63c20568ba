package pytorch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

const (
	maxDepth     = 100     // of dictionaries and lists
	maxMetaValue = 4 << 10 // bytes of one value of the metadata
	maxMeta      = 1 << 20 // bytes of all keys and values of it
	loneName     = "tensor"
)

// readPickle reads data.pkl into f.infos, f.views and f.meta.
func (f *File) readPickle(limit uint64) error {
	e := f.record("data.pkl")
	if err := f.stored(e); err != nil {
		return err
	}
	if uint64(e.size) > limit {
		return f.fail("", e.data, tensor.ErrLimit, "pickle of %d bytes, the limit is %d", e.size, limit)
	}
	f.head.PickleOffset, f.head.PickleSize = e.data, e.size
	text, err := f.readText(e)
	if err != nil {
		return err
	}
	m := &machine{text: text, budget: newBudget(len(text))}
	if f.lenient {
		m.unknown = f.leftOut()
	}
	root, err := m.run()
	if err != nil {
		err = fmt.Errorf("%w (opcode at byte %d of data.pkl)", withClass(err), m.at)
		return &tensor.FileError{File: f.name, Offset: e.data + int64(m.at), Err: err}
	}
	w := &walker{f: f, budget: m.budget, names: make(map[string]bool), shelves: librarian{f: f, shelves: make(map[string]*shelf)}}
	return w.finish(w.walk(root))
}

// withClass makes err one of tensor.ErrFormat unless it has a class.
func withClass(err error) error {
	for _, class := range []error{tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrLimit} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", tensor.ErrFormat, err)
}

// readText reads an entry as a string, piece by piece: it is in memory once.
func (f *File) readText(e *entry) (string, error) {
	var b strings.Builder
	var last [1]byte
	if e.size > 0 { // a size may be wrong: the last byte first
		if err := f.read(last[:], e.data+e.size-1); err != nil {
			return "", err
		}
	}
	b.Grow(int(e.size))
	p := make([]byte, min(e.size, 64<<10))
	for done := int64(0); done < e.size; done += int64(len(p)) {
		p = p[:min(int64(len(p)), e.size-done)]
		if err := f.read(p, e.data+done); err != nil {
			return "", err
		}
		b.Write(p)
	}
	return b.String(), nil
}

// leftOut returns a function that warns of a class once.
func (f *File) leftOut() func(name string) {
	seen := make(map[string]bool)
	return func(name string) {
		if !seen[name] {
			seen[name] = true
			f.warn("objects of the unknown class %s are left out, and all that is in them", quote(name))
		}
	}
}

// A walker goes through the value of a pickle and collects its tensors and its
// plain values, under the names of the way to them. One value may be there many
// times, or in itself: depth and budget bound the way.
type walker struct {
	f        *File
	budget   *budget
	shelves  librarian
	path     []byte
	depth    int
	names    map[string]bool // of tensors
	keys     map[string]bool // of metadata
	metaSize int
	dropped  int    // plain values left out of the metadata
	example  string // the name of the first one
}

// finish is the end of the walk, which ended with err.
func (w *walker) finish(err error) error {
	var place *tensor.FileError
	switch {
	case errors.As(err, &place):
		return err
	case err != nil:
		return &tensor.FileError{File: w.f.name, Tensor: w.name(), Offset: w.f.head.PickleOffset, Err: withClass(err)}
	case w.dropped > 0:
		w.f.warn("%s left out of the metadata, for it would grow too large: the first is %s", english.Plural(w.dropped, "value is", "values are"), quote(w.example))
	}
	return nil
}

// name returns where the walk is, at most 200 bytes of it.
func (w *walker) name() string { return string(w.path[:min(len(w.path), 200)]) }

func (w *walker) walk(v any) error {
	if err := w.budget.visit(len(w.path)); err != nil {
		return err
	}
	switch v := v.(type) {
	case *pickled:
		return w.tensor(v)
	case *dict:
		return w.dict(v)
	case *seq:
		return w.seq(v)
	case *storage:
		return w.skip("a storage without a tensor")
	}
	if text, ok := leafText(v); ok {
		w.addMeta(text)
	}
	return nil
}

func (w *walker) tensor(t *pickled) error {
	name := string(w.path)
	if w.depth == 0 {
		name = loneName
	}
	if err := w.budget.take(len(name) + 512); err != nil {
		return err
	}
	if w.names[name] {
		return classed(tensor.ErrFormat, "two tensors have the name %s when keys are joined with dots", quote(name))
	}
	w.names[name] = true
	return w.shelves.add(name, t)
}

// skip leaves out what cannot be read without a doubt; without Lenient it is an
// error.
func (w *walker) skip(what string) error {
	if !w.f.lenient {
		return classed(tensor.ErrUnsupported, "%s", what)
	}
	w.f.warn("%s is left out: %s", quote(w.name()), what)
	return nil
}

// enter walks v, which has this key in the value at hand.
func (w *walker) enter(key string, v any) error {
	if w.depth >= maxDepth {
		return classed(tensor.ErrLimit, "dictionaries and lists are nested deeper than %d", maxDepth)
	}
	was := len(w.path)
	if w.depth > 0 {
		w.path = append(w.path, '.')
	}
	w.path = append(w.path, key...)
	w.depth++
	err := w.walk(v)
	if err == nil { // else the path tells where it was
		w.path = w.path[:was]
		w.depth--
	}
	return err
}

func (w *walker) dict(d *dict) error {
	for i, key := range d.keys {
		text, ok := keyText(key)
		if !ok && (key == nil || !holdsMore(d.vals[i])) {
			continue
		}
		if !ok {
			if err := w.skip("what a key of type " + typeName(key) + " has"); err != nil {
				return err
			}
			continue
		}
		if err := w.enter(text, d.vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// holdsMore reports whether a value can have tensors in it.
func holdsMore(v any) bool {
	switch v.(type) {
	case *pickled, *dict, *seq, *storage:
		return true
	}
	return false
}

// seq walks the items of a list. One of plain values is a value of the metadata.
func (w *walker) seq(s *seq) error {
	if err := w.budget.visit(slot * len(s.items)); err != nil {
		return err
	}
	if !slices.ContainsFunc(s.items, holdsMore) {
		if text, ok := listText(s); ok {
			w.addMeta(text)
		}
		return nil
	}
	if s.kind == setKind {
		return w.skip("a set that is not one of plain values")
	}
	for i, v := range s.items {
		key, _ := plainText(int64(i))
		if err := w.enter(key, v); err != nil {
			return err
		}
	}
	return nil
}

// leafText returns the text of a plain value.
func leafText(v any) (text string, ok bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	return plainText(v)
}

// listText returns a list of plain values as JSON; ok is false if one of them
// is not plain. Text that is longer than the metadata takes ends early.
func listText(s *seq) (text string, ok bool) {
	p := []byte{'['}
	for i, v := range s.items {
		if i > 0 {
			p = append(p, ',')
		}
		if p, ok = appendPlain(p, v); !ok {
			return "", false
		}
		if len(p) > maxMetaValue {
			return string(p), true
		}
	}
	return string(append(p, ']')), true
}

func appendPlain(p []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return append(p, "null"...), true
	case string:
		if len(v) > maxMetaValue {
			return append(p, v[:maxMetaValue+1]...), true
		}
		p, err := jsontext.AppendQuote(p, v)
		return p, err == nil
	case element:
		return append(append(append(p, `"torch.`...), v.name...), '"'), true
	}
	text, ok := plainText(v)
	return append(p, text...), ok
}

// addMeta adds a value to the metadata, within its limits.
func (w *walker) addMeta(text string) {
	key := string(w.path)
	if w.depth == 0 {
		key = loneName
	}
	size := len(key) + len(text) + slot
	if len(text) > maxMetaValue || w.metaSize+size > maxMeta || w.keys[key] {
		if w.dropped++; w.dropped == 1 {
			w.example = w.name()
		}
		return
	}
	if w.keys == nil {
		w.keys = make(map[string]bool)
	}
	w.keys[key] = true
	w.metaSize += size
	w.f.meta = append(w.f.meta, tensor.Entry{Key: key, Value: strings.Clone(text)})
}
