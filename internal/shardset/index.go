package shardset

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// readIndex returns the files that an index names.
func (c chooser) readIndex(name string) ([]string, error) {
	file, err := c.tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := max(file.Size(), 0)
	if uint64(size) > c.MaxIndex {
		return nil, inFile(name, tensor.ErrLimit, "index of %d bytes, the limit is %d", size, c.MaxIndex)
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, size))
	if err != nil {
		return nil, err
	}
	files, err := c.Parse(text)
	if err != nil {
		return nil, named(name, err)
	}
	return files, nil
}

// named puts the name of a file into an error about its text.
func named(file string, err error) error {
	place := tensor.FileError{Offset: -1, Err: err}
	if e, ok := err.(*tensor.FileError); ok {
		place = *e
	}
	place.File = file
	return &place
}

// WriteIndex writes the text of an index: durable and whole, or not at all.
func WriteIndex(name string, text []byte) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Commit()
}

// Compare holds an index and the set s that it names against each other, both
// ways: files has the file of each tensor by the index. changed are files that
// have another digest than the index says; Compare sorts them. The error says
// that the index is stale, and lists all that differs.
func (k Kind) Compare(index string, files map[string]string, s tensor.Source, changed []string) error {
	var absent, unknown, moved []string
	infos := s.Tensors()
	held := make(map[string]bool, len(infos))
	for i := range infos {
		name := infos[i].Name
		path, _ := s.Place(i)
		held[name] = true
		switch file, indexed := filepath.Base(path), files[name]; indexed {
		case file:
		case "":
			unknown = append(unknown, fmt.Sprintf("%q (in %s)", name, file))
		default:
			moved = append(moved, fmt.Sprintf("%q (in %s, not in %s)", name, file, indexed))
		}
	}
	for name, file := range files {
		if !held[name] {
			absent = append(absent, fmt.Sprintf("%q (in %s)", name, file))
		}
	}
	return k.stale(index, absent, unknown, moved, changed)
}

// stale says how an index and its files disagree.
func (k Kind) stale(index string, absent, unknown, moved, changed []string) error {
	var parts []string
	add := func(names []string, one, more string) {
		if len(names) > 0 {
			slices.Sort(names)
			parts = append(parts, fmt.Sprintf("%s: %s", english.Plural(len(names), one, more), Listed(names)))
		}
	}
	add(absent, "tensor of the index is in no "+k.Noun, "tensors of the index are in no "+k.Noun)
	add(unknown, "tensor of the "+k.Noun+"s is not in the index", "tensors of the "+k.Noun+"s are not in the index")
	add(moved, "tensor is in another "+k.Noun, "tensors are in another "+k.Noun)
	add(changed, k.Noun+" has another digest", k.Noun+"s have another digest")
	if len(parts) == 0 {
		return nil
	}
	return inFile(index, tensor.ErrFormat, "the index is stale: %s", strings.Join(parts, "; "))
}
