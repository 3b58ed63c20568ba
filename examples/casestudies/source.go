package main

import (
	"io"
	"sync/atomic"

	"github.com/demi-weights/demi/tensor"
)

// A weight is a tensor of an architecture: what a checkpoint says of it, to
// which class of the tables it belongs, and how its values are distributed.
type weight struct {
	name  string
	class string
	shape []int64
	law   law
}

func (w *weight) dtype() tensor.DType {
	if w.law.shape == constant {
		return tensor.I64
	}
	return tensor.F32
}

// A source is a checkpoint that lies nowhere: its values are made when they are
// read.
type source struct {
	infos []tensor.Info
	gens  []generator
	read  atomic.Int64 // bytes
}

func newSource(weights []weight) *source {
	s := &source{}
	for i := range weights {
		w := &weights[i]
		in := tensor.Info{Name: w.name, DType: w.dtype(), Shape: w.shape}
		in.Size = in.Elements() * int64(in.DType.Bits()/8)
		s.infos = append(s.infos, in)
		s.gens = append(s.gens, newGenerator(w.name, w.law))
	}
	return s
}

func (s *source) Tensors() []tensor.Info               { return s.infos }
func (s *source) Data(i int) io.ReaderAt               { return values{s, i} }
func (s *source) Meta() tensor.Metadata                { return tensor.Metadata{{Key: "format", Value: "pt"}} }
func (s *source) Place(int) (file string, begin int64) { return "synthetic", 0 }
func (s *source) Close() error                         { return nil }

// values are the bytes of one tensor.
type values struct {
	source *source
	index  int
}

func (v values) ReadAt(p []byte, off int64) (n int, err error) {
	in := &v.source.infos[v.index]
	if rest := max(0, in.Size-off); int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	width := int64(in.DType.Bits() / 8)
	first := off / width
	if lead := off - first*width; lead == 0 && int64(len(p))%width == 0 {
		v.source.gens[v.index].fill(p, first)
	} else {
		whole := make([]byte, (lead+int64(len(p))+width-1)/width*width)
		v.source.gens[v.index].fill(whole, first)
		copy(p, whole[lead:])
	}
	v.source.read.Add(int64(len(p)))
	return len(p), err
}
