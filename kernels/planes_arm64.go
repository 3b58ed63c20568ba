//go:build !purego

package kernels

import "github.com/demi-weights/demi/internal/cpu"

// The kernels take multiples of 16 elements, not 0.

//go:noescape
func splitBF16x128(exp, low *byte, src *uint16, n int)

//go:noescape
func joinBF16x128(dst *uint16, exp, low *byte, n int)

//go:noescape
func splitF16x128(exp, low, high *byte, src *uint16, n int)

//go:noescape
func joinF16x128(dst *uint16, exp, low, high *byte, n int)

// planesPrefix returns how many of n elements the kernels do.
func planesPrefix(n int) int {
	if !cpu.HasNEON {
		return 0
	}
	return n &^ 15
}

func splitBF16Arch(exp, low []byte, src []uint16) int {
	n := planesPrefix(len(src))
	for i := 0; i < n; i += piece {
		splitBF16x128(&exp[i], &low[i], &src[i], min(piece, n-i))
	}
	return n
}

func joinBF16Arch(dst []uint16, exp, low []byte) int {
	n := planesPrefix(len(dst))
	for i := 0; i < n; i += piece {
		joinBF16x128(&dst[i], &exp[i], &low[i], min(piece, n-i))
	}
	return n
}

func splitF16Arch(exp, low, high []byte, src []uint16) int {
	n := planesPrefix(len(src))
	for i := 0; i < n; i += piece {
		splitF16x128(&exp[i], &low[i], &high[i], &src[i], min(piece, n-i))
	}
	return n
}

func joinF16Arch(dst []uint16, exp, low, high []byte) int {
	n := planesPrefix(len(dst))
	for i := 0; i < n; i += piece {
		joinF16x128(&dst[i], &exp[i], &low[i], &high[i], min(piece, n-i))
	}
	return n
}
