package rawsink

import (
	"fmt"
	"io"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A streamSink writes one file front to back.
type streamSink struct {
	format format
	w      io.Writer
	plan   Plan
	layout *Layout // nil before Begin
	next   int     // tensor whose byte off comes next, if there is one
	off    int64
	pos    int64 // bytes written
	err    error // of the first write that failed, or the end
}

// NewStream returns a Sink that writes to w front to back, without seeking:
// the same bytes as NewFile, at most atomicfile.WriteSize of them in a call.
// Begin writes the header, Write the padding before a tensor and Finish that
// after the last one. container stands before errors about the order of calls.
//
// Write must be called in order, each call beginning where the last one ended,
// by one goroutine at a time, and the other methods by the same. It refuses
// other bytes with a *tensor.FileError, and so does Finish if bytes are
// missing; those that come next may still come then. An error of w stays.
// Abort cannot take back what w has got. Begin may be called again after an
// error of plan.
func NewStream(container string, w io.Writer, plan Plan) tensor.Sink {
	return &streamSink{format: format(container), w: w, plan: plan}
}

func (s *streamSink) Ordered() bool { return true }

func (s *streamSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	if s.layout != nil || s.err != nil {
		return s.format.begun()
	}
	layout, err := s.plan("", infos, meta)
	if err != nil {
		return err
	}
	s.layout = layout
	s.skip()
	return s.put(layout.Header)
}

func (s *streamSink) Write(i int, off int64, p []byte) error {
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.layout.check(i, off, int64(len(p))); err != nil {
		return s.layout.at("", i, err)
	}
	if len(p) == 0 {
		return nil
	}
	to := s.layout.Starts[i] + off
	if i != s.next || off != s.off {
		return &tensor.FileError{Tensor: s.layout.Names[i], Offset: to,
			Err: fmt.Errorf("write out of order: byte %d of the file comes next", s.pos)}
	}
	if err := s.pad(to); err != nil {
		return err
	}
	s.off += int64(len(p))
	s.skip()
	return s.put(p)
}

// skip goes on to the next tensor that lacks bytes.
func (s *streamSink) skip() {
	for s.next < len(s.layout.Sizes) && s.off == s.layout.Sizes[s.next] {
		s.next, s.off = s.next+1, 0
	}
}

// pad writes zeros up to byte to of the file.
func (s *streamSink) pad(to int64) error { return s.put(make([]byte, to-s.pos)) }

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
		return s.format.notBegun()
	}
	return nil
}

func (s *streamSink) Finish([]tensor.Record) error {
	if err := s.ready(); err != nil {
		return err
	}
	if s.next < len(s.layout.Sizes) {
		return s.layout.at("", s.next, s.layout.missing(s.next, s.off))
	}
	err := s.pad(s.layout.Size)
	if err == nil {
		s.err = s.format.notBegun()
	}
	return err
}

func (s *streamSink) Abort() { s.err = s.format.notBegun() }
