// Package cast converts the bytes of values between the floating-point types.
package cast

import (
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// Values converts the values of src, of type from, into dst, of another type:
// both in the byte order of the machine and in aligned memory. m does
// not matter where the new type holds every value.
func Values(to tensor.DType, dst []byte, from tensor.DType, src []byte, m kernels.Mode) {
	cast, ok := casts[[2]tensor.DType{from, to}]
	if !ok {
		panic("cast: no cast from " + from.String() + " to " + to.String())
	}
	cast(dst, src, m)
}

var (
	f64 = tile.Float64s
	f32 = tile.Float32s
	u16 = tile.Uint16s
)

var casts = map[[2]tensor.DType]func(dst, src []byte, m kernels.Mode){
	{tensor.F64, tensor.F32}:  func(d, s []byte, m kernels.Mode) { kernels.F64ToF32(f32(d), f64(s), m) },
	{tensor.F64, tensor.F16}:  func(d, s []byte, m kernels.Mode) { kernels.F64ToF16(u16(d), f64(s), m) },
	{tensor.F64, tensor.BF16}: func(d, s []byte, m kernels.Mode) { kernels.F64ToBF16(u16(d), f64(s), m) },
	{tensor.F32, tensor.F64}:  func(d, s []byte, _ kernels.Mode) { kernels.F32ToF64(f64(d), f32(s)) },
	{tensor.F32, tensor.F16}:  func(d, s []byte, m kernels.Mode) { kernels.F32ToF16(u16(d), f32(s), m) },
	{tensor.F32, tensor.BF16}: func(d, s []byte, m kernels.Mode) { kernels.F32ToBF16(u16(d), f32(s), m) },
	{tensor.F16, tensor.F64}:  func(d, s []byte, _ kernels.Mode) { kernels.F16ToF64(f64(d), u16(s)) },
	{tensor.F16, tensor.F32}:  func(d, s []byte, _ kernels.Mode) { kernels.F16ToF32(f32(d), u16(s)) },
	{tensor.F16, tensor.BF16}: func(d, s []byte, m kernels.Mode) { kernels.F16ToBF16(u16(d), u16(s), m) },
	{tensor.BF16, tensor.F64}: func(d, s []byte, _ kernels.Mode) { kernels.BF16ToF64(f64(d), u16(s)) },
	{tensor.BF16, tensor.F32}: func(d, s []byte, _ kernels.Mode) { kernels.BF16ToF32(f32(d), u16(s)) },
	{tensor.BF16, tensor.F16}: func(d, s []byte, m kernels.Mode) { kernels.BF16ToF16(u16(d), u16(s), m) },
}
