package kernels

import "math"

// diceF32 rounds to FP16 or BF16, whichever n is for, by random bits.
func diceF32(dst []uint16, src []float32, n *narrower) {
	n.mode.Stream.segments(n.mode.First, len(src), func(d draws, j uint32, lo, hi int) {
		diceSegment(dst[lo:hi], src[lo:hi], n, d, j)
	})
}

// diceSegment rounds elements that lie in one segment, the first of which is
// number j of it. Two elements share a draw, so the groups of 32 that make
// all use of 16 draws are its inner loop.
func diceSegment(dst []uint16, src []float32, n *narrower, d draws, j uint32) {
	dst = dst[:len(src)]
	head := min(len(src), int(-j&31))
	diceSome(dst[:head], src[:head], n, d, j)
	i := head
	for ; i+32 <= len(src); i += 32 {
		diceGroup((*[32]uint16)(dst[i:]), (*[32]float32)(src[i:]), n, d, j+uint32(i))
	}
	diceSome(dst[i:], src[i:], n, d, j+uint32(i))
}

func diceSome(dst []uint16, src []float32, n *narrower, d draws, j uint32) {
	for i, f := range src {
		k := j + uint32(i)
		dst[i] = n.dice32(math.Float32bits(f), d.u16(k), d, k)
	}
}

func diceGroup(dst *[32]uint16, src *[32]float32, n *narrower, d draws, j uint32) {
	lo64, span64 := n.fast()
	lo, span := uint32(lo64), uint32(span64)
	low, rebase := n.low, uint32(n.rebase)
	for i := range uint32(16) {
		h := d.draw(j/2 + i)
		for k := i; k < 32; k += 16 {
			b := math.Float32bits(src[k])
			a := b &^ sign32
			if a-lo < span {
				dst[k] = uint16(b>>31<<15 | (a-rebase+h&0xffff>>(16-low))>>(low&31))
			} else {
				dst[k] = n.dice32(b, h&0xffff, d, j+k)
			}
			h >>= 16
		}
	}
}

// dice32 rounds any float32, number j of its segment, whose 16 bits are u16.
func (n *narrower) dice32(b, u16 uint32, d draws, j uint32) uint16 {
	if n.wants32(b) {
		return n.toss32(b, 0, d.u32(j))
	}
	return n.toss32(b, u16, 0)
}

// wants32 tells whether 32 bits decide and not 16: for results on the grid of
// subnormals where the source is finer the smaller it is.
func (n *narrower) wants32(b uint32) bool {
	return n.rebase != 0 && uint64(b&^sign32) < n.normal
}

// toss32 rounds a float32 by 16 random bits, or 32 if it wants them. Adding
// 16 bits carries if their complement is less than the fraction that is lost;
// of 32 bits those win that are less than the first 32 bits of it.
func (n *narrower) toss32(b, u16, u32 uint32) uint16 {
	u := uint64(u16>>(16-n.low)^(1<<n.low-1)) << (64 - n.low)
	if n.wants32(b) {
		u = uint64(u32)<<32 | 0xffffffff
	}
	sign := b >> 31
	return uint16(sign<<15) | uint16(n.narrow(uint64(b&^sign32), uint64(sign), u))
}
