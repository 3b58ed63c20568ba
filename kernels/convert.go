package kernels

// F32ToF16 rounds each value of src to FP16.
func F32ToF16(dst []uint16, src []float32, m Mode) {
	checkLen(len(dst), len(src))
	n := f32ToF16Arch(dst, src, m)
	f32ToF16Generic(dst[n:], src[n:], m.at(n))
}

// F32ToBF16 rounds each value of src to BF16.
func F32ToBF16(dst []uint16, src []float32, m Mode) {
	checkLen(len(dst), len(src))
	n := f32ToBF16Arch(dst, src, m)
	f32ToBF16Generic(dst[n:], src[n:], m.at(n))
}

// F64ToF16 rounds each value of src to FP16, once: the result is that of the
// exact value, not of its FP32 neighbour. Stochastic rounding takes 64 random
// bits an element.
func F64ToF16(dst []uint16, src []float64, m Mode) {
	checkLen(len(dst), len(src))
	f64ToF16Generic(dst, src, m)
}

// F64ToBF16 rounds each value of src to BF16, once, as F64ToF16 does.
func F64ToBF16(dst []uint16, src []float64, m Mode) {
	checkLen(len(dst), len(src))
	f64ToBF16Generic(dst, src, m)
}

// F64ToF32 rounds each value of src to FP32.
func F64ToF32(dst []float32, src []float64, m Mode) {
	checkLen(len(dst), len(src))
	f64ToF32Generic(dst, src, m)
}

// chunk is the number of elements that wait in FP32 between two 16-bit types.
const chunk = 512

// F16ToBF16 rounds each value of src to BF16: those with more than 8
// significant bits lose some. dst and src may be the same slice.
func F16ToBF16(dst, src []uint16, m Mode) {
	checkLen(len(dst), len(src))
	var wide [chunk]float32
	for i := 0; i < len(src); i += chunk {
		n := min(chunk, len(src)-i)
		F16ToF32(wide[:n], src[i:i+n])
		F32ToBF16(dst[i:i+n], wide[:n], m.at(i))
	}
}

// BF16ToF16 rounds each value of src to FP16: it may overflow, become
// subnormal or zero. dst and src may be the same slice.
func BF16ToF16(dst, src []uint16, m Mode) {
	checkLen(len(dst), len(src))
	var wide [chunk]float32
	for i := 0; i < len(src); i += chunk {
		n := min(chunk, len(src)-i)
		BF16ToF32(wide[:n], src[i:i+n])
		F32ToF16(dst[i:i+n], wide[:n], m.at(i))
	}
}

// F16ToF32 widens each value of src. It is exact, but a signalling NaN becomes
// quiet.
func F16ToF32(dst []float32, src []uint16) {
	checkLen(len(dst), len(src))
	n := f16ToF32Arch(dst, src)
	f16ToF32Generic(dst[n:], src[n:])
}

// BF16ToF32 widens each value of src. It is exact, but a signalling NaN
// becomes quiet.
func BF16ToF32(dst []float32, src []uint16) {
	checkLen(len(dst), len(src))
	n := bf16ToF32Arch(dst, src)
	bf16ToF32Generic(dst[n:], src[n:])
}

// F16ToF64 widens each value of src as F16ToF32 does.
func F16ToF64(dst []float64, src []uint16) {
	checkLen(len(dst), len(src))
	var wide [chunk]float32
	for i := 0; i < len(src); i += chunk {
		n := min(chunk, len(src)-i)
		F16ToF32(wide[:n], src[i:i+n])
		F32ToF64(dst[i:i+n], wide[:n])
	}
}

// BF16ToF64 widens each value of src as BF16ToF32 does.
func BF16ToF64(dst []float64, src []uint16) {
	checkLen(len(dst), len(src))
	var wide [chunk]float32
	for i := 0; i < len(src); i += chunk {
		n := min(chunk, len(src)-i)
		BF16ToF32(wide[:n], src[i:i+n])
		F32ToF64(dst[i:i+n], wide[:n])
	}
}

// F32ToF64 widens each value of src. It is exact, but a signalling NaN becomes
// quiet.
func F32ToF64(dst []float64, src []float32) {
	checkLen(len(dst), len(src))
	f32ToF64Generic(dst, src)
}
