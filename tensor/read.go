package tensor

import (
	"errors"
	"fmt"
	"io"
)

// ReadFull fills p with the stored bytes of tensor i from offset off on. An
// error names the file, the tensor and the place in the file, by the Source if
// it does; data that end too soon are ErrTruncated.
func ReadFull(src Source, i int, p []byte, off int64) error {
	n, err := src.Data(i).ReadAt(p, off)
	if n == len(p) && (err == nil || errors.Is(err, io.EOF)) {
		return nil // an error beside all the bytes, such as a checksum, counts
	}
	if placed := (*FileError)(nil); errors.As(err, &placed) {
		return err // it knows better where
	}
	file, start := src.Place(i)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %d of %d bytes are there", ErrTruncated, n, len(p))
	}
	return &FileError{File: file, Tensor: src.Tensors()[i].Name, Offset: start + off, Err: err}
}
