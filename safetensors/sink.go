package safetensors

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

var (
	errBegun    = errors.New("safetensors: Begin was called before")
	errNotBegun = errors.New("safetensors: not begun, or ended")
)

// A fileSink writes one file at random.
type fileSink struct {
	name   string
	opts   *WriteOptions
	infos  []tensor.Info
	layout *Layout
	file   *atomicfile.File // nil before Begin
	cover  *coverage
	failed atomic.Pointer[error] // the first write that failed
	mu     sync.RWMutex          // held for writing by what begins and ends the file
	ended  bool
}

// Create returns a Sink that writes the named file: into a staging file beside
// it, of its full size from Begin on, which takes the name when Finish has
// made it durable. Write may be called concurrently and in any order; every
// byte of every tensor must come once.
//
// Abort may come while other goroutines write: it waits for the writes that
// are under way, and those that come later fail.
func Create(name string, o *WriteOptions) tensor.Sink {
	return &fileSink{name: name, opts: o}
}

func (s *fileSink) Ordered() bool { return false }

func (s *fileSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	layout, err := Plan(infos, meta, s.opts)
	if err != nil {
		return inFile(s.name, err)
	}
	return s.begin(infos, layout)
}

// begin makes the staging file.
func (s *fileSink) begin(infos []tensor.Info, layout *Layout) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil || s.ended {
		return errBegun
	}
	if s.file, err = atomicfile.Create(s.name); err != nil {
		return err
	}
	s.infos, s.layout, s.cover = infos, layout, newCoverage(layout.sizes)
	if err = s.file.Allocate(layout.Size); err == nil {
		_, err = s.file.WriteAt(layout.Header, 0)
	}
	if err != nil {
		s.abort()
	}
	return err
}

func (s *fileSink) Write(i int, off int64, p []byte) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.file == nil || s.ended {
		return errNotBegun
	}
	if err := s.cover.add(i, off, int64(len(p))); err != nil {
		return s.at(i, err)
	}
	if _, err := s.file.WriteAt(p, s.layout.starts[i]+off); err != nil {
		s.failed.CompareAndSwap(nil, &err)
		return err
	}
	return nil
}

func (s *fileSink) at(i int, err error) error {
	e := &tensor.FileError{File: s.name, Offset: -1, Err: err}
	if i >= 0 && i < len(s.infos) {
		e.Tensor = s.infos[i].Name
	}
	return e
}

// complete says why the file cannot be finished.
func (s *fileSink) complete() error {
	if s.file == nil || s.ended {
		return errNotBegun
	}
	if err := s.failed.Load(); err != nil {
		return fmt.Errorf("a write has failed: %w", *err)
	}
	if i, off := s.cover.missing(); i >= 0 {
		return s.at(i, fmt.Errorf("byte %d of %d has not been written", off, s.layout.sizes[i]))
	}
	return nil
}

// whole is complete for what does not hold the lock.
func (s *fileSink) whole() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete()
}

// Finish leaves the file to Abort, or to the writes that are missing, if it
// is not complete.
func (s *fileSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.complete(); err != nil {
		return err
	}
	s.ended = true
	return s.file.Commit()
}

func (s *fileSink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort()
}

func (s *fileSink) abort() {
	s.ended = true
	if s.file != nil {
		s.file.Abort()
	}
}

// inFile names the file in each part of a Plan's error.
func inFile(name string, err error) error {
	if parts, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, part := range parts.Unwrap() {
			errs = append(errs, inFile(name, part))
		}
		return errors.Join(errs...)
	}
	if e, ok := err.(*tensor.FileError); ok && e.File == "" {
		named := *e
		named.File = name
		return &named
	}
	return err
}

// A streamSink writes one file front to back.
type streamSink struct {
	w      io.Writer
	opts   *WriteOptions
	infos  []tensor.Info
	layout *Layout
	bounds *coverage
	pos    int64 // bytes written
	err    error // of the first write that failed, or the end
}

// NewWriter returns a Sink that writes to w front to back, without seeking:
// the same bytes as Create. Begin writes the header. Write must be called in
// order, each call beginning where the last one ended, by one goroutine at a
// time, and Abort by the same. Abort cannot take back what w has got.
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
	s.infos, s.layout, s.bounds = infos, layout, newCoverage(layout.sizes)
	return s.put(layout.Header)
}

func (s *streamSink) Write(i int, off int64, p []byte) error {
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.bounds.check(i, off, int64(len(p))); err != nil || len(p) == 0 {
		return err
	}
	if to := s.layout.starts[i] + off; to != s.pos {
		return &tensor.FileError{Tensor: s.infos[i].Name, Offset: to,
			Err: fmt.Errorf("write out of order: byte %d of the file comes next", s.pos)}
	}
	return s.put(p)
}

// put writes at most atomicfile.WriteSize bytes a call.
func (s *streamSink) put(p []byte) error {
	for len(p) > 0 && s.err == nil {
		k := min(len(p), atomicfile.WriteSize)
		n, err := s.w.Write(p[:k])
		if err == nil && n < k {
			err = io.ErrShortWrite
		}
		s.pos += int64(n)
		p, s.err = p[k:], err
	}
	return s.err
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
	if s.pos != s.layout.Size {
		return classed(io.ErrUnexpectedEOF, "%d of %d bytes of the file have been written", s.pos, s.layout.Size)
	}
	s.err = errNotBegun
	return nil
}

func (s *streamSink) Abort() { s.err = errNotBegun }
