package rawsink

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A fileSink writes one file at random.
type fileSink struct {
	format format
	name   string
	plan   Plan         // nil in a set, which calls begin
	mu     sync.RWMutex // held for writing by what begins and ends the file
	layout *Layout
	file   *atomicfile.File // nil before Begin
	cover  *coverage
	failed atomic.Pointer[error] // the first write that failed
	ended  bool
	placed bool // it has its name
}

// NewFile returns a Sink that writes the named file: into a staging file
// beside it, of its full size from Begin on, which takes the name when Finish
// has made it durable. Until then nothing at that name is touched. container
// stands before errors about the order of calls.
//
// Write may be called by several goroutines at once and in any order. It
// refuses bytes that have come before or that the tensor does not have. After
// an error of the disk Finish refuses too, with the first one.
//
// Finish refuses a file that lacks bytes with a *tensor.FileError, which names
// the tensor and the first of them; they may come then. Abort waits for writes
// that are under way, and those that come later fail. Begin may be called
// again after an error of plan, but not after one of the disk.
func NewFile(container, name string, plan Plan) tensor.Sink {
	return &fileSink{format: format(container), name: name, plan: plan}
}

func (s *fileSink) Ordered() bool { return false }

func (s *fileSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	layout, err := s.plan(s.name, infos, meta)
	if err != nil {
		return err
	}
	return s.begin(layout)
}

// begin makes the staging file.
func (s *fileSink) begin(layout *Layout) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil || s.ended {
		return s.format.begun()
	}
	if s.file, err = atomicfile.Create(s.name); err != nil {
		s.ended = true
		return err
	}
	s.layout, s.cover = layout, newCoverage(len(layout.Sizes))
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
		return s.format.notBegun()
	}
	err := s.layout.check(i, off, int64(len(p)))
	if err == nil {
		err = s.cover.add(i, off, int64(len(p)))
	}
	if err != nil {
		return s.layout.at(s.name, i, err)
	}
	if _, err := s.file.WriteAt(p, s.layout.Starts[i]+off); err != nil {
		s.failed.CompareAndSwap(nil, &err)
		return err
	}
	return nil
}

// complete says why the file cannot be finished.
func (s *fileSink) complete() error {
	if s.file == nil || s.ended {
		return s.format.notBegun()
	}
	if err := s.failed.Load(); err != nil {
		return fmt.Errorf("a write has failed: %w", *err)
	}
	if i, off := s.cover.missing(s.layout.Sizes); i >= 0 {
		return s.layout.at(s.name, i, s.layout.missing(i, off))
	}
	return nil
}

// whole is complete for what does not hold the lock.
func (s *fileSink) whole() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete()
}

// Finish leaves the file to Abort, or to the writes that are missing, if it is
// not complete.
func (s *fileSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.complete(); err != nil {
		return err
	}
	s.ended = true
	err := s.file.Commit()
	s.placed = err == nil
	return err
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
