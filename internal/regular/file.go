package regular

import (
	"io"
	"io/fs"
	"os"

	"github.com/demi-weights/demi/internal/fault"
)

// A File is an open file. Its methods may be called by several goroutines at
// once; reads that come after Close fail with an error that wraps
// fs.ErrClosed, those under way end as if Close had come after them, or fail.
type File struct {
	io.ReaderAt
	closer io.Closer
	size   int64
	mapped *Mapping // nil if it is not
}

func newFile(name string, file fs.File, size int64) (*File, error) {
	switch r := file.(type) {
	case *os.File: // counts its readers itself
		return &File{ReaderAt: fault.Reader(name, r), closer: r, size: size}, nil
	case io.ReaderAt:
		c := &counted{r: r}
		c.free = file.Close
		return &File{ReaderAt: c, closer: c, size: size}, nil
	}
	file.Close()
	return nil, unsupported(name, "a checkpoint is read at random places, and files of this file system (%T) have no ReadAt", file)
}

// Size returns the bytes of the file when it was opened.
func (f *File) Size() int64 { return f.size }

// Map maps the file into memory until Close, and until nobody holds a slice of
// it. It returns nil where that cannot be done: on systems without it, for
// files that are not the operating system's, or are larger than the address
// space. It is called at most once, before the File is shared.
func (f *File) Map() *Mapping {
	if file, ok := f.ReaderAt.(*os.File); ok {
		f.mapped = newMapping(file, f.size)
	}
	return f.mapped
}

// Close closes the file. It does not wait: memory that is mapped goes when the
// last slice of it has been released.
func (f *File) Close() error {
	f.mapped.close()
	return f.closer.Close()
}

// A counted file is closed when nobody reads it any more.
type counted struct {
	lease
	r io.ReaderAt
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	return c.r.ReadAt(p, off)
}

func (c *counted) Close() error { return c.end() }
