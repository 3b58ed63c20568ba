// Package atomicfile writes files that appear whole or not at all: bytes go to
// a staging file in the same directory, which is synced and renamed over its
// final name when they are complete.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
)

// WriteSize is the largest number of bytes handed to the system in one call.
// Larger ones make the page cache allocate large folios, which was measured
// two to five times slower.
const WriteSize = 256 << 10

// A File is a staging file. WriteAt may be called by several goroutines at
// once; the other methods may not.
type File struct {
	f     *os.File // nil after Commit or Abort
	name  string
	taken bool // something was at name already
}

// Create opens a staging file for name, in the same directory. Nothing at name
// is touched before Commit.
func Create(name string) (*File, error) {
	_, err := os.Lstat(name)
	taken := err == nil
	dir, base := filepath.Split(name)
	if len(base) > 200 { // leave room for the suffix under the usual limit of 255 bytes
		base = base[:200]
	}
	for range 100 {
		tmp := fmt.Sprintf("%s.%s.%08x.partial", dir, base, rand.Uint32())
		f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", name, err)
		}
		return &File{f: f, name: name, taken: taken}, nil
	}
	return nil, fmt.Errorf("create %s: no free name for a staging file", name)
}

// Name returns the final name.
func (f *File) Name() string { return f.name }

// Allocate reserves size bytes and makes the file that long, so that a full
// disk is found before the work and concurrent writes do not fragment the
// file.
func (f *File) Allocate(size int64) error {
	if f.f == nil {
		return fs.ErrClosed
	}
	if err := allocate(f.f, size); err != nil {
		return fmt.Errorf("reserve %d bytes for %s: %w", size, f.name, err)
	}
	return nil
}

// WriteAt writes p at off.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	file := f.f
	if file == nil {
		return 0, fs.ErrClosed
	}
	for n < len(p) && err == nil {
		var k int
		k, err = file.WriteAt(p[n:min(n+WriteSize, len(p))], off+int64(n))
		n += k
	}
	return n, f.named(err)
}

// Write appends p where the last Write ended.
func (f *File) Write(p []byte) (n int, err error) {
	if f.f == nil {
		return 0, fs.ErrClosed
	}
	n, err = f.f.Write(p)
	return n, f.named(err)
}

// named names the final file in err: the staging file's name says little.
func (f *File) named(err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("write %s: %w", f.name, err)
}

// Commit makes the bytes durable and puts them at the final name, replacing
// what was there when the staging file was created. Something that has come
// there since, such as the output of another process, is left alone, and the
// error is fs.ErrExist. After an error nothing at that name has changed and
// the staging file is gone.
func (f *File) Commit() error {
	if f.f == nil {
		return fs.ErrClosed
	}
	file := f.f
	f.f = nil
	err := file.Sync()
	err = errors.Join(err, file.Close())
	if err == nil {
		err = f.take(file.Name())
	}
	if err != nil {
		os.Remove(file.Name())
		return f.named(err)
	}
	return SyncDir(filepath.Dir(f.name))
}

// take renames the staging file. A hard link, unlike a rename, replaces
// nothing; where the file system has none, a look before the rename has to do.
func (f *File) take(stage string) error {
	if f.taken {
		return os.Rename(stage, f.name)
	}
	err := os.Link(stage, f.name)
	if err == nil {
		os.Remove(stage) // if that fails, the output is there all the same
		return nil
	}
	if _, statErr := os.Lstat(f.name); statErr == nil {
		return fs.ErrExist
	}
	return os.Rename(stage, f.name)
}

// Abort removes the staging file. After Commit it does nothing.
func (f *File) Abort() {
	if f.f == nil {
		return
	}
	file := f.f
	f.f = nil
	file.Close()
	os.Remove(file.Name())
}

// SyncDir makes the names in a directory durable, where the system can.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be opened for that
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
		err = nil // file systems without it, such as some network ones
	}
	return errors.Join(err, d.Close())
}

var _ io.WriterAt = (*File)(nil)
