package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/safetensors"
)

// An index is the content of an index of a set.
type index struct {
	files    map[string]string // of each tensor
	total    int64             // total_size
	hasTotal bool
	meta     []safetensors.IndexEntry // but of stores
	digests  map[string]string        // of the files of stores
}

// A family is a format whose files come in sets.
type family struct {
	shardset.Kind
	parse func(text []byte) (*index, error) // nil if it has no indexes
}

var families = []family{
	{shardset.Kind{Ext: ".safetensors"}, func(text []byte) (*index, error) {
		x, err := safetensors.ParseIndex(text)
		if err != nil {
			return nil, err
		}
		total, ok := x.TotalSize()
		return &index{files: x.Files, total: total, hasTotal: ok, meta: x.Meta}, nil
	}},
	{shardset.Kind{Ext: ".bin"}, func(text []byte) (*index, error) {
		x, err := pytorch.ParseIndex(text)
		if err != nil {
			return nil, err
		}
		total, ok := x.TotalSize()
		in := &index{files: x.Files, total: total, hasTotal: ok}
		for _, key := range slices.Sorted(maps.Keys(x.Meta)) {
			in.meta = append(in.meta, safetensors.IndexEntry{Key: key, JSON: x.Meta[key]})
		}
		return in, nil
	}},
	{shardset.Kind{Ext: ".demi"}, func(text []byte) (*index, error) {
		x, err := format.ParseIndex(text)
		if err != nil {
			return nil, err
		}
		return &index{files: x.Files, total: x.Metadata.TotalSize, hasTotal: true, digests: x.Metadata.Digests}, nil
	}},
	{shardset.Kind{Ext: ".gguf"}, nil},
}

// A set is what a directory has of one stem of a family.
type set struct {
	family
	d     *directory
	stem  string
	index *index
	path  string           // of the index; "" if there is none
	names map[int][]string // of files, by the count in their names; 0 is a single file
}

// sets looks at the sets of a directory, and returns the files of the one model
// that it has; nil if they cannot all be read, or if there are several.
func (e *examiner) sets(d *directory) (model []*weights) {
	for _, f := range families {
		sets := f.setsOf(d)
		for _, s := range sets {
			files := e.set(s)
			if len(sets) == 1 && model == nil && f.parse != nil { // programs for GGUF read no configuration
				model = files
			}
		}
		e.several(d, f, sets)
	}
	return model
}

// setsOf sorts the files of a family by their stems.
func (f family) setsOf(d *directory) []*set {
	byStem := make(map[string]*set)
	at := func(stem string) *set {
		if byStem[stem] == nil {
			byStem[stem] = &set{family: f, d: d, stem: stem, names: make(map[int][]string)}
		}
		return byStem[stem]
	}
	for _, name := range d.names {
		stem, _, count, ok := f.ParseShardName(name)
		single, isOurs := strings.CutSuffix(name, f.Ext)
		switch {
		case ok:
			at(stem).names[count] = append(at(stem).names[count], name)
		case isOurs && (f.Ext != ".bin" || modelName(name)):
			at(single).names[0] = append(at(single).names[0], name)
		}
	}
	for _, name := range d.indexes {
		if stem, ok := strings.CutSuffix(name, f.IndexName("")); ok && f.parse != nil {
			at(stem).path = d.join(name)
		}
	}
	var sets []*set
	for _, stem := range slices.Sorted(maps.Keys(byStem)) {
		sets = append(sets, byStem[stem])
	}
	return sets
}

// set looks at one set, and returns its files if all can be read.
func (e *examiner) set(s *set) []*weights {
	if s.path != "" && e.readIndex(s) {
		return e.indexed(s)
	}
	counts := slices.DeleteFunc(slices.Sorted(maps.Keys(s.names)), func(n int) bool { return n == 0 })
	if len(counts) > 1 || len(counts) == 1 && s.names[0] != nil {
		e.add("two-sets", Finding{Severity: Error, File: s.d.path, Text: fmt.Sprintf("%d models of the name %s lie here: %s", len(s.names), s.stem, s.listed())})
	}
	var files []*weights
	for _, count := range counts {
		files = e.byName(s, count)
	}
	if len(s.names) != 1 {
		return nil
	}
	if len(counts) == 0 {
		return s.d.sound(s.names[0])
	}
	return files
}

// listed names the models of a set.
func (s *set) listed() string {
	var list []string
	for _, count := range slices.Sorted(maps.Keys(s.names)) {
		if count == 0 {
			list = append(list, s.names[0]...)
		} else {
			list = append(list, fmt.Sprintf("%s-*-of-%05d%s (%d files)", s.stem, count, s.Ext, len(s.names[count])))
		}
	}
	return shardset.Listed(list)
}

