package kernels

import "fmt"

// The functions below take 16-bit values apart, so that what is alike in
// neighbours lies together: the exponents, which a codec makes smaller, and
// the rest, which is close to random. Every value comes back, to the bit.

// SplitBF16 writes to exp the exponents of src and to low their signs, in the
// highest bit, and mantissas.
func SplitBF16(exp, low []byte, src []uint16) {
	checkPlanes(len(src), len(exp), len(low))
	k := splitBF16Arch(exp, low, src)
	exp, low, src = exp[k:], low[k:], src[k:]
	exp, low = exp[:len(src)], low[:len(src)]
	for i, h := range src {
		exp[i] = byte(h >> 7)
		low[i] = byte(h>>8&0x80 | h&0x7f)
	}
}

// JoinBF16 puts together what SplitBF16 took apart.
func JoinBF16(dst []uint16, exp, low []byte) {
	checkPlanes(len(dst), len(exp), len(low))
	k := joinBF16Arch(dst, exp, low)
	dst, exp, low = dst[k:], exp[k:], low[k:]
	exp, low = exp[:len(dst)], low[:len(dst)]
	for i := range dst {
		l := uint16(low[i])
		dst[i] = l&0x80<<8 | uint16(exp[i])<<7 | l&0x7f
	}
}

// SplitF16 writes to exp the exponents of src, of 5 bits, to low the lower 8
// bits of their mantissas, and to high 3 bits: their signs and the upper 2 bits
// of their mantissas.
func SplitF16(exp, low, high []byte, src []uint16) {
	checkPlanes(len(src), len(exp), len(low), len(high))
	k := splitF16Arch(exp, low, high, src)
	exp, low, high, src = exp[k:], low[k:], high[k:], src[k:]
	exp, low, high = exp[:len(src)], low[:len(src)], high[:len(src)]
	for i, h := range src {
		exp[i] = byte(h >> 10 & 0x1f)
		low[i] = byte(h)
		high[i] = byte(h>>13&4 | h>>8&3)
	}
}

// JoinF16 puts together what SplitF16 took apart. Higher bits of exp and high
// do not count.
func JoinF16(dst []uint16, exp, low, high []byte) {
	checkPlanes(len(dst), len(exp), len(low), len(high))
	k := joinF16Arch(dst, exp, low, high)
	dst, exp, low, high = dst[k:], exp[k:], low[k:], high[k:]
	exp, low, high = exp[:len(dst)], low[:len(dst)], high[:len(dst)]
	for i := range dst {
		h := uint16(high[i])
		dst[i] = h&4<<13 | uint16(exp[i]&0x1f)<<10 | h&3<<8 | uint16(low[i])
	}
}

func checkPlanes(values int, planes ...int) {
	for _, n := range planes {
		if n != values {
			panic(fmt.Sprintf("kernels: plane of %d elements for %d values", n, values))
		}
	}
}
