package gguf

import (
	"fmt"
	"io"

	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/tensor"
)

const format = "gguf" // in the errors of sinks

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
	return rawsink.NewFile(format, name, o.planFile)
}

// NewWriter returns a Sink that writes to w front to back, without seeking:
// the same bytes as Create. Begin writes the header. Write must be called in
// order, by one goroutine at a time, and Abort by the same. Abort cannot take
// back what w has got.
func NewWriter(w io.Writer, o *WriteOptions) tensor.Sink {
	return rawsink.NewStream(format, w, o.planFile)
}

// planFile is Plan for a sink: its errors name the file.
func (o *WriteOptions) planFile(name string, infos []tensor.Info, meta tensor.Metadata) (*rawsink.Layout, error) {
	l, err := Plan(infos, meta, o)
	if err != nil {
		return nil, inFile(name, err)
	}
	return rawsink.NewLayout(l.Header, l.Size, l.offsets, infos), nil
}

// inFile adds the name of the output, if it has one, to the errors of Plan.
func inFile(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s cannot be written: %w", name, err)
}
