package gguf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

var (
	errBegun    = errors.New("gguf: Begin was called before")
	errNotBegun = errors.New("gguf: Begin was not called, or the sink is finished")
)

// A fileSink writes one file by offset.
type fileSink struct {
	name   string
	opts   *WriteOptions
	layout *Layout
	names  []string
	mu     sync.RWMutex     // held for writing by what begins and ends the file
	file   *atomicfile.File // nil before Begin and after Finish or Abort
	begun  bool
	cover  coverage
}

// Create returns a Sink that writes the named file. Write may be called by
// several goroutines at once and in any order. The file appears at its name,
// complete and durable, when Finish returns nil; until then its bytes are in a
// staging file beside it, reserved by Begin. Everything that GGUF cannot hold
// is refused by Begin, as Plan says, before a file is made. Finish refuses an
// output in which bytes are missing; Write refuses bytes that come twice.
//
// Abort may come while other goroutines write: it waits for the writes that
// are under way, and those that come later fail.
func Create(name string, o *WriteOptions) tensor.Sink {
	return &fileSink{name: name, opts: o}
}

func (s *fileSink) Ordered() bool { return false }

func (s *fileSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return errBegun
	}
	layout, err := Plan(infos, meta, s.opts)
	if err != nil {
		return inFile(s.name, err)
	}
	return s.start(layout, infos)
}

// start makes the staging file and writes the header.
func (s *fileSink) start(layout *Layout, infos []tensor.Info) error {
	file, err := atomicfile.Create(s.name)
	if err != nil {
		return err
	}
	err = file.Allocate(layout.Size)
	if err == nil {
		_, err = file.WriteAt(layout.Header, 0)
	}
	if err != nil {
		file.Abort()
		return err
	}
	s.begun, s.file, s.layout, s.names = true, file, layout, namesOf(infos)
	s.cover.spans = make([][]span, len(infos))
	return nil
}

func (s *fileSink) Write(i int, off int64, p []byte) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.file == nil {
		return errNotBegun
	}
	if i < 0 || i >= len(s.names) {
		return fmt.Errorf("gguf: write to tensor %d of %d", i, len(s.names))
	}
	if err := s.cover.claim(i, off, int64(len(p)), s.layout.sizes[i]); err != nil {
		return s.at(i, off, err)
	}
	_, err := s.file.WriteAt(p, s.layout.offsets[i]+off)
	if err != nil {
		s.cover.fail(err)
	}
	return err
}

func (s *fileSink) at(i int, off int64, err error) error {
	return &tensor.FileError{File: s.name, Tensor: s.names[i], Offset: s.layout.offsets[i] + off, Err: err}
}

// complete checks that every byte has come.
func (s *fileSink) complete() error {
	if s.file == nil {
		return errNotBegun
	}
	if s.cover.err != nil {
		return s.cover.err
	}
	for i, size := range s.layout.sizes {
		if at := s.cover.missing(i, size); at < size {
			return s.at(i, at, fmt.Errorf("byte %d of %d was never written", at, size))
		}
	}
	return nil
}

// whole is complete for what does not hold the lock.
func (s *fileSink) whole() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete()
}

func (s *fileSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.complete(); err != nil {
		return err
	}
	file := s.file
	s.file = nil
	return file.Commit()
}

func (s *fileSink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Abort()
		s.file = nil
	}
	s.begun = true
}

// inFile adds the name of the output to the errors of Plan.
func inFile(name string, err error) error {
	return fmt.Errorf("%s cannot be written: %w", name, err)
}

func namesOf(infos []tensor.Info) []string {
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	return names
}

// A span is a range of bytes that has come.
type span struct{ from, to int64 }

// coverage remembers which bytes of each tensor have come.
type coverage struct {
	mu    sync.Mutex
	spans [][]span // of each tensor: in order, apart
	err   error    // of the first write that failed
}

func (c *coverage) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// claim adds n bytes at off of tensor i. It refuses bytes outside the tensor
// and bytes that have come before.
func (c *coverage) claim(i int, off, n, size int64) error {
	if off < 0 || off > size || n > size-off {
		return fmt.Errorf("write of %d bytes at %d of a tensor of %d bytes", n, off, size)
	}
	if n == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list, to := c.spans[i], off+n
	k, _ := slices.BinarySearchFunc(list, off, func(s span, off int64) int {
		if s.to <= off {
			return -1
		}
		return 1
	}) // list[k] is the first span that ends behind off
	if k < len(list) && list[k].from < to {
		return fmt.Errorf("write of %d bytes at %d: byte %d was written before", n, off, max(off, list[k].from))
	}
	c.spans[i] = insert(list, k, span{off, to})
	return nil
}

