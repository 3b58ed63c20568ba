package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/demi-weights/demi/tensor"
)

// Limits of gguf.cpp, and the step in which memory grows with what was read.
const (
	maxString = 1 << 30 // bytes of a key, a name or a value
	maxItems  = 1 << 30 // elements of an array
	growStep  = 64 << 10
)

// A decoder reads the header front to back and knows where it is.
type decoder struct {
	r     *bufio.Reader
	order binary.ByteOrder
	name  string // of the file, for errors
	off   int64  // of the next byte
	size  int64  // of the file
	limit int64  // of the header
	word  [8]byte
}

func newDecoder(r io.ReaderAt, size int64, o *Options) *decoder {
	src := io.NewSectionReader(r, 0, size)
	buf := int(min(max(size, 16), growStep))
	return &decoder{r: bufio.NewReaderSize(src, buf), order: binary.LittleEndian,
		name: o.Name, size: size, limit: o.maxHeader()}
}

// fail makes an error about the byte at off.
func (d *decoder) fail(off int64, class error, format string, args ...any) error {
	return &tensor.FileError{File: d.name, Offset: off, Err: fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}

func (d *decoder) left() uint64 { return uint64(d.size - d.off) }

// need checks that n more bytes are there and within the limit.
func (d *decoder) need(n uint64, what string) error {
	if n > d.left() {
		return d.fail(d.off, tensor.ErrTruncated, "%s takes %d bytes, %d are left in the file", what, n, d.left())
	}
	if d.off+int64(n) > d.limit {
		return d.fail(d.off, tensor.ErrLimit, "header is longer than %d bytes (at %s of %d bytes)", d.limit, what, n)
	}
	return nil
}

// fill reads len(p) bytes; need has been asked.
func (d *decoder) fill(p []byte) error {
	n, err := io.ReadFull(d.r, p)
	d.off += int64(n)
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.fail(d.off, tensor.ErrTruncated, "file ends here, %d bytes were expected", d.size)
	}
	return &tensor.FileError{File: d.name, Offset: d.off, Err: err}
}

// appendBytes reads n bytes onto p. Memory grows as they come.
func (d *decoder) appendBytes(p []byte, n uint64) ([]byte, error) {
	for n > 0 {
		step := int(min(n, uint64(max(growStep, len(p)))))
		p = slices.Grow(p, step)
		if err := d.fill(p[len(p) : len(p)+step]); err != nil {
			return nil, err
		}
		p = p[:len(p)+step]
		n -= uint64(step)
	}
	return p, nil
}

func (d *decoder) u32(what string) (uint32, error) {
	if err := d.need(4, what); err != nil {
		return 0, err
	}
	err := d.fill(d.word[:4])
	return d.order.Uint32(d.word[:4]), err
}

func (d *decoder) u64(what string) (uint64, error) {
	if err := d.need(8, what); err != nil {
		return 0, err
	}
	err := d.fill(d.word[:8])
	return d.order.Uint64(d.word[:8]), err
}

// length reads the length of a string and checks it.
func (d *decoder) length(what string) (uint64, error) {
	at := d.off
	n, err := d.u64("length of " + what)
	if err != nil {
		return 0, err
	}
	if n > d.left() {
		return 0, d.fail(at, tensor.ErrTruncated, "%s is said to have %d bytes, %d are left in the file", what, n, d.left())
	}
	if n > maxString {
		return 0, d.fail(at, tensor.ErrLimit, "%s has %d bytes, more than %d", what, n, maxString)
	}
	return n, d.need(n, what)
}

func (d *decoder) str(what string) (string, error) {
	n, err := d.length(what)
	if err != nil {
		return "", err
	}
	p, err := d.appendBytes(nil, n)
	return string(p), err
}
