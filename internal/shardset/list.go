package shardset

import (
	"fmt"
	"slices"
	"strings"
)

// A listing is what a directory has of a kind; names are without it, sorted.
type listing struct {
	indexes []string
	files   []string
	models  []model
}

// A model is a set of shards or, if count is 0, one file.
type model struct {
	stem  string
	count int
}

// modelName is the name of a model's files in a list.
func (k Kind) modelName(m model) string {
	if m.count == 0 {
		return m.stem + k.Ext
	}
	return fmt.Sprintf("%s-*-of-%05d%s", m.stem, m.count, k.Ext)
}

func (c chooser) modelFiles(dir string, m model) []string {
	stem := c.tree.Join(dir, m.stem)
	if m.count == 0 {
		return []string{stem + c.Ext}
	}
	return c.shardNames(stem, m.count)
}

func (k Kind) modelOf(name string) model {
	if stem, _, count, ok := k.ParseShardName(name); ok {
		return model{stem, count}
	}
	return model{stem: strings.TrimSuffix(name, k.Ext)}
}

func (c chooser) list(dir string) (*listing, error) {
	entries, err := c.tree.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	l := &listing{}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() || strings.HasPrefix(name, "."): // a hidden file is not a part of a model
		case strings.HasSuffix(name, c.IndexName("")):
			l.indexes = append(l.indexes, name)
		case strings.HasSuffix(name, c.Ext):
			l.files = append(l.files, name)
			if m := c.modelOf(name); !slices.Contains(l.models, m) {
				l.models = append(l.models, m)
			}
		}
	}
	return l, nil
}
