package rawsink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/demi-weights/demi/tensor"
)

// A SetLayout says what the files of a set are. A sink keeps the SetLayout
// that it is given, which must not change.
type SetLayout struct {
	Files  []Shard
	Places []Place // of each tensor
	// Order is that in which the files take their places: a permutation of
	// their indexes. A reader that finds the last one finds all.
	Order []int
	// Last is called when all files have taken their places. If it fails they
	// are removed, so it must leave nothing behind then. It may be nil.
	Last func() error
}

// A Shard is a file of a set.
type Shard struct {
	Name   string
	Layout *Layout
}

// A Place is the index of a file in its set, and that of a tensor in the file.
type Place struct{ File, Tensor int }

// A SetPlan lays a set out, or says what its format cannot hold. It leaves its
// arguments as they are and does not keep them.
type SetPlan func([]tensor.Info, tensor.Metadata) (*SetLayout, error)

// A setSink writes several files that are of use together only.
type setSink struct {
	format  format
	plan    SetPlan
	mu      sync.RWMutex // held for writing by what begins and ends the set
	planned *SetLayout   // by Files
	keep    map[int]bool
	partial bool       // files are omitted
	set     *SetLayout // nil before Begin
	files   []*fileSink
	ended   bool
}

// NewSet returns a SetSink that writes a set of files, each of them as NewFile
// does, with the same rules for the calls. container stands before errors
// about their order.
//
// Finish checks that all files are complete before it puts any of them in its
// place. If that fails for one of them, or Last does, those that have taken
// their places are removed, for without the others they are of no use, and the
// set is given up. Other files are left alone.
func NewSet(container string, plan SetPlan) tensor.SetSink {
	return &setSink{format: format(container), plan: plan, keep: map[int]bool{}}
}

func (s *setSink) Ordered() bool { return false }

func (s *setSink) Files(infos []tensor.Info, meta tensor.Metadata) (files []tensor.SetFile, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set != nil || s.ended {
		return nil, s.format.begun()
	}
	if s.planned, err = s.plan(infos, meta); err != nil {
		return nil, err
	}
	from := 0
	for no, shard := range s.planned.Files {
		to := from
		for to < len(s.planned.Places) && s.planned.Places[to].File == no {
			to++
		}
		files = append(files, tensor.SetFile{Name: filepath.Base(shard.Name), From: from, To: to})
		from = to
	}
	return files, nil
}

func (s *setSink) Keep(file int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep[file] = true
}

func (s *setSink) Omit(file int) {
	s.Keep(file)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partial = true
}

func (s *setSink) Begin(infos []tensor.Info, meta tensor.Metadata) (err error) {
	set := s.planned
	if set == nil {
		if set, err = s.plan(infos, meta); err != nil {
			return err
		}
	}
	return s.begin(set)
}

// begin makes the staging files.
func (s *setSink) begin(set *SetLayout) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set != nil || s.ended {
		return s.format.begun()
	}
	s.set = set
	for no, shard := range set.Files {
		f := &fileSink{format: s.format, name: shard.Name}
		s.files = append(s.files, f)
		if s.keep[no] {
			f.ended, f.placed = true, true
			continue
		}
		if err := f.begin(shard.Layout); err != nil {
			s.abort()
			return err
		}
	}
	return nil
}

func (s *setSink) Write(i int, off int64, p []byte) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.set == nil || s.ended {
		return s.format.notBegun()
	}
	if i < 0 || i >= len(s.set.Places) {
		return fmt.Errorf("%s: %w", s.format, noTensor(i, len(s.set.Places)))
	}
	at := s.set.Places[i]
	return s.files[at.File].Write(at.Tensor, off, p)
}

func (s *setSink) FinishFile(file int, _ []tensor.Record) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.set == nil || s.ended {
		return s.format.notBegun()
	}
	return s.files[file].Finish(nil)
}

func (s *setSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil || s.ended {
		return s.format.notBegun()
	}
	if s.partial {
		return s.format.partial()
	}
	for _, f := range s.files {
		if err := f.whole(); err != nil && !f.placed {
			return err
		}
	}
	s.ended = true
	for n, no := range s.set.Order {
		if s.files[no].placed {
			continue
		}
		if err := s.files[no].Finish(nil); err != nil {
			return errors.Join(err, s.retreat(s.set.Order[:n]))
		}
	}
	if s.set.Last == nil {
		return nil
	}
	if err := s.set.Last(); err != nil {
		return errors.Join(err, s.retreat(s.set.Order))
	}
	return nil
}

// retreat removes the files that have taken their places.
func (s *setSink) retreat(files []int) error {
	var errs []error
	for _, no := range files {
		errs = append(errs, os.Remove(s.files[no].name))
	}
	s.abort()
	return errors.Join(errs...)
}

func (s *setSink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort()
}

func (s *setSink) abort() {
	s.ended = true
	for _, f := range s.files {
		f.Abort()
	}
}
