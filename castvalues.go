package demi

import (
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// castValues converts the values of src, of type from, into dst, of another
// type: both in the byte order of the machine and in aligned memory.
func castValues(to tensor.DType, dst []byte, from tensor.DType, src []byte, m kernels.Mode) {
	switch from {
	case tensor.F64:
		castF64(to, dst, tile.Float64s(src), m)
	case tensor.F32:
		castF32(to, dst, tile.Float32s(src), m)
	case tensor.F16:
		castF16(to, dst, tile.Uint16s(src), m)
	case tensor.BF16:
		castBF16(to, dst, tile.Uint16s(src), m)
	default:
		panic("demi: no cast from " + from.String())
	}
}

func castF64(to tensor.DType, dst []byte, src []float64, m kernels.Mode) {
	switch to {
	case tensor.F32:
		kernels.F64ToF32(tile.Float32s(dst), src, m)
	case tensor.F16:
		kernels.F64ToF16(tile.Uint16s(dst), src, m)
	case tensor.BF16:
		kernels.F64ToBF16(tile.Uint16s(dst), src, m)
	default:
		panic("demi: no cast from F64 to " + to.String())
	}
}

func castF32(to tensor.DType, dst []byte, src []float32, m kernels.Mode) {
	switch to {
	case tensor.F64:
		kernels.F32ToF64(tile.Float64s(dst), src)
	case tensor.F16:
		kernels.F32ToF16(tile.Uint16s(dst), src, m)
	case tensor.BF16:
		kernels.F32ToBF16(tile.Uint16s(dst), src, m)
	default:
		panic("demi: no cast from F32 to " + to.String())
	}
}

func castF16(to tensor.DType, dst []byte, src []uint16, m kernels.Mode) {
	switch to {
	case tensor.F64:
		kernels.F16ToF64(tile.Float64s(dst), src)
	case tensor.F32:
		kernels.F16ToF32(tile.Float32s(dst), src)
	case tensor.BF16:
		kernels.F16ToBF16(tile.Uint16s(dst), src, m)
	default:
		panic("demi: no cast from F16 to " + to.String())
	}
}

func castBF16(to tensor.DType, dst []byte, src []uint16, m kernels.Mode) {
	switch to {
	case tensor.F64:
		kernels.BF16ToF64(tile.Float64s(dst), src)
	case tensor.F32:
		kernels.BF16ToF32(tile.Float32s(dst), src)
	case tensor.F16:
		kernels.BF16ToF16(tile.Uint16s(dst), src, m)
	default:
		panic("demi: no cast from BF16 to " + to.String())
	}
}
