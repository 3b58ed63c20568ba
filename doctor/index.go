package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// refusal is the finding of a reader's error, whatever its class.
func refusal(path string, err error) Finding {
	f := Finding{File: path, Text: err.Error()}
	var place *tensor.FileError
	if errors.As(err, &place) {
		f.Tensor, f.Text, f.Offset = place.Tensor, place.Err.Error(), max(place.Offset, 0)
		if place.File != "" {
			f.File = place.File
		}
	}
	return f
}

// indexed compares an index with the files of its set, and returns these if all
// can be read.
func (e *examiner) indexed(s *set) []*weights {
	owned, names := s.owned(), s.members()
	e.unowned(s, names)
	if missing := slices.DeleteFunc(slices.Clone(owned), s.d.has); len(missing) > 0 {
		f := Finding{File: s.path, repair: s.rebuild(s.path, names),
			Text: fmt.Sprintf("the index names %d files, of which %d are not there: %s", len(owned), len(missing), shardset.Listed(missing))}
		e.add("missing-shard", f)
		if f.repair != nil {
			return s.d.sound(names) // all else about the index follows from that
		}
	}
	var there []*weights
	for _, name := range names {
		if w := s.d.weights[name]; w != nil && w.sound {
			there = append(there, w)
		}
	}
	twice := e.duplicates(there)
	e.compare(s, there)
	if len(there) < len(names) {
		return nil
	}
	e.total(s, there, names)
	e.digests(s, there)
	if twice {
		return nil
	}
	return there
}

// members returns the files of the set of an index, sorted: those of the set that is
// complete by its names, if the index names no other file that is there; else
// those that the index names.
func (s *set) members() []string {
	complete := s.complete()
	if complete == nil {
		return s.owned()
	}
	for _, name := range s.owned() {
		if _, found := slices.BinarySearch(complete, name); !found && s.d.has(name) {
			return s.owned()
		}
	}
	return complete
}

// compare notes the tensors on which an index and the files that can be read do
// not agree.
func (e *examiner) compare(s *set, files []*weights) {
	var absent, moved, unknown []string
	places := make(map[string][]string)
	there := make(map[string]bool)
	for _, w := range files {
		there[w.base()] = true
		for _, in := range w.infos {
			places[in.Name] = append(places[in.Name], w.base())
		}
	}
	for name, file := range s.index.files {
		switch at := places[name]; {
		case slices.Contains(at, file):
		case at != nil:
			moved = append(moved, fmt.Sprintf("%q (in %s, not in %s)", name, at[0], file))
		case there[file]:
			absent = append(absent, fmt.Sprintf("%q (in %s)", name, file))
		}
	}
	for name, at := range places {
		if s.index.files[name] == "" {
			unknown = append(unknown, fmt.Sprintf("%q (in %s)", name, at[0]))
		}
	}
	fix := s.rebuild(s.path, s.members())
	for _, c := range []struct {
		code, text string
		list       []string
	}{
		{"index-missing-tensor", "tensors of the index are in no file", absent},
		{"index-wrong-shard", "tensors are in another file than the index says", moved},
		{"index-partial", "tensors are not in the index", unknown},
	} {
		if slices.Sort(c.list); len(c.list) > 0 {
			e.add(c.code, Finding{File: s.path, Text: fmt.Sprintf("%d %s: %s", len(c.list), c.text, shardset.Listed(c.list)), repair: fix})
		}
	}
}

// total compares total_size. Writers of PyTorch's files do not agree on whether
// tied tensors count twice, so that only more than all of them is wrong there.
func (e *examiner) total(s *set, files []*weights, names []string) {
	sum := int64(0)
	for _, w := range files {
		sum += w.bytes
	}
	if !s.index.hasTotal || s.index.total == sum || s.Ext == ".bin" && s.index.total < sum {
		return
	}
	e.add("index-total-size", Finding{File: s.path, Text: fmt.Sprintf("total_size is %d, the tensors have %d bytes", s.index.total, sum), repair: s.rebuild(s.path, names)})
}

// digests notes files of a store that are not those that the index was made of.
// They can be its new ones only if they say themselves of which set they are.
func (e *examiner) digests(s *set, files []*weights) {
	var changed, names []string
	member := true
	for _, w := range files {
		names, member = append(names, w.base()), member && w.member
		if want := s.index.digests[w.base()]; want != "" && want != w.digest {
			changed = append(changed, w.base())
		}
	}
	if len(changed) == 0 {
		return
	}
	f := Finding{File: s.path, Text: fmt.Sprintf("%d files have another digest than the index says: %s", len(changed), shardset.Listed(changed))}
	if member {
		f.repair = s.rebuild(s.path, names)
	}
	e.add("index-digest", f)
}

// unowned notes files of the same stem that are not of the set.
func (e *examiner) unowned(s *set, names []string) {
	for _, count := range slices.Sorted(maps.Keys(s.names)) {
		left := slices.DeleteFunc(slices.Clone(s.names[count]), func(name string) bool { _, found := slices.BinarySearch(names, name); return found })
		switch {
		case len(left) == 0:
		case count == 0:
			e.add("two-sets", Finding{File: s.d.join(left[0]), Text: "a model in one file beside a set of the same name: programs differ in which one they load"})
		default:
			e.add("leftover-shard", Finding{File: s.d.join(left[0]), Text: fmt.Sprintf("the index does not name %s", shardset.Listed(left))})
		}
	}
}

// owned returns the files that the index names.
func (s *set) owned() []string {
	return slices.Compact(slices.Sorted(maps.Values(s.index.files)))
}

// complete returns the files of the only set of shards of the stem that is
// complete by its names; nil if there is none, or if there are several.
func (s *set) complete() (files []string) {
	for count, names := range s.names {
		if count == 0 || len(names) < count {
			continue
		}
		if files != nil {
			return nil
		}
		files = names
	}
	return files
}

// rebuild returns the repair that makes the index from the headers of files. It
// is nil where that would hide a loss or a doubt: a file that cannot be read, a
// tensor in two files, a tensor of the old index that is in none of them, files
// of a store that say that they are not of one set. An index that is a symbolic
// link is left alone.
func (s *set) rebuild(path string, names []string) *Repair {
	files := s.d.sound(names)
	if s.parse == nil || files == nil || isLink(path) {
		return nil
	}
	x := &safetensors.Index{Files: make(map[string]string)}
	total := int64(0)
	for _, w := range files {
		for _, in := range w.infos {
			if x.Files[in.Name] != "" || w.kind != kind(s.Ext) {
				return nil
			}
			x.Files[in.Name] = w.base()
		}
		total += w.bytes
	}
	if s.index != nil {
		x.Meta = s.index.meta
		for name := range s.index.files {
			if x.Files[name] == "" {
				return nil
			}
		}
	}
	if s.Ext == ".demi" {
		return storeIndex(path, files)
	}
	return &Repair{File: path, do: func(f *fixer) error { return f.writeIndex(path, x, total) }}
}

// storeIndex is the repair that makes the index of a set of stores; nil if they
// are not of one set.
func storeIndex(path string, files []*weights) *Repair {
	var open []*format.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	for _, w := range files {
		f, err := format.Open(w.path, nil)
		if err != nil {
			return nil
		}
		open = append(open, f)
	}
	x, err := format.IndexOf(open)
	if err != nil {
		return nil
	}
	return &Repair{File: path, do: func(f *fixer) error {
		text, err := x.AppendJSON(nil)
		if err != nil {
			return err
		}
		f.did(madeIndex(len(files), len(x.Files), x.Metadata.TotalSize))
		return shardset.WriteIndex(path, text)
	}}
}
