// Package regular opens files that have a size.
package regular

import (
	"fmt"
	"os"

	"github.com/demi-weights/demi/tensor"
)

// Open opens the named file and returns its size in bytes. The file is the
// caller's to close. What is not a regular file is a *tensor.FileError that
// wraps tensor.ErrUnsupported and is not opened at all: a pipe would wait for
// its writer. Other errors are those of the operating system.
func Open(name string) (file *os.File, size int64, err error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		err = fmt.Errorf("%w: not a regular file (%v)", tensor.ErrUnsupported, st.Mode().Type())
		return nil, 0, &tensor.FileError{File: name, Offset: -1, Err: err}
	}
	if file, err = os.Open(name); err != nil {
		return nil, 0, err
	}
	if st, err = file.Stat(); err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, st.Size(), nil
}
