//go:build !purego

package kernels

import "github.com/demi-weights/demi/internal/cpu"

// A kernel for stochastic rounding takes whole groups of 32 elements whose
// numbers within their segment differ in no bit above this.
const stochasticBits = 17

//go:noescape
func f16Stochastic512(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)

//go:noescape
func bf16Stochastic512(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)

//go:noescape
func f16Stochastic256(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)

//go:noescape
func bf16Stochastic256(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)

// groupHead returns how many of n elements precede the first whole group.
func (m Mode) groupHead(n int) int { return min(n, int(-m.First&31)) }

// groups returns the key, the number within its segment of element i, which
// begins a group, and how many of n elements a kernel may take from there.
func (m Mode) groups(i, n int) (d draws, j uint32, length int) {
	first := m.First + int64(i)
	d.k0, d.k1 = m.Stream.keys(first >> segmentBits)
	j = uint32(first & (segment - 1))
	return d, j, min(n-i, 1<<stochasticBits-int(j&(1<<stochasticBits-1))) &^ 31
}

// stochF16 rounds a prefix and returns its length.
func stochF16(dst []uint16, src []float32, m Mode) int {
	limit, mask := m.limit(largestF16), uint32(0xffffffff)
	if m.Flush {
		mask = 0x7c007c00
	}
	i := m.groupHead(len(src))
	f32ToF16Generic(dst[:i], src[:i], m)
	for i+32 <= len(src) {
		d, j, n := m.groups(i, len(src))
		if cpu.HasAVX512 {
			f16Stochastic512(&dst[i], &src[i], n, limit, mask, d.k0, d.k1, j)
		} else {
			f16Stochastic256(&dst[i], &src[i], n, limit, mask, d.k0, d.k1, j)
		}
		i += n
	}
	return i
}

// stochBF16 is stochF16 for BF16.
func stochBF16(dst []uint16, src []float32, m Mode) int {
	limit, mask := m.limit(largestBF16), uint32(0xffffffff)
	if m.Flush {
		mask = 0x7f807f80
	}
	i := m.groupHead(len(src))
	f32ToBF16Generic(dst[:i], src[:i], m)
	for i+32 <= len(src) {
		d, j, n := m.groups(i, len(src))
		if cpu.HasAVX512 {
			bf16Stochastic512(&dst[i], &src[i], n, limit, mask, d.k0, d.k1, j)
		} else {
			bf16Stochastic256(&dst[i], &src[i], n, limit, mask, d.k0, d.k1, j)
		}
		i += n
	}
	return i
}