// insert puts s before list[k] and merges it with its neighbours.
func insert(list []span, k int, s span) []span {
	left := k > 0 && list[k-1].to == s.from
	right := k < len(list) && list[k].from == s.to
	switch {
	case left && right:
		list[k-1].to = list[k].to
		return slices.Delete(list, k, k+1)
	case left:
		list[k-1].to = s.to
	case right:
		list[k].from = s.from
	default:
		return slices.Insert(list, k, s)
	}
	return list
}

// missing returns the first byte of tensor i that has not come.
func (c *coverage) missing(i int, size int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans[i]) == 0 || c.spans[i][0].from > 0 {
		return 0
	}
	return min(c.spans[i][0].to, size)
}

// A streamSink writes one file front to back.
type streamSink struct {
	w      io.Writer
	opts   *WriteOptions
	layout *Layout
	names  []string
	pos    int64 // bytes written
	err    error // of the first write that failed, or the end
}

// NewWriter returns a Sink that writes to w front to back, without seeking:
// the same bytes as Create. Begin writes the header. Write must be called in
// order, by one goroutine at a time, and Abort by the same. Abort cannot take
// back what w has got.
func NewWriter(w io.Writer, o *WriteOptions) tensor.Sink {
	return &streamSink{w: w, opts: o}
}

func (s *streamSink) Ordered() bool { return true }

func (s *streamSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	if s.layout != nil || s.err != nil {
		return errBegun
	}
	layout, err := Plan(infos, meta, s.opts)
	if err != nil {
		return err
	}
	s.layout, s.names = layout, namesOf(infos)
	return s.put(layout.Header)
}

func (s *streamSink) Write(i int, off int64, p []byte) error {
	if err := s.ready(); err != nil {
		return err
	}
	if i < 0 || i >= len(s.names) {
		return fmt.Errorf("gguf: write to tensor %d of %d", i, len(s.names))
	}
	size := s.layout.sizes[i]
	if off < 0 || off > size || int64(len(p)) > size-off {
		return s.at(i, off, fmt.Errorf("write of %d bytes at %d of a tensor of %d bytes", len(p), off, size))
	}
	if len(p) == 0 {
		return nil
	}
	if err := s.advance(i, off); err != nil {
		return err
	}
	return s.put(p)
}

// advance writes the padding between what has come and byte off of tensor i.
// All bytes in between must be padding.
func (s *streamSink) advance(i int, off int64) error {
	to := s.layout.offsets[i] + off
	if to == s.pos {
		return nil
	}
	end := s.layout.dataEnd(i)
	if off > 0 || s.pos < end || s.pos > to {
		return s.at(i, off, fmt.Errorf("write at byte %d of the file, want byte %d: bytes are missing or come twice", to, s.pos))
	}
	return s.put(make([]byte, to-s.pos))
}

// dataEnd returns where the data of the tensors before tensor i ends.
func (l *Layout) dataEnd(i int) int64 {
	for i--; i >= 0; i-- {
		if l.sizes[i] > 0 {
			return l.offsets[i] + l.sizes[i]
		}
	}
	return int64(len(l.Header))
}

func (s *streamSink) at(i int, off int64, err error) error {
	return &tensor.FileError{Tensor: s.names[i], Offset: s.layout.offsets[i] + off, Err: err}
}

func (s *streamSink) put(p []byte) error {
	n, err := s.w.Write(p)
	s.pos += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
	return err
}

func (s *streamSink) ready() error {
	if s.err != nil {
		return s.err
	}
	if s.layout == nil {
		return errNotBegun
	}
	return nil
}

func (s *streamSink) Finish([]tensor.Record) error {
	if err := s.ready(); err != nil {
		return err
	}
	if end := s.layout.dataEnd(len(s.names)); s.pos < end {
		return fmt.Errorf("gguf: %d bytes of the file were written, the last tensor ends at %d", s.pos, end)
	}
	err := s.put(make([]byte, s.layout.Size-s.pos))
	s.err = errNotBegun
	return err
}

func (s *streamSink) Abort() { s.err = errNotBegun }
