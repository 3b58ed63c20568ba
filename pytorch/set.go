package pytorch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// A Set is a tensor.Source over the shards of a checkpoint, or over its one
// file. Tensors come in the order of the files' names, in each file in the
// order of its pickle. Its methods may be called by several goroutines at once.
type Set struct {
	joined   tensor.Source
	files    []*File
	index    *Index // nil if no index was used
	warnings []string
}

var (
	_ tensor.Mapped = (*Set)(nil)
	_ tensor.Summed = (*Set)(nil)
)

// OpenSet opens all files of a checkpoint. path is one of:
//
//   - an index, stem.bin.index.json: it decides
//   - a shard, stem-00001-of-00003.bin: the index of its stem decides if there
//     is one, else the names do
//   - a directory: pytorch_model.bin.index.json or pytorch_model.bin if one of
//     them is there, else its only index, its only set of shards or its only
//     file in .bin; if there is none, its only file in .pt, else .pth, else .ckpt
//   - any other file: it alone
//
// A set is refused if shards are missing, if an index and the shards do not
// agree on which tensor is where (the index is stale), if a name is in two
// shards, or if a directory has several candidates: all of them are listed.
// Options.IgnoreIndex goes by names alone. Files that an index does not name
// are left out, with a warning. Symbolic links are followed.
func OpenSet(path string, opts *Options) (*Set, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Set{}
	c, err := s.choose(path, opts)
	if err != nil {
		return nil, err
	}
	s.warnings = c.Warnings
	if err := s.open(c, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// choose finds the files of path.
func (s *Set) choose(path string, opts *Options) (*shardset.Choice, error) {
	tree := regular.Tree{FS: opts.FS}
	st, err := tree.Stat(path)
	if err != nil {
		return nil, err
	}
	o := &shardset.Options{FS: opts.FS, IgnoreIndex: opts.IgnoreIndex, MaxIndex: opts.maxHeader(), Parse: s.parseIndex}
	if !st.IsDir() {
		return sets.Choose(path, o)
	}
	for _, name := range []string{sets.IndexName(ModelStem), ModelStem + sets.Ext} {
		if _, err := tree.Stat(tree.Join(path, name)); err == nil {
			return sets.Choose(tree.Join(path, name), o)
		}
	}
	c, err := sets.Choose(path, o)
	for _, kind := range lone {
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		other, e := kind.Choose(path, &shardset.Options{FS: opts.FS})
		if !errors.Is(e, fs.ErrNotExist) {
			c, err = other, e
		}
	}
	return c, err
}

// ModelStem is the name that the libraries around PyTorch give to a model, as in
// "pytorch_model.bin": the other files in .bin beside it hold other things.
const ModelStem = "pytorch_model"

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
	shared := &bands{}
	for _, name := range c.Files {
		f, err := Open(name, opts)
		if err != nil {
			return err
		}
		f.bands = shared
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
	s.compareSize(c.Index)
	return sets.Compare(c.Index, s.index.Files, s, nil)
}

// compareSize warns of an index that has another size than the files. Writers
// do not agree on whether tied tensors count twice.
func (s *Set) compareSize(index string) {
	total, tied := int64(0), int64(0)
	aliases := s.Aliases()
	for _, in := range s.Tensors() {
		total += in.Size // File bounds the sum
		if _, alias := aliases[in.Name]; alias {
			tied += in.Size
		}
	}
	if want, ok := s.index.TotalSize(); ok && want != total && want != total-tied {
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

// Class returns the class of tensor i.
func (s *Set) Class(i int) Class { return ClassOf(s.Tensors()[i].Name) }

// Aliases is File.Aliases for every file: tensors of two files share nothing.
func (s *Set) Aliases() map[string]string {
	all := make(map[string]string)
	for _, f := range s.files {
		maps.Copy(all, f.Aliases())
	}
	return all
}

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
