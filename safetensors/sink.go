package safetensors

import (
	"errors"
	"io"

	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/tensor"
)

const format = "safetensors" // in the errors of sinks

// Create returns a Sink that writes the named file: into a staging file beside
// it, of its full size from Begin on, which takes the name when Finish has
// made it durable. Write may be called concurrently and in any order; every
// byte of every tensor must come once.
//
// Abort may come while other goroutines write: it waits for the writes that
// are under way, and those that come later fail.
func Create(name string, o *WriteOptions) tensor.Sink {
	return rawsink.NewFile(format, name, o.planFile)
}

// NewWriter returns a Sink that writes to w front to back, without seeking:
// the same bytes as Create. Begin writes the header. Write must be called in
// order, each call beginning where the last one ended, by one goroutine at a
// time, and Abort by the same. Abort cannot take back what w has got.
func NewWriter(w io.Writer, o *WriteOptions) tensor.Sink {
	return rawsink.NewStream(format, w, o.planFile)
}

// planFile is Plan for a sink: its errors name the file.
func (o *WriteOptions) planFile(name string, infos []tensor.Info, meta tensor.Metadata) (*rawsink.Layout, error) {
	l, err := Plan(infos, meta, o)
	if err != nil {
		return nil, inFile(name, err)
	}
	return rawsink.NewLayout(l.Header, l.Size, l.starts, infos), nil
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
