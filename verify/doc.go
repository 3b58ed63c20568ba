// Package verify measures what a conversion cost and compares two checkpoints
// tensor by tensor, whatever they are stored in. Reports come as
// text, JSON, CSV, Markdown and HTML.
//
// The figures are those of tensor.Stats. They are defined to the bit, so the
// figures that a conversion reports and those of a later comparison of the
// same files are the same.
package verify

import (
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// Widen converts the values of b, F32, F16 or BF16 in the byte order of the
// machine and in aligned memory, to float32, which holds each of them exactly
// (a signalling NaN of 16 bits comes back quiet). dst is as long as b has
// values.
func Widen(dst []float32, d tensor.DType, b []byte) {
	switch d {
	case tensor.F32:
		copy(dst, tile.Float32s(b))
	case tensor.F16, tensor.BF16:
		widen16(dst, d, tile.Uint16s(b))
	default:
		panic("verify: no float32 for " + d.String())
	}
}

func widen16(dst []float32, d tensor.DType, h []uint16) {
	if d == tensor.F16 {
		kernels.F16ToF32(dst, h)
	} else {
		kernels.BF16ToF32(dst, h)
	}
}
