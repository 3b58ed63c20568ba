// Package fault lets tests make operations on files fail, at the place where
// the system would. Programs leave it alone, and then it does nothing.
package fault

import (
	"io"
	"io/fs"
)

// An Op is a kind of operation on a file or a directory.
type Op string

// The operations.
const (
	Open     Op = "open" // for writing
	Mkdir    Op = "mkdir"
	Reserve  Op = "fallocate"
	Truncate Op = "truncate"
	Read     Op = "read"
	Write    Op = "write"
	Sync     Op = "sync"
	Link     Op = "link"
	Rename   Op = "rename"
	Remove   Op = "remove"
)

// Ops returns all operations.
func Ops() []Op {
	return []Op{Open, Mkdir, Reserve, Truncate, Read, Write, Sync, Link, Rename, Remove}
}

// Inject, if not nil, is asked before each operation, and an error that it
// returns takes the place of the operation. It is set while nothing is under
// way, and may be called by several goroutines at once.
var Inject func(op Op, path string) error

// On returns the error that takes the place of an operation, as package os
// would; nil as a rule.
func On(op Op, path string) error {
	if Inject == nil {
		return nil
	}
	if err := Inject(op, path); err == io.EOF {
		return err
	} else if err != nil {
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return nil
}

// Reader returns r, or what asks Inject before each read if that is set.
func Reader(path string, r io.ReaderAt) io.ReaderAt {
	if Inject == nil {
		return r
	}
	return reader{path, r}
}

type reader struct {
	path string
	r    io.ReaderAt
}

func (r reader) ReadAt(p []byte, off int64) (int, error) {
	if err := On(Read, r.path); err != nil {
		return 0, err
	}
	return r.r.ReadAt(p, off)
}
