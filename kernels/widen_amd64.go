//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/demi-weights/demi/internal/cpu"
)

// f16ToF32Arch widens a prefix of src and returns its length.
func f16ToF32Arch(dst []float32, src []uint16) int {
	if !cpu.HasAVX2 {
		return 0
	}
	i := 0
	if 4*len(src) >= ntMin {
		i = toLine(unsafe.Pointer(&dst[0]), 4)
		f16ToF32Generic(dst[:i], src[:i])
		for ; i+piece <= len(src); i += piece {
			if cpu.HasAVX512 {
				widenF16x512NT(&dst[i], &src[i], piece)
			} else {
				widenF16x256NT(&dst[i], &src[i], piece)
			}
		}
	}
	if !cpu.HasAVX512 {
		n := i + (len(src)-i)&^7
		for ; i < n; i += piece {
			widenF16x256(&dst[i], &src[i], min(piece, n-i))
		}
		return n
	}
	for ; i < len(src); i += piece {
		widenF16x512(&dst[i], &src[i], min(piece, len(src)-i))
	}
	return len(src)
}

// bf16ToF32Arch widens a prefix of src and returns its length.
func bf16ToF32Arch(dst []float32, src []uint16) int {
	if !cpu.HasAVX2 {
		return 0
	}
	i := 0
	if 4*len(src) >= ntMin {
		i = toLine(unsafe.Pointer(&dst[0]), 4)
		bf16ToF32Generic(dst[:i], src[:i])
		for ; i+piece <= len(src); i += piece {
			if cpu.HasAVX512 {
				widenBF16x512NT(&dst[i], &src[i], piece)
			} else {
				widenBF16x256NT(&dst[i], &src[i], piece)
			}
		}
	}
	if !cpu.HasAVX512 {
		n := i + (len(src)-i)&^7
		for ; i < n; i += piece {
			widenBF16x256(&dst[i], &src[i], min(piece, n-i))
		}
		return n
	}
	for ; i < len(src); i += piece {
		widenBF16x512(&dst[i], &src[i], min(piece, len(src)-i))
	}
	return len(src)
}

//go:noescape
func widenF16x512(dst *float32, src *uint16, n int)

//go:noescape
func widenF16x512NT(dst *float32, src *uint16, n int)

//go:noescape
func widenBF16x512(dst *float32, src *uint16, n int)

//go:noescape
func widenBF16x512NT(dst *float32, src *uint16, n int)

//go:noescape
func widenF16x256(dst *float32, src *uint16, n int)

//go:noescape
func widenBF16x256(dst *float32, src *uint16, n int)

//go:noescape
func widenF16x256NT(dst *float32, src *uint16, n int)

//go:noescape
func widenBF16x256NT(dst *float32, src *uint16, n int)
