// Package dequant reads quantised tensors as FP32: floats of 8 bits times the
// scales that lie beside them, and those block-quantised types of ggml whose
// blocks need no tables. It is a tensor.Source over another one.
package dequant

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// Options of New.
type Options struct {
	// Unscaled reads an 8-bit float that has no scale as what it is. Without it
	// such a tensor is an error: there are files that hold the scale elsewhere,
	// and weights hundreds of times too large look like any others.
	Unscaled bool
}

// A Source has the tensors of another one, the quantised ones as F32. Scales
// that were multiplied in are not among them. Data is computed anew by every
// read, which costs memory of one block or row. Its methods may be called by
// several goroutines at once, as those of the source below it.
type Source struct {
	under   tensor.Source
	infos   []tensor.Info
	parts   []part
	from    map[string]string
	used    []string
	kept    []string
	scratch sync.Pool
}

var _ tensor.Summed = (*Source)(nil)

// A part is one tensor: number under in the source below.
type part struct {
	under  int
	decode decoder // nil for one that is as it was
}

// A decoder fills dst with the elements of tensor i from element first on. w is its
// memory as long as it works.
type decoder interface {
	decode(src tensor.Source, i int, dst []float32, first int64, w *scratch) error
}

// New returns a Source over src, which it closes. The error of a scale that
// fits no known layout, and of one that is missing, is tensor.ErrUnsupported in
// a *tensor.FileError, for each tensor up to ten.
func New(src tensor.Source, o Options) (*Source, error) {
	s := &Source{under: src, from: map[string]string{}}
	s.scratch.New = func() any { return &scratch{} }
	m := newMatcher(src)
	var errs []error
	for i, in := range src.Tensors() {
		d, err := m.decoder(in, o)
		if err != nil {
			file, offset := src.Place(i)
			errs = append(errs, &tensor.FileError{File: file, Tensor: in.Name, Offset: offset, Err: err})
			if len(errs) == 10 {
				break
			}
		}
		if d == nil && m.staysQuantised(in) {
			s.kept = append(s.kept, in.Name)
		}
		if err := s.add(i, in, d); err != nil {
			return nil, err
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	s.dropScales(m)
	return s, nil
}

func (s *Source) add(i int, in tensor.Info, d decoder) (err error) {
	if d != nil {
		s.from[in.Name] = in.TypeName()
		if in.Size, err = tensor.ByteSize(tensor.F32, in.Elements()); err != nil {
			return &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err}
		}
		in.DType, in.Foreign = tensor.F32, tensor.Foreign{}
	}
	s.infos, s.parts = append(s.infos, in), append(s.parts, part{i, d})
	return nil
}

// dropScales takes out the scales that have been multiplied in.
func (s *Source) dropScales(m *matcher) {
	infos, parts := s.infos[:0], s.parts[:0]
	for k, in := range s.infos {
		if m.used[in.Name] {
			s.used = append(s.used, in.Name)
			delete(s.from, in.Name)
			continue
		}
		infos, parts = append(infos, in), append(parts, s.parts[k])
	}
	s.infos, s.parts = infos, parts
}

// From returns the type that a tensor had, "" for one that is as it was.
func (s *Source) From(name string) string { return s.from[name] }

// Scales returns the names of the tensors that are not there any more, for
// their values are in others.
func (s *Source) Scales() []string { return s.used }

// Kept returns the names of quantised tensors that are as they were, for this
// package cannot decode them.
func (s *Source) Kept() []string { return s.kept }

// Under returns the source below.
func (s *Source) Under() tensor.Source { return s.under }

// Tensors returns the tensors, the quantised ones as F32.
func (s *Source) Tensors() []tensor.Info { return s.infos }

// Meta returns the metadata of the source below.
func (s *Source) Meta() tensor.Metadata { return s.under.Meta() }

// Place tells where the quantised values are.
func (s *Source) Place(i int) (file string, offset int64) { return s.under.Place(s.parts[i].under) }

// Sums returns those of the tensor and of its scales. Values that are decoded
// are not the bytes that a sum is of.
func (s *Source) Sums(i int) (sums []tensor.Sum, whole bool) {
	p := s.parts[i]
	sums, whole = tensor.Sums(s.under, p.under)
	if p.decode == nil {
		return sums, whole
	}
	if d, ok := p.decode.(*floatDecoder); ok && d.scaled {
		scales, _ := tensor.Sums(s.under, d.scales)
		sums = append(sums, scales...)
	}
	return sums, false
}

// OtherSums returns those of the source below.
func (s *Source) OtherSums() []tensor.Sum { return tensor.OtherSums(s.under) }

// Close closes the source below.
func (s *Source) Close() error { return s.under.Close() }

// Data returns a reader of tensor i.
func (s *Source) Data(i int) io.ReaderAt {
	if p := s.parts[i]; p.decode == nil {
		return s.under.Data(p.under)
	}
	return &reader{s, i}
}

type reader struct {
	s *Source
	i int
}

// step is how many elements are decoded at once.
const step = 1 << 14

// ReadAt decodes the elements that have a byte in p.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	size := r.s.infos[r.i].Size
	if off < 0 {
		return 0, fmt.Errorf("negative offset %d", off)
	}
	if off >= size {
		return 0, io.EOF
	}
	if int64(len(p)) > size-off {
		p, err = p[:size-off], io.EOF
	}
	for len(p) > 0 {
		k, errRead := r.read(p, off)
		if n, p, off = n+k, p[k:], off+int64(k); errRead != nil {
			return n, errRead
		}
	}
	return n, err
}

// read decodes up to step elements.
func (r *reader) read(p []byte, off int64) (n int, err error) {
	w := r.s.scratch.Get().(*scratch)
	defer r.s.scratch.Put(w)
	part := r.s.parts[r.i]
	first, skip := off/4, int(off%4)
	count := min((int64(skip+len(p))+3)/4, step, r.s.infos[r.i].Size/4-first)
	if w.to == nil {
		w.to = make([]float32, step)
	}
	if err := part.decode.decode(r.s.under, part.under, w.to[:count], first, w); err != nil {
		return 0, err
	}
	return putFloats(p, w.to[:count], skip), nil
}

// A matcher finds the scales of tensors by their names.
type matcher struct {
	src    tensor.Source
	number map[string]int
	used   map[string]bool
}

func newMatcher(src tensor.Source) *matcher {
	m := &matcher{src: src, number: map[string]int{}, used: map[string]bool{}}
	for i, in := range src.Tensors() {
		m.number[in.Name] = i
	}
	return m
}

// decoder returns how a tensor is decoded, nil for one that is not to be.
func (m *matcher) decoder(in tensor.Info, o Options) (decoder, error) {
	if in.DType == tensor.Opaque && gguf.CanDequantize(in.Foreign.Name) {
		return newBlockDecoder(in.Foreign)
	}
	table := values[in.DType]
	if table == nil || m.isScale(in.Name) {
		return nil, nil
	}
	if marker(in) {
		m.used[in.Name] = true
		return nil, nil
	}
	names := m.scalesOf(in.Name)
	if len(names) > 1 {
		return nil, fmt.Errorf("%w: it has more than one scale: %q", tensor.ErrUnsupported, names)
	}
	if len(names) == 0 && !o.Unscaled {
		return nil, fmt.Errorf("%w: %s without a scale (tried %s): if its values are meant as they are, ask for unscaled ones as well",
			tensor.ErrUnsupported, in.TypeName(), strings.Join(scaleNames(in.Name), ", "))
	}
	d := &floatDecoder{table: table}
	if len(names) == 0 {
		return d, nil
	}
	m.used[names[0]] = true
	return d, d.setScales(m.src, in, m.number[names[0]])
}

// staysQuantised reports whether a tensor that is not decoded is quantised:
// blocks of ggml, floats of fewer than 8 bits, integers with scales.
func (m *matcher) staysQuantised(in tensor.Info) bool {
	switch {
	case in.DType == tensor.Opaque, in.DType.IsSmallFloat() && in.DType.Bits() < 8:
		return true
	}
	return in.DType.IsInteger() && len(m.scalesOf(in.Name)) > 0
}

// marker tells the tensor by which ComfyUI knows files with scales: it has no
// values that mean anything.
func marker(in tensor.Info) bool {
	return in.Name[leaf(in.Name):] == "scaled_fp8"
}

// leaf is where the last part of a name begins: behind its module, or in a
// pipeline its component.
func leaf(name string) int { return strings.LastIndexAny(name, "./") + 1 }

// scaleNames are the names that the scale of a tensor may have: weight_scale
// (compressed-tensors, ModelOpt), weight_scale_inv (DeepSeek: it multiplies,
// whatever it is called), scale_weight (ComfyUI), weight.scale.
func scaleNames(name string) []string {
	i := leaf(name)
	return []string{name + "_scale", name + "_scale_inv", name[:i] + "scale_" + name[i:], name + ".scale"}
}

// scalesOf returns those of these names that there are.
func (m *matcher) scalesOf(name string) (names []string) {
	for _, s := range scaleNames(name) {
		if _, ok := m.number[s]; ok {
			names = append(names, s)
		}
	}
	return names
}

// isScale reports whether a tensor is the scale of a quantised one: E8M0 is a
// type for scales, and NVFP4 has them in E4M3.
func (m *matcher) isScale(name string) bool {
	return slices.ContainsFunc(scaledNames(name), func(of string) bool {
		j, ok := m.number[of]
		return ok && !m.src.Tensors()[j].DType.IsFloat()
	})
}

// scaledNames are the tensors that one of this name may be the scale of.
func scaledNames(name string) (names []string) {
	for _, suffix := range []string{"_scale", "_scale_inv", ".scale"} {
		if of, ok := strings.CutSuffix(name, suffix); ok {
			names = append(names, of)
		}
	}
	i := leaf(name)
	if of, ok := strings.CutPrefix(name[i:], "scale_"); ok {
		names = append(names, name[:i]+of)
	}
	return names
}
