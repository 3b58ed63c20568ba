// Package tensor holds the nouns that every other package shares: element
// types, the description of a tensor, where tensors come from (Source) and go
// to (Sink), metadata, and the figures of a conversion as plain data.
//
// It imports the standard library only and does no work on values. Sizes are
// bytes and offsets are from the start of a file unless said otherwise; shapes
// are row-major with the slowest dimension first. Values of this package may
// be read by several goroutines at once; nothing in it locks.
package tensor

import (
	"io"
)

// An Info describes one tensor. It is not changed once a Source has given it
// out, and its Shape is not to be written to.
type Info struct {
	Name    string
	DType   DType
	Foreign Foreign // set when DType is Opaque
	Shape   []int64 // slowest dimension first; empty for a scalar
	Size    int64   // stored bytes
}

// A Foreign names an element type that only its container knows, such as a
// block-quantised one, and gives its geometry.
type Foreign struct {
	Name       string // the container's name for it, such as "Q4_K"
	ID         uint32 // the container's number for it, such as a ggml type id
	BlockElems int64  // elements a block; 0 if unknown
	BlockBytes int64  // bytes a block; 0 if unknown
}

// Elements returns the number of elements. Sources check that it fits an
// int64 before they give an Info out.
func (in Info) Elements() int64 {
	n := int64(1)
	for _, dim := range in.Shape {
		n *= dim
	}
	return n
}

// TypeName returns the name of the element type as its container spells it:
// "F32", or "Q4_K" for an opaque one.
func (in Info) TypeName() string {
	if in.DType == Opaque && in.Foreign.Name != "" {
		return in.Foreign.Name
	}
	return in.DType.String()
}

// A Source gives the tensors of one checkpoint, whatever it is stored in.
// All methods but Close may be called by several goroutines at once.
type Source interface {
	// Tensors returns the tensors in file order. The slice belongs to the
	// Source and is not to be changed.
	Tensors() []Info
	// Data returns a reader of the stored bytes of tensor i: little-endian,
	// row-major, Info.Size of them. The reader is safe for concurrent use.
	Data(i int) io.ReaderAt
	// Meta returns the metadata in file order.
	Meta() Metadata
	// Place tells where the data of tensor i lies, for errors and alignment
	// tables.
	Place(i int) (file string, offset int64)
	// Close frees what the Source holds. Reads that come later fail.
	Close() error
}

// A Sink takes the tensors of one checkpoint: Begin, then Write until every
// byte of every tensor has come once, then Finish. Abort ends it early, at
// any time, and leaves nothing behind; after Finish it does nothing.
type Sink interface {
	// Begin fixes the layout: the tensors in their final order, with their
	// final types and sizes. Everything that the format cannot hold is
	// refused here, before a byte is written.
	Begin([]Info, Metadata) error
	// Write stores p at offset off of tensor i. If Ordered is false it may
	// be called by several goroutines at once and in any order; else the
	// bytes come one after another, in the order of Begin. p belongs to the
	// caller again after the call.
	Write(i int, off int64, p []byte) error
	// Ordered reports whether Write must be called in order.
	Ordered() bool
	// Finish takes the records of the tensors, in the order of Begin, makes
	// the output complete and durable, and puts it in its place.
	Finish([]Record) error
	// Abort gives the output up.
	Abort()
}

// A SetSink is a Sink of several files, each of which can be finished as soon
// as its tensors are complete: a run that ends early leaves files that a later
// one need not write again.
type SetSink interface {
	Sink
	// Files tells, before Begin and with its arguments, which files there will
	// be. It writes nothing.
	Files([]Info, Metadata) ([]SetFile, error)
	// Keep says, between Files and Begin, that a file is in its place already,
	// complete. It is left as it is, and its tensors are not to be written.
	Keep(file int)
	// Omit says, between Files and Begin, that somebody else writes a file: its
	// tensors are not to be written. Such a set cannot be finished as a whole;
	// the other files can, by FinishFile.
	Omit(file int)
	// FinishFile takes the records of the tensors of a file, all of whose bytes
	// have come, makes it durable and puts it in its place. It may be called
	// while other goroutines call Write, and several times at once for several
	// files. What it has not been called for, Finish does.
	FinishFile(file int, records []Record) error
}

// A SetFile is a file of a set, with the tensors From to To-1 in the order of
// Begin.
type SetFile struct {
	Name     string // without its directory
	From, To int
}
