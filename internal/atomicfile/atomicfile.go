// Package atomicfile writes files that appear whole or not at all: bytes go to
// a staging file in the same directory, which is synced and renamed over its
// final name when they are complete.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// WriteSize is the largest number of bytes handed to the system in one call.
// Larger ones make the page cache allocate large folios, which was measured
// two to five times slower.
const WriteSize = 256 << 10

// A File is a staging file. WriteAt may be called by several goroutines at
// once; the other methods may not.
type File struct {
	f       *os.File // nil after Commit or Abort
	name    string
	taken   bool // something was at name already
	written atomic.Int64
}

// Create opens a staging file for name: ".name.partial" in the same directory,
// locked while it is open. One that a process has left which ended early is
// removed; one that is in use is ErrBusy. Nothing at name is touched before
// Commit. The permissions are those of the file that will be replaced, if there
// is one.
func Create(name string) (*File, error) {
	info, err := os.Lstat(name)
	taken := err == nil
	f, err := openLocked(beside(name, ".partial"), true)
	if err == nil && taken && info.Mode().IsRegular() {
		if err = f.Chmod(info.Mode().Perm()); err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return &File{f: f, name: name, taken: taken}, nil
}

// beside returns the name of a hidden file beside name.
func beside(name, suffix string) string {
	dir, base := filepath.Split(filepath.Clean(name))
	if len(base) > maxBase { // the end tells shards apart
		base = base[:maxBase-16] + base[len(base)-16:]
	}
	return dir + "." + base + suffix
}

// maxBase leaves room for the suffix under the usual limit of 255 bytes.
const maxBase = 200

// Name returns the final name.
func (f *File) Name() string { return f.name }

// Allocate reserves size bytes and makes the file that long, so that a full
// disk is found before the work and concurrent writes do not fragment the
// file.
func (f *File) Allocate(size int64) error {
	if f.f == nil {
		return fs.ErrClosed
	}
	if err := reserve(f.f, size); err != nil {
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
		k, err = writeAt(file, p[n:min(n+WriteSize, len(p))], off+int64(n))
		n += k
	}
	f.count(file, n)
	return n, f.named(err)
}

// Write appends p where the last Write ended.
func (f *File) Write(p []byte) (n int, err error) {
	file := f.f
	if file == nil {
		return 0, fs.ErrClosed
	}
	n, err = write(file, p)
	f.count(file, n)
	return n, f.named(err)
}

// flushEvery is the number of bytes after which the system is asked to begin
// to write: the disk works while the processor does, and Commit has less to
// wait for.
const flushEvery = 32 << 20

// count notes n bytes that have been written.
func (f *File) count(file *os.File, n int) {
	now := f.written.Add(int64(n))
	if now/flushEvery != (now-int64(n))/flushEvery {
		startFlush(file)
	}
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
// there since, such as the output of another program, is left alone, and the
// error is fs.ErrExist. After an error nothing at that name has changed and
// the staging file is gone; but where a file was replaced, and only the name is
// not known to be durable, the new one is there.
func (f *File) Commit() error {
	if f.f == nil {
		return fs.ErrClosed
	}
	file := f.f
	f.f = nil
	err := syncFile(file)
	if !takeOpen {
		err = errors.Join(err, file.Close())
	}
	if err == nil {
		err = f.take(file.Name())
	}
	if err != nil {
		os.Remove(file.Name())
	}
	if takeOpen {
		file.Close() // Sync has said what there was to say
	}
	if err != nil {
		return f.named(err)
	}
	if err = SyncDir(filepath.Dir(f.name)); err != nil && !f.taken {
		os.Remove(f.name)
	}
	return f.named(err)
}

// take renames the staging file. A hard link, unlike a rename, replaces
// nothing; where the file system has none, a look before the rename has to do.
func (f *File) take(stage string) error {
	if f.taken {
		return rename(stage, f.name)
	}
	err := link(stage, f.name)
	if err == nil {
		os.Remove(stage) // if that fails, the output is there all the same
		return nil
	}
	if _, statErr := os.Lstat(f.name); statErr == nil {
		return fs.ErrExist
	}
	return rename(stage, f.name)
}

// Publish gives the durable file stage the name, which has to be in the same
// file system. If replace is false, something that has the name already is left
// alone, and the error is fs.ErrExist.
func Publish(stage, name string, replace bool) error {
	f := &File{name: name, taken: replace}
	err := f.take(stage)
	if err == nil {
		err = SyncDir(filepath.Dir(name))
	}
	return f.named(err)
}

// Abort removes the staging file. After Commit it does nothing.
func (f *File) Abort() {
	if f.f == nil {
		return
	}
	file := f.f
	f.f = nil
	if takeOpen { // while it is locked
		os.Remove(file.Name())
	}
	file.Close()
	if !takeOpen {
		os.Remove(file.Name())
	}
}

var _ io.WriterAt = (*File)(nil)
