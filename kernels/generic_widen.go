package kernels

import (
	"math"
	"sync"
)

// f16Table returns the FP32 value of every FP16 value. A table of 256 KiB is
// faster than arithmetic in plain Go; it is made when it is first needed.
var f16Table = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for h := range t {
		t[h] = math.Float32frombits(widenF16(uint16(h)))
	}
	return t
})

// widenF16 returns the bits of h as float32.
func widenF16(h uint16) uint32 {
	a, sign := uint32(h&0x7fff), uint32(h&0x8000)<<16
	switch {
	case a > 0x7c00:
		return sign | 0x7fc00000 | a<<13
	case a == 0x7c00:
		return sign | 0x7f800000
	case a >= 0x0400:
		return sign | a<<13 + f16Rebase
	}
	return sign | math.Float32bits(float32(a)*0x1p-24)
}

// widenBF16 returns the bits of h as float32.
func widenBF16(h uint16) uint32 {
	if h&0x7fff > 0x7f80 {
		h |= 0x0040
	}
	return uint32(h) << 16
}

func f16ToF32Generic(dst []float32, src []uint16) {
	if len(src) == 0 {
		return
	}
	t := f16Table()
	dst = dst[:len(src)]
	i := 0
	for ; i+8 <= len(src); i += 8 {
		s, d := src[i:i+8:i+8], dst[i:i+8:i+8]
		d[0], d[1], d[2], d[3] = t[s[0]], t[s[1]], t[s[2]], t[s[3]]
		d[4], d[5], d[6], d[7] = t[s[4]], t[s[5]], t[s[6]], t[s[7]]
	}
	for ; i < len(src); i++ {
		dst[i] = t[src[i]]
	}
}

func bf16ToF32Generic(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		f := math.Float32frombits(uint32(h) << 16)
		if f != f {
			f = math.Float32frombits(widenBF16(h))
		}
		dst[i] = f
	}
}

// f32ToF64Generic leaves numbers to the processor, which has no choice, and
// NaNs not, of which RISC-V would make one and the same.
func f32ToF64Generic(dst []float64, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		if f == f {
			dst[i] = float64(f)
		} else {
			dst[i] = math.Float64frombits(widenNaN32(math.Float32bits(f)))
		}
	}
}

// widenNaN32 returns the bits of a NaN as float64.
func widenNaN32(b uint32) uint64 {
	return uint64(b>>31)<<63 | 0x7ff8000000000000 | uint64(b&0x7fffff)<<29
}
