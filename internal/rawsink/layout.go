// Package rawsink writes the files of containers that lay the bytes of their
// tensors one after another behind a header: a file at random, a stream front
// to back, a set of files. What the header says is the container's.
package rawsink

import (
	"fmt"

	"github.com/demi-weights/demi/tensor"
)

// A Layout says where everything lies in a file to be written. Offsets and
// sizes are bytes; the tensors lie in the order of their numbers, without
// overlap. Bytes of the file that no tensor and not the header has are zero. A
// sink keeps the Layout that it is given, which must not change.
type Layout struct {
	Header []byte // the first bytes of the file
	Size   int64  // of the whole file
	Starts []int64
	Sizes  []int64
	Names  []string // for errors
}

// NewLayout returns the Layout of a file with these tensors, each of which
// begins at its start, from the start of the file. It keeps header and starts,
// and does not keep infos.
func NewLayout(header []byte, size int64, starts []int64, infos []tensor.Info) *Layout {
	l := &Layout{Header: header, Size: size, Starts: starts, Sizes: make([]int64, len(infos)), Names: make([]string, len(infos))}
	for i := range infos {
		l.Sizes[i], l.Names[i] = infos[i].Size, infos[i].Name
	}
	return l
}

// check says whether tensor i has n bytes at off.
func (l *Layout) check(i int, off, n int64) error {
	if i < 0 || i >= len(l.Sizes) {
		return noTensor(i, len(l.Sizes))
	}
	if size := l.Sizes[i]; off < 0 || off > size || n > size-off {
		return fmt.Errorf("write of %d bytes at %d of a tensor of %d bytes", n, off, size)
	}
	return nil
}

func noTensor(i, count int) error { return fmt.Errorf("write to tensor %d of %d", i, count) }

// missing is the error for byte off of tensor i.
func (l *Layout) missing(i int, off int64) error {
	return fmt.Errorf("byte %d of %d has not been written", off, l.Sizes[i])
}

// at names the file, and tensor i if there is one. The text of err says which
// byte of the tensor it is about.
func (l *Layout) at(file string, i int, err error) error {
	e := &tensor.FileError{File: file, Offset: -1, Err: err}
	if i >= 0 && i < len(l.Names) {
		e.Tensor = l.Names[i]
	}
	return e
}

// A Plan lays a file out, or says what its format cannot hold. Errors name the
// file, "" for a stream, which has no name. A Plan leaves its arguments as they
// are and does not keep them.
type Plan func(file string, infos []tensor.Info, meta tensor.Metadata) (*Layout, error)

// A format is the name of the container, before errors about the order of
// calls.
type format string

func (f format) begun() error    { return fmt.Errorf("%s: Begin was called before", f) }
func (f format) partial() error  { return fmt.Errorf("%s: files of the set were omitted", f) }
func (f format) notBegun() error { return fmt.Errorf("%s: not begun, or ended", f) }
