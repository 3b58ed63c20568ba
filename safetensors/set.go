package safetensors

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// A Set is a tensor.Source over the shards of a checkpoint, or over its one
// file. Tensors come in the order of the files' names, in each file in the
// order of its data. Its methods may be called by several goroutines at once.
type Set struct {
	joined   tensor.Source
	files    []*File
	index    *Index // nil if no index was used
	warnings []string
}

var _ tensor.Mapped = (*Set)(nil)

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
	s := &Set{}
	c, err := sets.Choose(path, &shardset.Options{FS: opts.FS, IgnoreIndex: opts.IgnoreIndex, MaxIndex: opts.maxHeader(), Parse: s.parseIndex})
	if err != nil {
		return nil, err
	}
	s.warnings = c.Warnings
	if err := s.open(c, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// parseIndex keeps the index that decides, and returns the files that it names.
func (s *Set) parseIndex(text []byte) (files []string, err error) {
	if s.index, err = ParseIndex(text); err != nil {
		return nil, err
	}
	return s.index.Names(), nil
}

// open opens the files and compares them with the index.
func (s *Set) open(c *shardset.Choice, opts *Options) error {
	var sources []tensor.Source
	for _, name := range c.Files {
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
	s.compareMeta()
	if s.index == nil {
		return nil
	}
	s.compareSize(c.Index)
	return sets.Compare(c.Index, s.index.Files, s, nil)
}

// metaWarnings is how many warnings of metadata a set may give: a header has room
// for millions of keys.
const metaWarnings = 100

// compareMeta warns of metadata that the files do not agree on.
func (s *Set) compareMeta() {
	if len(s.files) < 2 {
		return
	}
	first, differ := make(map[string]any), 0
	for _, e := range s.Meta() {
		first[e.Key] = e.Value
	}
	for _, f := range s.files {
		for _, e := range f.Meta() {
			v := first[e.Key]
			if v == e.Value {
				continue
			}
			if differ++; differ <= metaWarnings {
				s.warnings = append(s.warnings, fmt.Sprintf("%s: metadata %q is %.100q, and %.100q in an earlier file, which counts", f.name, e.Key, e.Value, v))
			}
		}
	}
	if differ > metaWarnings {
		s.warnings = append(s.warnings, fmt.Sprintf("%d more values of metadata differ between the files; the first counts", differ-metaWarnings))
	}
}

// compareSize warns of an index that has another size than the files.
func (s *Set) compareSize(index string) {
	total := int64(0)
	for _, in := range s.Tensors() {
		total += in.Size // of files that exist: no overflow
	}
	if want, ok := s.index.TotalSize(); ok && want != total {
		s.warnings = append(s.warnings, fmt.Sprintf("%s: total_size is %d, the tensors have %d bytes", index, want, total))
	}
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

// Bytes returns the bytes of tensor i as File.Bytes does.
func (s *Set) Bytes(i int) (p []byte, release func(), ok bool) { return tensor.Bytes(s.joined, i) }

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
