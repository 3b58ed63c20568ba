//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/demi-weights/demi/internal/cpu"
)

// ntMin is the size of an output, in bytes, from which the plain kernels store
// past the caches: such an output pushes everything else out of the cache and
// is not there any more when someone reads it.
const ntMin = 32 << 20

// piece is the most elements that a kernel in assembly takes at once: the
// scheduler cannot stop it, so it should be done in some 50 microseconds.
const piece = 1 << 18

// f32ToF16Arch converts a prefix of src and returns its length.
func f32ToF16Arch(dst []uint16, src []float32, m Mode) int {
	switch {
	case !cpu.HasAVX2:
		return 0
	case m.Rounding == Stochastic:
		return stochF16(dst, src, m)
	case m.Saturate || m.Flush || m.Rounding == NearestAway:
		return policyF16(dst, src, m)
	}
	return f16Plain(dst, src, m.Rounding)
}

// f32ToBF16Arch is f32ToF16Arch for BF16.
func f32ToBF16Arch(dst []uint16, src []float32, m Mode) int {
	switch {
	case !cpu.HasAVX2:
		return 0
	case m.Rounding == Stochastic:
		return stochBF16(dst, src, m)
	case m.Saturate || m.Flush:
		return policyBF16(dst, src, m)
	}
	return bf16Plain(dst, src, m.Rounding)
}

func f16Plain(dst []uint16, src []float32, r Rounding) int {
	i := 0
	if 2*len(src) >= ntMin {
		i = toLine(unsafe.Pointer(&dst[0]), 2)
		f32ToF16Generic(dst[:i], src[:i], Mode{Rounding: r})
		for ; i+piece <= len(src); i += piece {
			if cpu.HasAVX512 {
				f16Plain512NT(&dst[i], &src[i], piece, r)
			} else {
				f16Plain256NT(&dst[i], &src[i], piece, r)
			}
		}
	}
	n := i + (len(src)-i)&^7
	for ; i < n; i += piece {
		f16Plain256(&dst[i], &src[i], min(piece, n-i), r)
	}
	return n
}

func bf16Plain(dst []uint16, src []float32, r Rounding) int {
	i := 0
	if 2*len(src) >= ntMin {
		i = toLine(unsafe.Pointer(&dst[0]), 2)
		f32ToBF16Generic(dst[:i], src[:i], Mode{Rounding: r})
		for ; i+piece <= len(src); i += piece {
			if cpu.HasAVX512 {
				bf16Plain512NT(&dst[i], &src[i], piece, r)
			} else {
				bf16Plain256NT(&dst[i], &src[i], piece, r)
			}
		}
	}
	if !cpu.HasAVX512 {
		n := i + (len(src)-i)&^7
		for ; i < n; i += piece {
			bf16Plain256(&dst[i], &src[i], min(piece, n-i), r)
		}
		return n
	}
	for ; i < len(src); i += piece {
		bf16Plain512(&dst[i], &src[i], min(piece, len(src)-i), r)
	}
	return len(src)
}

// toLine returns how many elements of the given size precede the first cache
// line that begins at or after p.
func toLine(p unsafe.Pointer, size int) int { return int(-uintptr(p)&63) / size }

func f16Plain512NT(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case TowardZero:
		f16Zero512NT(d, s, n)
	case Up:
		f16Up512NT(d, s, n)
	case Down:
		f16Down512NT(d, s, n)
	default:
		f16Nearest512NT(d, s, n)
	}
}

func f16Plain256(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case TowardZero:
		f16Zero256(d, s, n)
	case Up:
		f16Up256(d, s, n)
	case Down:
		f16Down256(d, s, n)
	default:
		f16Nearest256(d, s, n)
	}
}

func f16Plain256NT(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case TowardZero:
		f16Zero256NT(d, s, n)
	case Up:
		f16Up256NT(d, s, n)
	case Down:
		f16Down256NT(d, s, n)
	default:
		f16Nearest256NT(d, s, n)
	}
}

func bf16Plain512(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case NearestAway:
		bf16Bias512(d, s, n, 0x8000)
	case TowardZero:
		bf16Bias512(d, s, n, 0)
	case Up:
		bf16BySign512(d, s, n, 0xffff, 0)
	case Down:
		bf16BySign512(d, s, n, 0, 0xffff)
	default:
		bf16Nearest512(d, s, n)
	}
}

func bf16Plain512NT(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case NearestAway:
		bf16Bias512NT(d, s, n, 0x8000)
	case TowardZero:
		bf16Bias512NT(d, s, n, 0)
	case Up:
		bf16BySign512NT(d, s, n, 0xffff, 0)
	case Down:
		bf16BySign512NT(d, s, n, 0, 0xffff)
	default:
		bf16Nearest512NT(d, s, n)
	}
}

func bf16Plain256(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case NearestAway:
		bf16Bias256(d, s, n, 0x8000)
	case TowardZero:
		bf16Bias256(d, s, n, 0)
	case Up:
		bf16Up256(d, s, n)
	case Down:
		bf16Down256(d, s, n)
	default:
		bf16Nearest256(d, s, n)
	}
}

func bf16Plain256NT(d *uint16, s *float32, n int, r Rounding) {
	switch r {
	case NearestAway:
		bf16Bias256NT(d, s, n, 0x8000)
	case TowardZero:
		bf16Bias256NT(d, s, n, 0)
	case Up:
		bf16Up256NT(d, s, n)
	case Down:
		bf16Down256NT(d, s, n)
	default:
		bf16Nearest256NT(d, s, n)
	}
}

//go:noescape
func f16Nearest512NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Down512NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Up512NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Zero512NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Nearest256(dst *uint16, src *float32, n int)

//go:noescape
func f16Nearest256NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Down256(dst *uint16, src *float32, n int)

//go:noescape
func f16Down256NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Up256(dst *uint16, src *float32, n int)

//go:noescape
func f16Up256NT(dst *uint16, src *float32, n int)

//go:noescape
func f16Zero256(dst *uint16, src *float32, n int)

//go:noescape
func f16Zero256NT(dst *uint16, src *float32, n int)

//go:noescape
func bf16Nearest512(dst *uint16, src *float32, n int)

//go:noescape
func bf16Nearest512NT(dst *uint16, src *float32, n int)

//go:noescape
func bf16BySign512(dst *uint16, src *float32, n int, pos, neg uint32)

//go:noescape
func bf16BySign512NT(dst *uint16, src *float32, n int, pos, neg uint32)

//go:noescape
func bf16Bias512(dst *uint16, src *float32, n int, bias uint32)

//go:noescape
func bf16Bias512NT(dst *uint16, src *float32, n int, bias uint32)

//go:noescape
func bf16Nearest256(dst *uint16, src *float32, n int)

//go:noescape
func bf16Nearest256NT(dst *uint16, src *float32, n int)

//go:noescape
func bf16Up256(dst *uint16, src *float32, n int)

//go:noescape
func bf16Up256NT(dst *uint16, src *float32, n int)

//go:noescape
func bf16Down256(dst *uint16, src *float32, n int)

//go:noescape
func bf16Down256NT(dst *uint16, src *float32, n int)

//go:noescape
func bf16Bias256(dst *uint16, src *float32, n int, bias uint32)

//go:noescape
func bf16Bias256NT(dst *uint16, src *float32, n int, bias uint32)
