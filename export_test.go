package demi

import (
	"errors"

	"github.com/demi-weights/demi/tensor"
)

// WithSource returns a Checkpoint like c that reads its tensors from src.
func WithSource(c *Checkpoint, src tensor.Source) *Checkpoint {
	with := *c
	with.src = src
	return &with
}

// ErrDied is what a Sink of Dying returns at the end.
var ErrDied = errors.New("died")

// Dying returns a Sink whose process ends when all tensors are complete: it
// does not finish and does not clean up.
func Dying(s tensor.Sink) tensor.Sink { return &dying{base(s).(*dirSink)} }

type dying struct{ *dirSink }

func (d *dying) Finish([]tensor.Record) error {
	d.ending.Wait()
	return ErrDied
}

func (d *dying) Abort() { d.dir.Leave() }
