// Package regular opens files that have a size, in the operating system or in
// an fs.FS: for reads at random places, and mapped into memory. It is the one
// place that knows which of the two a name belongs to.
package regular

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/demi-weights/demi/tensor"
)

// A Tree is where names are looked up: in FS, whose names are paths with
// slashes, or in the operating system if it is nil.
type Tree struct{ FS fs.FS }

// Stat describes what has the name.
func (t Tree) Stat(name string) (fs.FileInfo, error) {
	if t.FS == nil {
		return os.Stat(name)
	}
	return fs.Stat(t.FS, name)
}

// ReadDir returns what is in a directory, by name.
func (t Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if t.FS == nil {
		return os.ReadDir(name)
	}
	return fs.ReadDir(t.FS, name)
}

// Join returns the name of a file in a directory.
func (t Tree) Join(dir, name string) string {
	if t.FS == nil {
		return filepath.Join(dir, name)
	}
	return path.Join(dir, name)
}

// Dir returns the directory that a file is in.
func (t Tree) Dir(name string) string {
	if t.FS == nil {
		return filepath.Dir(name)
	}
	return path.Dir(name)
}

// Open opens the named file, which is the caller's to close. What is not a
// regular file is a *tensor.FileError that wraps tensor.ErrUnsupported and is
// not opened at all: a pipe would wait for its writer. So is a file of an FS
// that has no ReadAt. Other errors are those of the system.
func (t Tree) Open(name string) (*File, error) {
	st, err := t.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, unsupported(name, "not a regular file (%v)", st.Mode().Type())
	}
	file, err := t.open(name)
	if err != nil {
		return nil, err
	}
	if st, err = file.Stat(); err != nil {
		file.Close()
		return nil, err
	}
	return newFile(name, file, st.Size())
}

func (t Tree) open(name string) (fs.File, error) {
	if t.FS == nil {
		return os.Open(name)
	}
	return t.FS.Open(name)
}

func unsupported(name, format string, args ...any) error {
	return &tensor.FileError{File: name, Offset: -1,
		Err: fmt.Errorf("%w: %s", tensor.ErrUnsupported, fmt.Sprintf(format, args...))}
}

// Open is Tree.Open in the operating system; it returns the size as well.
func Open(name string) (file *File, size int64, err error) {
	if file, err = (Tree{}).Open(name); err != nil {
		return nil, 0, err
	}
	return file, file.Size(), nil
}
