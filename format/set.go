package format

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
// on which tensor is where or on what the files hold (their digests), if a name
// is in two files, or if a directory has several candidates and no index: all
// of them are listed. Options.IgnoreIndex goes by names alone. Files that an
// index does not name are left out, with a warning.
func OpenSet(path string, opts *Options) (*Set, error) {
	o := opts.orZero()
	c, err := choose(path, &o)
	if err != nil {
		return nil, err
	}
	if err := c.present(); err != nil {
		return nil, err
	}
	s := &Set{index: c.index, warnings: c.warnings}
	if err := s.open(c, &o); err != nil {
		for _, f := range s.files {
			f.Close()
		}
		return nil, err
	}
	return s, nil
}

// open opens the files and compares them with the index.
func (s *Set) open(c *choice, o *Options) (err error) {
	var sources []tensor.Source
	for _, name := range c.files {
		f, err := Open(name, o)
		if err != nil {
			return err
		}
		s.files, sources = append(s.files, f), append(sources, f)
	}
	if s.Source, err = tensor.Join(sources); err != nil || s.index == nil {
		return err
	}
	return s.compare(c.indexName)
}

// compare holds index and files against each other, both ways.
func (s *Set) compare(index string) error {
	var absent, unknown, moved, other []string
	held := make(map[string]bool, len(s.Tensors()))
	for _, f := range s.files {
		file := filepath.Base(f.name)
		if want, ok := s.index.Metadata.Digests[file]; ok && want != f.Digest().String() {
			other = append(other, file)
		}
		for _, in := range f.x.infos {
			held[in.Name] = true
			switch indexed := s.index.Files[in.Name]; indexed {
			case file:
			case "":
				unknown = append(unknown, fmt.Sprintf("%q (in %s)", in.Name, file))
			default:
				moved = append(moved, fmt.Sprintf("%q (in %s, not in %s)", in.Name, file, indexed))
			}
		}
	}
	for name, file := range s.index.Files {
		if !held[name] {
			absent = append(absent, fmt.Sprintf("%q (in %s)", name, file))
		}
	}
	return stale(index, absent, unknown, moved, other)
}

// stale says how an index and its files disagree.
func stale(index string, absent, unknown, moved, other []string) error {
	var parts []string
	add := func(names []string, format string) {
		if len(names) > 0 {
			slices.Sort(names)
			parts = append(parts, fmt.Sprintf(format, len(names), listed(names)))
		}
	}
	add(absent, "%d tensors of the index are in no file: %s")
	add(unknown, "%d tensors of the files are not in the index: %s")
	add(moved, "%d tensors are in another file: %s")
	add(other, "%d files have another digest: %s")
	if len(parts) == 0 {
		return nil
	}
	err := fmt.Errorf("%w: %w: %s", tensor.ErrFormat, errStale, strings.Join(parts, "; "))
	return &tensor.FileError{File: index, Offset: -1, Err: err}
}

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
// their errors.
func (s *Set) Verify(ctx context.Context, workers int) error {
	var errs []error
	for _, f := range s.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, f.Verify(ctx, workers))
	}
	return errors.Join(errs...)
}
