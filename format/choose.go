package format

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A choice is what a path stands for: files, or an index that names them.
type choice struct {
	path      string // as given
	indexName string
	index     *Index   // nil if names decide
	files     []string // sorted
	warnings  []string
}

// choose finds out what path stands for.
func choose(path string, o *Options) (*choice, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return chooseIn(path, "", o)
	}
	if stem, ok := strings.CutSuffix(filepath.Base(path), indexSuffix); ok && o.IgnoreIndex {
		return chooseIn(filepath.Dir(path), stem, o)
	}
	if strings.HasSuffix(path, ".json") {
		return indexed(path, path, o)
	}
	stem, _, count, ok := ParseShardName(path)
	if !ok {
		return &choice{path: path, files: []string{path}}, nil
	}
	index := IndexName(stem)
	if _, err := os.Stat(index); o.IgnoreIndex || errors.Is(err, fs.ErrNotExist) {
		return &choice{path: path, files: shardNames(stem, count)}, nil
	}
	c, err := indexed(path, index, o)
	if err == nil && !slices.Contains(c.index.Names(), filepath.Base(path)) {
		err = &tensor.FileError{File: path, Offset: -1, Err: classed(tensor.ErrFormat, "the index %s does not name this file, but %s", index, listed(c.index.Names()))}
	}
	return c, err
}

func shardNames(stem string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = ShardName(stem, i+1, count)
	}
	return names
}

// indexed is the choice of an index, for a path.
func indexed(path, index string, o *Options) (*choice, error) {
	x, err := readIndex(index, o.MaxIndex)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(index)
	l, err := list(dir)
	if err != nil {
		return nil, err
	}
	c := &choice{path: path, indexName: index, index: x}
	names := x.Names()
	for _, name := range names {
		c.files = append(c.files, filepath.Join(dir, name))
	}
	left := slices.DeleteFunc(l.files, func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	})
	if len(left) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("%s does not name %s: left out", index, listed(left)))
	}
	return c, nil
}

// present refuses a choice of which files are missing, and lists them.
func (c *choice) present() error {
	var missing []string
	for _, name := range c.files {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, filepath.Base(name))
		}
	}
	where := c.path
	if c.index != nil {
		where = c.indexName
	}
	if len(missing) == 0 || where == c.files[0] {
		return nil // what is named by the caller is for Open to miss
	}
	err := classed(tensor.ErrFormat, "%d of %d files are missing: %s", len(missing), len(c.files), listed(missing))
	return &tensor.FileError{File: where, Offset: -1, Err: err}
}

// A listing is what a directory has for us; names are without it, sorted.
type listing struct {
	indexes []string
	files   []string
	models  []model
}

// A model is a set of files or, if count is 0, one file.
type model struct {
	stem  string
	count int
}

// String is the name of a model's files in a list.
func (m model) String() string {
	if m.count == 0 {
		return m.stem + fileSuffix
	}
	return fmt.Sprintf("%s-*-of-%05d%s", m.stem, m.count, fileSuffix)
}

func (m model) files(dir string) []string {
	stem := filepath.Join(dir, m.stem)
	if m.count == 0 {
		return []string{stem + fileSuffix}
	}
	return shardNames(stem, m.count)
}

func list(dir string) (*listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	l := &listing{}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() || strings.HasPrefix(name, "."): // a hidden file is not a part of a model
		case strings.HasSuffix(name, indexSuffix):
			l.indexes = append(l.indexes, name)
		case strings.HasSuffix(name, fileSuffix):
			l.files = append(l.files, name)
			l.addModel(name)
		}
	}
	return l, nil
}

func (l *listing) addModel(name string) {
	m := model{stem: strings.TrimSuffix(name, fileSuffix)}
	if stem, _, count, ok := ParseShardName(name); ok {
		m = model{stem, count}
	}
	if !slices.Contains(l.models, m) {
		l.models = append(l.models, m)
	}
}

// chooseIn chooses in a directory, among the models of a stem if one is given.
func chooseIn(dir, stem string, o *Options) (*choice, error) {
	l, err := list(dir)
	if err != nil {
		return nil, err
	}
	if len(l.indexes) > 0 && !o.IgnoreIndex {
		if len(l.indexes) > 1 {
			return nil, several(dir, "indexes", l.indexes)
		}
		return indexed(dir, filepath.Join(dir, l.indexes[0]), o)
	}
	models := slices.DeleteFunc(l.models, func(m model) bool { return stem != "" && m.stem != stem })
	switch len(models) {
	case 0:
		return nil, fmt.Errorf("%w: no %s file in %s", fs.ErrNotExist, stem+fileSuffix, dir)
	case 1:
		return &choice{path: dir, files: models[0].files(dir)}, nil
	}
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.String()
	}
	return nil, several(dir, "models and no index that decides", names)
}

func several(dir, what string, names []string) error {
	err := classed(tensor.ErrUnsupported, "directory has %d %s, name one of them: %s", len(names), what, listed(names))
	return &tensor.FileError{File: dir, Offset: -1, Err: err}
}
