// Package crc compares the CRC-32s that containers have with the bytes that a
// pass over tensors reads anyway: tiles are summed by those who read them, the
// sums of tiles are combined, and only what no tile covers is read for its sum.
package crc

import "hash/crc32"

// A CRC is a remainder of a polynomial over GF(2), with the coefficient of x^0
// in the highest bit. That of a text is, but for constants which cancel out, the
// remainder of the text; so that of two texts is that of the first times x^(8n),
// for n bytes of the second, plus that of the second. This is the way of
// crc32_combine and crc32_combine_gen in zlib (crc32.c, Mark Adler).
const one = 1 << 31

// combine returns the CRC-32 of a text, that of its first part and that of its
// second, which is as long as shift was made for.
func combine(first, second, shift uint32) uint32 { return multiply(first, shift) ^ second }

// shiftOf returns x^(8n), by squaring.
func shiftOf(n int64) uint32 {
	product, power := uint32(one), uint32(one>>8)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			product = multiply(product, power)
		}
		power = multiply(power, power)
	}
	return product
}

// multiply returns the product of two remainders.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
