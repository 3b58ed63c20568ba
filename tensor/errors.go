package tensor

import (
	"errors"
	"fmt"
	"strings"
)

// The classes of error that a caller may want to tell apart with errors.Is.
var (
	// ErrFormat is bad input: the file breaks a rule of its format.
	ErrFormat = errors.New("invalid file")
	// ErrTruncated is bad input: the file ends before what it promises.
	ErrTruncated = errors.New("file is truncated")
	// ErrUnsupported is input that is well-formed, but that this version
	// cannot read, or a tensor that the output format cannot hold.
	ErrUnsupported = errors.New("not supported")
	// ErrLimit is input beyond a limit that the caller has set.
	ErrLimit = errors.New("limit exceeded")
	// ErrChanged is a source that changed while it was read.
	ErrChanged = errors.New("source changed")
)

// A FileError says where in which file an error was found. Err has the class
// and the reason.
type FileError struct {
	File   string // as it was named by the caller
	Tensor string // "" if the error is not about one tensor
	Offset int64  // byte offset in File, -1 if unknown
	Err    error
}

// Error reads "model.safetensors: tensor "a": byte 120: ...".
func (e *FileError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %q: ", e.Tensor)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "byte %d: ", e.Offset)
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }
