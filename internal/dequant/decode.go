package dequant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A scratch is the memory of one read.
type scratch struct {
	p     []byte        // what is decoded
	to    []float32     // what it becomes
	of    *floatDecoder // whose scales these are, nil for nobody's
	from  int64         // the number of the first
	raw   []byte
	scale []float32
}

// grow returns n bytes of buf, which it replaces if that is too small.
func grow(buf *[]byte, n int64) []byte {
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}

// putFloats writes values, from byte skip of the first one on, as far as they
// go into p, and returns how many bytes those are.
func putFloats(p []byte, values []float32, skip int) (n int) {
	var b [4]byte
	for _, v := range values {
		if bits := math.Float32bits(v); skip == 0 && len(p)-n >= 4 {
			binary.LittleEndian.PutUint32(p[n:], bits)
			n += 4
		} else {
			binary.LittleEndian.PutUint32(b[:], bits)
			n += copy(p[n:], b[skip:])
			skip = 0
		}
	}
	return n
}

// A blockDecoder decodes blocks of a ggml type.
type blockDecoder struct{ tensor.Foreign }

// newBlockDecoder returns the decoder of a type, whose blocks a store describes
// itself: they must be those that the type has.
func newBlockDecoder(t tensor.Foreign) (decoder, error) {
	known, _ := gguf.TypeByName(t.Name)
	if t.BlockElems != known.BlockElems || t.BlockBytes != known.BlockBytes {
		return nil, fmt.Errorf("%w: %s in blocks of %d elements and %d bytes, it has %d in %d", tensor.ErrFormat, t.Name, t.BlockElems, t.BlockBytes, known.BlockElems, known.BlockBytes)
	}
	return &blockDecoder{known}, nil
}

func (d *blockDecoder) decode(src tensor.Source, i int, dst []float32, first int64, w *scratch) error {
	elems := d.BlockElems
	from, to := first/elems, (first+int64(len(dst))+elems-1)/elems
	p := grow(&w.p, (to-from)*d.BlockBytes)
	if err := tensor.ReadFull(src, i, p, from*d.BlockBytes); err != nil {
		return err
	}
	skip := first - from*elems
	if skip == 0 && int64(len(dst)) == (to-from)*elems {
		return gguf.Dequantize(d.Foreign, dst, p)
	}
	whole := make([]float32, (to-from)*elems)
	err := gguf.Dequantize(d.Foreign, whole, p)
	copy(dst, whole[skip:])
	return err
}

// A floatDecoder decodes floats of 8 bits and multiplies them by their scales,
// each product rounded to FP32 once, as PyTorch does.
type floatDecoder struct {
	table  *[256]float32
	scaled bool
	scales int // the number of the tensor that has them
	dims   []scaleDim
}

// A scaleDim is one dimension of a tensor: its length, the run of indexes that
// share a scale, and the distance of the scales of two runs.
type scaleDim struct{ length, run, stride int64 }

// setScales says which tensor of src has the scales of in.
func (d *floatDecoder) setScales(src tensor.Source, in tensor.Info, number int) (err error) {
	scale := src.Tensors()[number]
	switch scale.DType {
	case tensor.F32, tensor.F16, tensor.BF16, tensor.F8E8M0:
		d.scaled, d.scales = true, number
		d.dims, err = scaleDims(in.Shape, scale)
		return err
	}
	return fmt.Errorf("%w: its scale %q is of type %s", tensor.ErrUnsupported, scale.Name, scale.TypeName())
}

// window is how many scales are read at once.
const window = 4096

// scale returns scale number at, from w or by reading it and those that follow.
func (d *floatDecoder) scale(src tensor.Source, at int64, w *scratch) (float32, error) {
	if k := at - w.from; w.of == d && k >= 0 && k < int64(len(w.scale)) {
		return w.scale[k], nil
	}
	in := src.Tensors()[d.scales]
	n, width := min(window, in.Elements()-at), int64(in.DType.Bits()/8)
	p := grow(&w.raw, n*width)
	w.of = nil
	if err := tensor.ReadFull(src, d.scales, p, at*width); err != nil {
		return 0, err
	}
	w.scale = w.scale[:0]
	for ; len(p) > 0; p = p[width:] {
		w.scale = append(w.scale, scaleValue(in.DType, p))
	}
	w.of, w.from = d, at
	return w.scale[0], nil
}

// scaleValue returns the value at the start of p, of a type that setScales let
// pass.
func scaleValue(t tensor.DType, p []byte) float32 {
	var v [1]float32
	switch t {
	case tensor.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(p))
	case tensor.F16:
		kernels.F16ToF32(v[:], []uint16{binary.LittleEndian.Uint16(p)})
	case tensor.BF16:
		kernels.BF16ToF32(v[:], []uint16{binary.LittleEndian.Uint16(p)})
	case tensor.F8E8M0:
		return values[t][p[0]]
	}
	return v[0]
}

// scaleBlocks are the lengths of a dimension that may share a scale: those of
// DeepSeek's checkpoints, and of the microscaling formats.
var scaleBlocks = []int64{128, 32}

// scaleDims fits the shape of a scale to that of its tensor. Each dimension of
// the scale is 1, that of the tensor, or the number of its blocks of 128 or 32.
// A scale with one dimension has a value for each row.
func scaleDims(shape []int64, scale tensor.Info) ([]scaleDim, error) {
	s := scale.Shape
	if scale.Elements() == 1 {
		return nil, nil
	}
	if len(s) == 1 && len(shape) > 1 && s[0] == shape[0] { // a row, and no block of them: it could as well be one a column
		s = append([]int64{s[0]}, make([]int64, len(shape)-1)...)
		for i := range s[1:] {
			s[i+1] = 1
		}
	}
	dims := make([]scaleDim, len(shape))
	stride := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if len(s) != len(shape) {
			break
		}
		run, ok := runOf(shape[i], s[i])
		if !ok {
			s = nil
			break
		}
		dims[i] = scaleDim{shape[i], run, stride}
		stride *= s[i]
	}
	if len(s) != len(shape) {
		return nil, fmt.Errorf("%w: its scale %q of shape %v fits no known layout of a tensor of shape %v (one value, one a row, one a block of 128 or 32)",
			tensor.ErrUnsupported, scale.Name, scale.Shape, shape)
	}
	return dims, nil
}

// runOf returns how many indexes of a dimension share one of n scales.
func runOf(length, n int64) (run int64, ok bool) {
	switch n {
	case length:
		return 1, true
	case 1:
		return max(length, 1), true
	}
	for _, b := range scaleBlocks {
		if n == (length+b-1)/b {
			return b, true
		}
	}
	return 0, false
}

func (d *floatDecoder) decode(src tensor.Source, i int, dst []float32, first int64, w *scratch) error {
	p := grow(&w.p, int64(len(dst)))
	if err := tensor.ReadFull(src, i, p, first); err != nil {
		return err
	}
	for k, b := range p {
		dst[k] = d.table[b]
	}
	if !d.scaled {
		return nil
	}
	for n := int64(0); len(dst) > 0; dst, first = dst[n:], first+n {
		var at int64
		at, n = d.run(first, int64(len(dst)))
		s, err := d.scale(src, at, w)
		if err != nil {
			return err
		}
		for k := range dst[:n] {
			dst[k] *= s
		}
	}
	return nil
}

// run returns the number of the scale of an element, and how many of the n
// elements from it on share it.
func (d *floatDecoder) run(element, n int64) (at, same int64) {
	same = n
	for i := len(d.dims) - 1; i >= 0; i-- {
		dim := &d.dims[i]
		x := element % dim.length
		element /= dim.length
		at += x / dim.run * dim.stride
		if i == len(d.dims)-1 {
			same = min(same, dim.run-x%dim.run, dim.length-x)
		}
	}
	return at, same
}
