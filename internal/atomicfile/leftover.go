package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Leftover is what the staging of one output has in a directory: a file or a
// directory ".name.partial", a journal ".name.journal", or both.
type Leftover struct {
	Name    string // of the output, without its directory
	Partial string // path of the staging file or directory; "" if there is none
	Journal string // path of the journal; "" if there is none
	IsDir   bool   // Partial is a directory
}

// Leftovers returns what stagings have left, or are just using, in a directory,
// by name. That is told from names alone: whether a hidden file without a
// journal was made by this package is for the caller to judge.
func Leftovers(dir string) (list []Leftover, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, e := range entries {
		base, hidden := strings.CutPrefix(e.Name(), ".")
		name, partial := strings.CutSuffix(base, ".partial")
		if !partial {
			name, _ = strings.CutSuffix(base, ".journal")
		}
		if !hidden || name == base || name == "" || e.Type()&^fs.ModeDir != 0 {
			continue
		}
		if _, ok := at[name]; !ok {
			at[name], list = len(list), append(list, Leftover{Name: name})
		}
		l, path := &list[at[name]], filepath.Join(dir, e.Name())
		switch {
		case partial:
			l.Partial, l.IsDir = path, e.IsDir()
		case !e.IsDir():
			l.Journal = path
		}
	}
	return slices.DeleteFunc(list, func(l Leftover) bool { return l.Partial == "" && l.Journal == "" }), nil
}

// Busy reports whether a process is using it now.
func (l Leftover) Busy() bool {
	f, err := l.lock()
	if f != nil {
		f.Close()
	}
	return errors.Is(err, ErrBusy)
}

// lock locks the file that a process which uses l has locked: the journal or,
// without one, the staging file. The file is nil for a directory alone.
func (l Leftover) lock() (*os.File, error) {
	path := l.Journal
	if path == "" {
		path = l.Partial
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if l.Journal == "" && info.IsDir() {
		return nil, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Remove removes it, unless a process is using it: that is ErrBusy. A directory
// without a journal may be somebody else's; it is removed only if it is empty.
func (l Leftover) Remove() error {
	f, err := l.lock()
	if err != nil {
		return err
	}
	if f != nil && takeOpen {
		defer f.Close() // nobody begins to use it meanwhile
	} else if f != nil {
		f.Close()
	}
	if l.Partial != "" {
		remove := os.Remove
		if l.Journal != "" {
			remove = os.RemoveAll
		}
		if err := remove(l.Partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if l.Journal != "" {
		if err := os.Remove(l.Journal); err != nil {
			return err
		}
	}
	return SyncDir(filepath.Dir(max(l.Partial, l.Journal))) // one of them may be ""
}
