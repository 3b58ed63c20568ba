package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/demi-weights/demi/tensor"
)

// ErrChecksum says that bytes are not those that were written: a checksum or a
// hash does not match. Such errors are tensor.ErrFormat too.
var ErrChecksum = errors.New("checksum does not match")

func classed(class error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))
}

func badChecksum(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", tensor.ErrFormat, ErrChecksum, fmt.Sprintf(format, args...))
}

// quote shortens a string of the file for an error.
func quote[T string | []byte](s T) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

var le = binary.LittleEndian

func appendStr(p []byte, s string) []byte {
	return append(le.AppendUint32(p, uint32(len(s))), s...)
}

// A cursor reads fields. After the first error, which it keeps, it gives zeros.
type cursor struct {
	file string
	what string // "index", or the section
	base int64  // of p in the file, -1 if p is not there as it is
	p    []byte // what is left
	size int    // of all
	err  error
}

func newCursor(file, what string, base int64, p []byte) *cursor {
	return &cursor{file: file, what: what, base: base, p: p, size: len(p)}
}

// at is the number of bytes that have been read.
func (c *cursor) at() int { return c.size - len(c.p) }

// fail keeps an error about the byte at of the bytes of the cursor.
func (c *cursor) fail(at int, class error, format string, args ...any) {
	if c.err != nil {
		return
	}
	e := &tensor.FileError{File: c.file, Offset: -1}
	text := fmt.Sprintf(format, args...)
	if c.base >= 0 {
		e.Offset = c.base + int64(at)
		e.Err = classed(class, "%s: %s", c.what, text)
	} else {
		e.Err = classed(class, "%s, byte %d: %s", c.what, at, text)
	}
	c.err = e
	c.p = nil
}

// bytes returns the next n bytes, which are not copied.
func (c *cursor) bytes(n uint64, what string) []byte {
	if n > uint64(len(c.p)) {
		c.fail(c.at(), tensor.ErrFormat, "%s needs %d bytes, %d are left", what, n, len(c.p))
		return nil
	}
	b := c.p[:n:n]
	c.p = c.p[n:]
	return b
}

func (c *cursor) u8(what string) byte {
	if b := c.bytes(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16(what string) uint16 {
	if b := c.bytes(2, what); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (c *cursor) u32(what string) uint32 {
	if b := c.bytes(4, what); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (c *cursor) u64(what string) uint64 {
	if b := c.bytes(8, what); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// size64 reads a number that must fit an int64.
func (c *cursor) size64(what string) int64 {
	at := c.at()
	v := c.u64(what)
	if v > math.MaxInt64 {
		c.fail(at, tensor.ErrFormat, "%s is %d, which does not fit 63 bits", what, v)
		return 0
	}
	return int64(v)
}

func (c *cursor) str(what string) string {
	return string(c.bytes(uint64(c.u32(what)), what))
}

func (c *cursor) hash(what string) (h [32]byte) {
	copy(h[:], c.bytes(32, what))
	return h
}

// count reads a number of things that take at least each bytes.
func (c *cursor) count(each int, what string) int {
	at := c.at()
	n := c.u32(what)
	if uint64(n)*uint64(each) > uint64(len(c.p)) {
		c.fail(at, tensor.ErrFormat, "%s is %d, %d bytes are left", what, n, len(c.p))
		return 0
	}
	return int(n)
}

// likely returns for how many of n things memory is taken at once: a number has
// not earned more before the things are there.
func likely(n int) int { return min(n, 1024) }

// end checks that all has been read, and returns the error of the cursor.
func (c *cursor) end() error {
	if len(c.p) > 0 {
		c.fail(c.at(), tensor.ErrFormat, "%d bytes after the last field", len(c.p))
	}
	return c.err
}
