package gguf

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// The keys of a split set.
const (
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

const maxShards = 65535 // split.no and split.count are u16

// sets has the names of the files, and the rules of sets of them.
var sets = shardset.Kind{Ext: ".gguf", Noun: "shard"}

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this prefix (which may have a directory): "prefix-00001-of-00003.gguf".
func ShardName(prefix string, no, count int) string { return sets.ShardName(prefix, no, count) }

// ParseShardName is the reverse of ShardName; ok is false for other names.
func ParseShardName(name string) (prefix string, no, count int, ok bool) {
	return sets.ParseShardName(name)
}

// A Set is a tensor.Source over the shards of a split set, or over one file.
// Tensors are in the order of the shards; Data and Place are those of File.
// Its methods may be called by several goroutines at once; Close closes the
// files.
type Set struct {
	tensor.Source // the files, joined
	files         []*File
	meta          tensor.Metadata
}

var _ tensor.Mapped = (*Set)(nil)

// OpenSet opens all shards of a split set, whichever of them path names, or
// the one file that path names, or the one model in the directory that path
// names. Shards are found by their names, "prefix-00001-of-00003.gguf"; the
// keys split.no (from 0), split.count and split.tensors.count must agree with
// the names and with what the shards hold, and no tensor may come twice.
func OpenSet(path string, opts *Options) (*Set, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	c, err := sets.Choose(path, &shardset.Options{FS: o.FS})
	if err != nil {
		return nil, err
	}
	s := &Set{}
	for _, name := range c.Files {
		var f *File
		if f, err = Open(name, &o); err != nil {
			break
		}
		s.files = append(s.files, f)
	}
	if err == nil {
		err = s.join()
	}
	if err != nil {
		for _, f := range s.files {
			f.Close()
		}
		return nil, err
	}
	return s, nil
}

// join checks the split keys and joins the files.
func (s *Set) join() (err error) {
	sources := make([]tensor.Source, len(s.files))
	for i, f := range s.files {
		if err := s.checkShard(i); err != nil {
			return err
		}
		sources[i] = f
	}
	if s.Source, err = tensor.Join(sources); err != nil {
		return err
	}
	s.meta = withoutSplit(s.Source.Meta())
	return s.checkTotal()
}

func inShard(f *File, name, format string, args ...any) error {
	return &tensor.FileError{File: f.name, Tensor: name, Offset: -1,
		Err: fmt.Errorf("%w: "+format, append([]any{tensor.ErrFormat}, args...)...)}
}

// checkShard checks the split keys of file i. A single file may say that it is
// no shard (split.count 0 or 1, as merged files do) or say nothing.
func (s *Set) checkShard(i int) error {
	f := s.files[i]
	_, no, count, named := ParseShardName(f.name)
	gotCount, hasCount, err := f.integer(keySplitCount)
	if err != nil {
		return err
	}
	if !named {
		if hasCount && gotCount > 1 {
			return inShard(f, "", "%s is %d, but the name is not like %s", keySplitCount, gotCount, ShardName("model", 1, int(min(gotCount, maxShards))))
		}
		return nil
	}
	if !hasCount || gotCount != int64(count) {
		return inShard(f, "", "%s is %s, the name says %d", keySplitCount, f.shown(keySplitCount), count)
	}
	gotNo, hasNo, err := f.integer(keySplitNo)
	if err != nil {
		return err
	}
	if !hasNo || gotNo != int64(no-1) {
		return inShard(f, "", "%s is %s, the name says %d (counted from 0)", keySplitNo, f.shown(keySplitNo), no-1)
	}
	return nil
}

// checkTotal compares split.tensors.count of every file that has it with the
// tensors of the set; the first shard must have it.
func (s *Set) checkTotal() error {
	for i, f := range s.files {
		_, _, _, named := ParseShardName(f.name)
		total, has, err := f.integer(keySplitTensors)
		if err != nil {
			return err
		}
		if has && total != int64(len(s.Tensors())) || named && i == 0 && !has {
			return inShard(f, "", "%s is %s, the set has %d tensors", keySplitTensors, f.shown(keySplitTensors), len(s.Tensors()))
		}
	}
	return nil
}

// integer returns the value of an integer key of any width.
func (f *File) integer(key string) (n int64, ok bool, err error) {
	v, ok := f.meta.Get(key)
	if !ok {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(fmt.Sprint(v), 10, 64)
	kind, _ := tensor.KindOf(v)
	if err != nil || kind == tensor.KindString || n < 0 {
		return 0, true, inShard(f, "", "%s is %s, want a number from 0", key, f.shown(key))
	}
	return n, true, nil
}

// shown prints the value of a key for an error.
func (f *File) shown(key string) string {
	v, ok := f.meta.Get(key)
	if !ok {
		return "missing"
	}
	if a, isArray := v.(tensor.Array); isArray {
		return fmt.Sprintf("an array of %d %v", a.Len, a.Elem)
	}
	return quoteValue(v)
}

func quoteValue(v any) string {
	if s, ok := v.(string); ok {
		return quote(s)
	}
	return fmt.Sprint(v)
}

// withoutSplit returns meta without the keys of a split set.
func withoutSplit(meta tensor.Metadata) tensor.Metadata {
	return slices.DeleteFunc(slices.Clone(meta), func(e tensor.Entry) bool {
		return e.Key == keySplitNo || e.Key == keySplitCount || e.Key == keySplitTensors
	})
}

// Files returns the files of the set, in order. They belong to the Set.
func (s *Set) Files() []*File { return s.files }

// Bytes returns the bytes of tensor i as File.Bytes does.
func (s *Set) Bytes(i int) (p []byte, release func(), ok bool) { return tensor.Bytes(s.Source, i) }

// Meta returns the keys and values of the first file, which has all of them in
// sets that llama.cpp makes, and after them the keys that only later files
// have. The keys split.no, split.count and split.tensors.count are left out:
// they speak of the files and not of the model.
func (s *Set) Meta() tensor.Metadata { return s.meta }

// Warnings returns those of all files, with the file's name before each if
// there are several, and names the keys of later files that Meta leaves out
// because an earlier file has another value.
func (s *Set) Warnings() (list []string) {
	for _, f := range s.files {
		for _, w := range f.warnings {
			if len(s.files) > 1 {
				w = f.name + ": " + w
			}
			list = append(list, w)
		}
		if differ := s.differing(f); len(differ) > 0 {
			list = append(list, fmt.Sprintf("%s: keys are left out, for an earlier file has them with another value: %s", f.name, shardset.Listed(differ)))
		}
	}
	return list
}

// differing returns the keys of f that have another value in Meta.
func (s *Set) differing(f *File) (keys []string) {
	if f == s.files[0] {
		return nil
	}
	first := make(map[string]any, len(s.meta))
	for _, e := range s.meta {
		first[e.Key] = e.Value
	}
	for _, e := range withoutSplit(f.meta) {
		if !sameValue(first[e.Key], e.Value) {
			keys = append(keys, quote(e.Key))
		}
	}
	return keys
}

// sameValue reports whether two values have the same type and bits.
func sameValue(a, b any) bool {
	ka, okA := tensor.KindOf(a)
	kb, okB := tensor.KindOf(b)
	return okA && okB && ka == kb && string(appendValue(nil, a)) == string(appendValue(nil, b))
}
