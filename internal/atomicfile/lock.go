package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrBusy is an output that another process, or another part of this one, is
// writing.
var ErrBusy = errors.New("it is being written by another process")

// openLocked opens the file at path, or makes it, and locks it. The lock ends
// when the file is closed, and with the process, however it ends. What is there
// but is no regular file, or a symbolic link, is refused.
//
// If stale is true, a file that an earlier process has left is removed first;
// otherwise it is opened as it is. One with several names is never opened for
// writing: the other name may be that of a finished output.
func openLocked(path string, stale bool) (*os.File, error) {
	for range 100 {
		f, err := openFile(path)
		if err != nil {
			return nil, err
		}
		ok, err := own(f, path, stale)
		if ok {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, ErrBusy
}

// own locks f; ok is false if the file is not, or is no longer, the one at path
// to be used.
func own(f *os.File, path string, stale bool) (ok bool, err error) {
	if err := lock(f); err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file", path)
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, there) {
		return false, nil // its owner has renamed or removed it meanwhile
	}
	if err != nil {
		return false, err
	}
	if links(info) > 1 || stale && info.Size() > 0 {
		return false, os.Remove(path)
	}
	return true, nil
}
