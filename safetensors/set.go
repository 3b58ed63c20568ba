package safetensors

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A Set is a tensor.Source over the shards of a checkpoint, or over its one
// file. Tensors come in the order of the files' names, in each file in the
// order of its data. Its methods may be called by several goroutines at once,
// but for Close.
type Set struct {
	joined   tensor.Source
	files    []*File
	index    *Index // nil if no index was used
	warnings []string
}

var _ tensor.Source = (*Set)(nil)

// OpenSet opens all files of a checkpoint. path is one of:
//
//   - an index, stem.safetensors.index.json: it decides
//   - a shard, stem-00001-of-00003.safetensors: the index of its stem decides if
//     there is one, else the names do
//   - a directory: its index decides if there is one, else it must have one set
//     of shards, or one file
//   - any other file: it alone
//
// A set is refused if shards are missing, if an index and the shards do not
// agree on which tensor is where (the index is stale), if a name is in two
// shards, or if a directory has several candidates and no index: all of them
// are listed. Options.IgnoreIndex goes by names alone. Files that an index
// does not name are left out, with a warning. Symbolic links are followed.
func OpenSet(path string, opts *Options) (*Set, error) {
	if opts == nil {
		opts = &Options{}
	}
	c, err := choose(path, opts)
	if err != nil {
		return nil, err
	}
	if err := c.present(); err != nil {
		return nil, err
	}
	s := &Set{index: c.index, warnings: c.warnings}
	if err := s.open(c, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the files and compares them with the index.
func (s *Set) open(c *choice, opts *Options) error {
	var sources []tensor.Source
	for _, name := range c.files {
		f, err := Open(name, opts)
		if err != nil {
			return err
		}
		s.files, sources = append(s.files, f), append(sources, f)
	}
	joined, err := tensor.Join(sources)
	if err != nil {
		return err
	}
	s.joined = joined
	if s.index == nil {
		return nil
	}
	return s.compare(c.indexName)
}

// compare holds index and shards against each other, both ways.
func (s *Set) compare(index string) error {
	var d disagreement
	held := make(map[string]string, len(s.Tensors()))
	total := int64(0)
	for _, f := range s.files {
		file := filepath.Base(f.name)
		for i := range f.infos {
			name := f.infos[i].Name
			held[name] = file
			total += f.infos[i].Size // of files that exist: no overflow
			d.see(name, s.index.Files[name], file)
		}
	}
	for name, file := range s.index.Files {
		if _, ok := held[name]; !ok {
			d.absent = append(d.absent, fmt.Sprintf("%q (in %s)", name, file))
		}
	}
	if want, ok := s.index.TotalSize(); ok && want != total {
		s.warn("%s: total_size is %d, the tensors have %d bytes", index, want, total)
	}
	return d.err(index)
}

// A disagreement between an index and its shards.
type disagreement struct{ absent, unknown, moved []string }

// see takes a tensor in a file; indexed is its file by the index.
func (d *disagreement) see(name, indexed, file string) {
	switch indexed {
	case file:
	case "":
		d.unknown = append(d.unknown, fmt.Sprintf("%q (in %s)", name, file))
	default:
		d.moved = append(d.moved, fmt.Sprintf("%q (in %s, not in %s)", name, file, indexed))
	}
}

func (d *disagreement) err(index string) error {
	var parts []string
	add := func(names []string, format string) {
		if len(names) > 0 {
			slices.Sort(names)
			parts = append(parts, fmt.Sprintf(format, len(names), listed(names)))
		}
	}
	add(d.absent, "%d tensors of the index are in no shard: %s")
	add(d.unknown, "%d tensors of the shards are not in the index: %s")
	add(d.moved, "%d tensors are in another shard: %s")
	if len(parts) == 0 {
		return nil
	}
	err := classed(tensor.ErrFormat, "the index is stale: %s", strings.Join(parts, "; "))
	return &tensor.FileError{File: index, Offset: -1, Err: err}
}

func (s *Set) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// Tensors returns the tensors of all files.
func (s *Set) Tensors() []tensor.Info { return s.joined.Tensors() }

// Data returns a reader of tensor i, safe for concurrent use.
func (s *Set) Data(i int) io.ReaderAt { return s.joined.Data(i) }

// Meta returns the metadata of the first file, then the keys of the others
// that it lacks.
func (s *Set) Meta() tensor.Metadata { return s.joined.Meta() }

// Place returns the file of tensor i and the offset in it.
func (s *Set) Place(i int) (file string, offset int64) { return s.joined.Place(i) }

// Files returns the files in order. They belong to the Set.
func (s *Set) Files() []*File { return s.files }

// Index returns the index that decided, or nil.
func (s *Set) Index() *Index { return s.index }

// Warnings returns what was accepted although it is not quite right, a
// sentence each: of the set, then of each file.
func (s *Set) Warnings() []string {
	warnings := slices.Clone(s.warnings)
	for _, f := range s.files {
		for _, w := range f.warnings {
			warnings = append(warnings, f.name+": "+w)
		}
	}
	return warnings
}

// Close closes all files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Aliases returns the names of tied tensors that s does not hold, each with
// the name of the tensor that it is an alias of. Writers that drop the second
// of two equal tensors say so in the metadata of the file or of the index.
func Aliases(s tensor.Source) map[string]string {
	held := make(map[string]bool, len(s.Tensors()))
	for _, in := range s.Tensors() {
		held[in.Name] = true
	}
	aliases := make(map[string]string)
	add := func(key, value string) {
		if !held[key] && held[value] {
			aliases[key] = value
		}
	}
	if set, ok := s.(*Set); ok && set.index != nil {
		for _, e := range set.index.Meta {
			if len(e.JSON) > 1 && e.JSON[0] == '"' {
				add(e.Key, string(unquote([]byte(e.JSON))))
			}
		}
	}
	for _, e := range s.Meta() {
		if value, ok := e.Value.(string); ok {
			add(e.Key, value)
		}
	}
	return aliases
}
