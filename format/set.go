package format

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// A Set is a tensor.Source over the files of a set, or over one file. Tensors
// come in the order of the files' names, in each file in that of its data. Its
// methods may be called by several goroutines at once.
type Set struct {
	tensor.Source // the files, joined
	files         []*File
	index         *Index // nil if no index was used
	warnings      []string
}

var _ tensor.Mapped = (*Set)(nil)

// OpenSet opens all files of a checkpoint. path is one of:
//
//   - an index, stem.demi.index.json: it decides
//   - a shard, stem-00001-of-00003.demi: the index of its stem decides if there
//     is one, else the names do
//   - a directory: its index decides if there is one, else it must have one set
//     of shards, or one file
//   - any other file: it alone
//
// A set is refused if files are missing, if an index and the files do not agree
// on which tensor is where or on what the files hold (their digests), if files
// say that they are of different sets (each knows those before it), if a name
// is in two files, or if a directory has several candidates and no index: all
// of them are listed. Options.IgnoreIndex goes by names alone. Files that an
// index does not name are left out, with a warning.
func OpenSet(path string, opts *Options) (*Set, error) {
	o := opts.orZero()
	s := &Set{}
	c, err := sets.Choose(path, &shardset.Options{FS: o.FS, IgnoreIndex: o.IgnoreIndex, MaxIndex: uint64(o.MaxIndex), Parse: s.parseIndex})
	if err != nil {
		return nil, err
	}
	s.warnings = c.Warnings
	if err := s.open(c, &o); err != nil {
		for _, f := range s.files {
			f.Close()
		}
		return nil, err
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
func (s *Set) open(c *shardset.Choice, o *Options) (err error) {
	var sources []tensor.Source
	for _, name := range c.Files {
		f, err := Open(name, o)
		if err != nil {
			return err
		}
		s.files, sources = append(s.files, f), append(sources, f)
	}
	if s.Source, err = tensor.Join(sources); err != nil {
		return err
	}
	if s.index != nil {
		if err = sets.Compare(c.Index, s.index.Files, s, s.changed()); err != nil {
			return err
		}
	}
	return s.checkMembers(c.Index != "")
}

// checkMembers holds the files against each other. One that is opened by its
// own name, which is not that of a shard, may be of a set.
func (s *Set) checkMembers(indexed bool) error {
	if len(s.files) > 1 || indexed {
		return checkMembers(s.files)
	}
	for _, f := range s.files {
		if no, count := f.Member(); count > 1 {
			s.warnings = append(s.warnings, fmt.Sprintf("%s is file %d of %d of a set: the tensors of the others are missing", f.name, no, count))
		}
	}
	return nil
}

// changed returns the files that have another digest than the index says.
func (s *Set) changed() (files []string) {
	for _, f := range s.files {
		file := filepath.Base(f.name)
		if want, ok := s.index.Metadata.Digests[file]; ok && want != f.Digest().String() {
			files = append(files, file)
		}
	}
	return files
}

// Container returns what File.Container does of the first file that says it.
func (s *Set) Container() string {
	for _, f := range s.files {
		if name := f.Container(); name != "" {
			return name
		}
	}
	return ""
}

// Bytes returns the bytes of tensor i as Tensor.Bytes does.
func (s *Set) Bytes(i int) (p []byte, release func(), ok bool) { return tensor.Bytes(s.Source, i) }

// Files returns the files in order. They belong to the Set.
func (s *Set) Files() []*File { return s.files }

// Index returns the index that decided, or nil.
func (s *Set) Index() *Index { return s.index }

// Warnings returns what was accepted although it is not quite right, a
// sentence each.
func (s *Set) Warnings() []string { return slices.Clone(s.warnings) }

// Lookup returns the tensor of a name; ok is false if there is none.
func (s *Set) Lookup(name string) (t *Tensor, ok bool) {
	for _, f := range s.files {
		if t, ok = f.Lookup(name); ok {
			return t, true
		}
	}
	return nil, false
}

// Records returns how each tensor came to be, in the order of Tensors; nil if
// none of the files says. For those of a file that does not, there is the name
// and nothing else.
func (s *Set) Records() ([]tensor.Record, error) {
	var all []tensor.Record
	some := false
	for _, f := range s.files {
		records, err := f.Records()
		if err != nil {
			return nil, err
		}
		some = some || records != nil
		for i := len(records); i < f.Len(); i++ {
			all = append(all, tensor.Record{Name: f.x.infos[i].Name})
		}
		all = append(all, records...)
	}
	if !some {
		return nil, nil
	}
	return all, nil
}

// Sources returns the headers of the files that the tensors came from, of all
// files of the set.
func (s *Set) Sources() (all []SourceHeader, err error) {
	for _, f := range s.files {
		list, err := f.Sources()
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// Verify verifies all files, one after another, as File.Verify does, and joins
// their errors; the tensors of the sources must be in one of them.
func (s *Set) Verify(ctx context.Context, workers int) error {
	var errs []error
	for _, f := range s.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, f.Verify(ctx, workers))
	}
	return errors.Join(append(errs, s.checkSources())...)
}