// byName looks at a set without an index.
func (e *examiner) byName(s *set, count int) []*weights {
	all := s.names[count]
	if missing := s.missing(count); len(missing) > 0 {
		e.add("missing-shard", Finding{File: s.d.path, Text: fmt.Sprintf("%d of %d files of the set are missing: %s", count-len(all), count, shardset.Listed(missing))})
		return nil
	}
	files := s.d.sound(all)
	if files == nil || e.duplicates(files) {
		return nil
	}
	switch {
	case s.Ext == ".gguf":
		e.split(s.d.join(all[0]))
	case s.Ext != ".demi" && s.path == "" && len(s.names) == 1:
		path := s.d.join(s.IndexName(s.stem))
		e.add("no-index", Finding{File: path, Text: fmt.Sprintf("%s no index", english.Plural(count, "shard has", "shards have")), repair: s.rebuild(path, all)})
	}
	return files
}

// missing names the shards that are not there, the first hundred of them.
func (s *set) missing(count int) (names []string) {
	for no := 1; no <= count && len(names) < 100; no++ {
		if name := s.ShardName(s.stem, no, count); !s.d.has(name) {
			names = append(names, name)
		}
	}
	return names
}

// split compares the split keys of GGUF shards.
func (e *examiner) split(first string) {
	g, err := gguf.OpenSet(first, nil)
	if err != nil {
		e.add("gguf-split", refusal(first, err))
		return
	}
	g.Close()
}

// sound returns the files of these names, or nil if one cannot be read.
func (d *directory) sound(names []string) (files []*weights) {
	for _, name := range names {
		w := d.weights[name]
		if w == nil || !w.sound {
			return nil
		}
		files = append(files, w)
	}
	return files
}

// duplicates notes tensors that are in two files; true if there are some.
func (e *examiner) duplicates(files []*weights) bool {
	first := make(map[string]*weights)
	found := make(map[[2]*weights][]string)
	for _, w := range files {
		for _, in := range w.infos {
			if other := first[in.Name]; other != nil && other != w {
				key := [2]*weights{w, other}
				found[key] = append(found[key], fmt.Sprintf("%q", in.Name))
				continue
			}
			first[in.Name] = w
		}
	}
	for pair, names := range found {
		e.add("duplicate-tensor", Finding{File: pair[0].path, Text: fmt.Sprintf("%s also in %s: %s", english.Plural(len(names), "tensor is", "tensors are"), pair[1].base(), shardset.Listed(names))})
	}
	return len(found) > 0
}

// several notes a directory of several models, but for GGUF, where that is
// usual.
func (e *examiner) several(d *directory, f family, sets []*set) {
	var indexed, shards, list []string
	for _, s := range sets {
		list = append(list, s.listed())
		if s.path != "" {
			indexed = append(indexed, s.IndexName(s.stem))
		} else if len(s.names) > 1 || s.names[0] == nil {
			shards = append(shards, s.stem)
		}
	}
	switch {
	case len(sets) < 2 || f.Ext == ".gguf":
	case len(indexed) > 1:
		e.add("two-sets", Finding{File: d.path, Text: fmt.Sprintf("%d indexes lie here: %s", len(indexed), shardset.Listed(indexed))})
	case len(indexed) == 1:
		e.beside(d, sets)
	default:
		f := Finding{File: d.path, Text: fmt.Sprintf("%d models lie here, and no index that decides: %s", len(sets), shardset.Listed(list))}
		if len(shards) == 0 {
			f.Severity = Note // files of their own, such as variants and adapters
		}
		e.add("two-sets", f)
	}
}

// beside notes what lies beside the set that has an index.
func (e *examiner) beside(d *directory, sets []*set) {
	owned := make(map[string]bool)
	for _, s := range sets {
		if s.index != nil {
			for _, file := range s.index.files {
				owned[file] = true
			}
		}
	}
	for _, s := range sets {
		if s.path != "" {
			continue
		}
		for _, count := range slices.Sorted(maps.Keys(s.names)) {
			left := slices.DeleteFunc(slices.Clone(s.names[count]), func(name string) bool { return owned[name] })
			code := "leftover-shard"
			if count == 0 {
				code = "other-weights"
			}
			if len(left) > 0 {
				e.add(code, Finding{File: d.join(left[0]), Text: "no index names " + shardset.Listed(left)})
			}
		}
	}
}

// readIndex reads the index of a set; false if that cannot be done.
func (e *examiner) readIndex(s *set) bool {
	e.report.Files++
	const limit = safetensors.MaxHeader
	f, _ := e.open(s.path)
	if f == nil {
		return false
	}
	size := f.Size()
	f.Close()
	if size > limit {
		e.add("too-large", Finding{File: s.path, Text: fmt.Sprintf("index of %d bytes, the limit is %d", size, limit), Fix: "make the index again from the headers of the shards"})
		return false
	}
	text, err := readUpTo(s.path, limit)
	if err != nil {
		e.unreadable(s.path, err)
		return false
	}
	head := text[:min(len(text), sniff.Size)]
	what, hint := sniff.Sniff(head)
	if len(text) > 0 && e.placeholder(s.path, what, hint, head) {
		return false
	}
	if s.index, err = s.parse(text); err != nil {
		s.index = nil
		f := refusal(s.path, err)
		f.repair = s.rebuild(s.path, s.complete())
		e.add("bad-index", f)
		return false
	}
	return true
}
