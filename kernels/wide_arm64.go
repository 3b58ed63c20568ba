//go:build !purego

package kernels

import "github.com/demi-weights/demi/internal/cpu"

// n is a multiple of 16 that is not 0.

//go:noescape
func f16Widen(dst *float32, src *uint16, n int)

//go:noescape
func bf16Widen(dst *float32, src *uint16, n int)

func f16ToF32Arch(dst []float32, src []uint16) int {
	if !cpu.HasNEON {
		return 0
	}
	n := len(src) &^ 15
	for i := 0; i < n; i += piece {
		f16Widen(&dst[i], &src[i], min(piece, n-i))
	}
	return n
}

func bf16ToF32Arch(dst []float32, src []uint16) int {
	if !cpu.HasNEON {
		return 0
	}
	n := len(src) &^ 15
	for i := 0; i < n; i += piece {
		bf16Widen(&dst[i], &src[i], min(piece, n-i))
	}
	return n
}
