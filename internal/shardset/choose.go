package shardset

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/tensor"
)

// Options say where Choose looks, and how it treats an index.
type Options struct {
	FS          fs.FS  // where path is; nil means the operating system
	IgnoreIndex bool   // names alone decide
	MaxIndex    uint64 // a limit on the bytes of an index
	// Parse takes the text of the index that decides and returns the names of
	// its files, sorted. Choose puts the name of the index into its errors.
	// Without Parse the Kind has no indexes.
	Parse func(text []byte) (files []string, err error)
}

// A Choice is what a path stands for: files, or an index that names them.
type Choice struct {
	Files    []string // in the order of their names
	Index    string   // the name of the index that decided; "" if names did
	Warnings []string // what an index leaves out
}

// Choose finds out what path stands for:
//
//   - an index, which any other name that ends in .json is, too: it decides
//   - a shard: the index of its stem decides if there is one, else the names do
//   - a directory: its index decides if there is one, else it must have one set
//     of shards, or one file
//   - any other file: it alone
//
// It refuses a choice of which files are missing, an index that does not name
// the shard that it was chosen for, and a directory with several candidates;
// its errors list them.
func (k Kind) Choose(path string, o *Options) (*Choice, error) {
	c := chooser{k, o, regular.Tree{FS: o.FS}, o.IgnoreIndex || o.Parse == nil}
	choice, err := c.choose(path)
	if err != nil {
		return nil, err
	}
	if err := c.present(path, choice); err != nil {
		return nil, err
	}
	return choice, nil
}

// present refuses a choice of which files are missing, and lists them.
func (c chooser) present(path string, choice *Choice) error {
	var missing []string
	for _, name := range choice.Files {
		if _, err := c.tree.Stat(name); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, filepath.Base(name))
		}
	}
	where := path
	if choice.Index != "" {
		where = choice.Index
	}
	if len(missing) == 0 || choice.Index == "" && len(choice.Files) == 1 {
		return nil // what is named by the caller is for the caller to miss
	}
	return inFile(where, tensor.ErrFormat, "%d of %d %ss are missing: %s", len(missing), len(choice.Files), c.Noun, Listed(missing))
}

type chooser struct {
	Kind
	*Options
	tree  regular.Tree
	plain bool // no index counts
}

func (c chooser) choose(path string) (*Choice, error) {
	st, err := c.tree.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return c.in(path, "")
	}
	if stem, ok := strings.CutSuffix(filepath.Base(path), c.IndexName("")); ok && c.plain && c.Parse != nil {
		return c.in(c.tree.Dir(path), stem)
	}
	if strings.HasSuffix(path, ".json") && c.Parse != nil {
		return c.indexed(path)
	}
	stem, _, count, ok := c.ParseShardName(path)
	if !ok {
		return &Choice{Files: []string{path}}, nil
	}
	index := c.IndexName(stem)
	if _, err := c.tree.Stat(index); c.plain || errors.Is(err, fs.ErrNotExist) {
		return &Choice{Files: c.shardNames(stem, count)}, nil
	}
	return c.indexedShard(path, index)
}

func (k Kind) shardNames(stem string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = k.ShardName(stem, i+1, count)
	}
	return names
}

// indexed is the choice of an index.
func (c chooser) indexed(index string) (*Choice, error) {
	names, err := c.readIndex(index)
	if err != nil {
		return nil, err
	}
	dir := c.tree.Dir(index)
	l, err := c.list(dir)
	if err != nil {
		return nil, err
	}
	choice := &Choice{Index: index}
	for _, name := range names {
		choice.Files = append(choice.Files, c.tree.Join(dir, name))
	}
	if left := without(l.files, names); len(left) > 0 {
		choice.Warnings = []string{fmt.Sprintf("%s does not name %s: left out", index, Listed(left))}
	}
	return choice, nil
}

// without returns the names that are not in known, which is sorted.
func without(names, known []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		_, found := slices.BinarySearch(known, name)
		return found
	})
}

// indexedShard is the choice of an index for one of its shards; it refuses an
// index that does not name it.
func (c chooser) indexedShard(shard, index string) (*Choice, error) {
	choice, err := c.indexed(index)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(choice.Files))
	for i, file := range choice.Files {
		names[i] = filepath.Base(file)
	}
	if !slices.Contains(names, filepath.Base(shard)) {
		return nil, inFile(shard, tensor.ErrFormat, "the index %s does not name this %s, but %s", index, c.Noun, Listed(names))
	}
	return choice, nil
}

// in chooses in a directory, among the models of a stem if one is given.
func (c chooser) in(dir, stem string) (*Choice, error) {
	l, err := c.list(dir)
	if err != nil {
		return nil, err
	}
	if len(l.indexes) > 0 && !c.plain {
		if len(l.indexes) > 1 {
			return nil, several(dir, "indexes", l.indexes)
		}
		return c.indexed(c.tree.Join(dir, l.indexes[0]))
	}
	models := slices.DeleteFunc(l.models, func(m model) bool { return stem != "" && m.stem != stem })
	switch len(models) {
	case 0:
		return nil, fmt.Errorf("%w: no %s file in %s", fs.ErrNotExist, stem+c.Ext, dir)
	case 1:
		return &Choice{Files: c.modelFiles(dir, models[0])}, nil
	}
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = c.modelName(m)
	}
	return nil, several(dir, c.models(), names)
}

// models is what a directory has too many of.
func (c chooser) models() string {
	if c.Parse == nil {
		return "models"
	}
	return "models and no index that decides"
}

func several(dir, what string, names []string) error {
	return inFile(dir, tensor.ErrUnsupported, "directory has %d %s, name one of them: %s", len(names), what, Listed(names))
}
