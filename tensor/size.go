package tensor

import (
	"fmt"
	"math"
	"math/bits"
)

// Elements returns the product of the dimensions: 1 for a shape without
// dimensions, 0 where one of them is 0. It refuses negative dimensions and a
// product, taken from left to right, that does not fit an int64.
func Elements(shape []int64) (int64, error) {
	n := uint64(1)
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("%w: shape %v has a negative dimension", ErrFormat, shape)
		}
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("%w: element count of shape %v does not fit 63 bits", ErrFormat, shape)
		}
		n = lo
	}
	return int64(n), nil
}

// ByteSize returns the stored bytes of n elements of type d. It refuses a
// count that does not fill whole bytes (sub-byte types), a size of 2^64 bits
// and more, as the reference implementation of safetensors does, and types
// without a width.
func ByteSize(d DType, n int64) (int64, error) {
	width := uint64(d.Bits())
	if width == 0 || n < 0 {
		return 0, fmt.Errorf("%w: no size for %d elements of type %v", ErrFormat, n, d)
	}
	hi, lo := bits.Mul64(uint64(n), width)
	if hi != 0 {
		return 0, fmt.Errorf("%w: byte size of %d elements of %v does not fit 63 bits", ErrFormat, n, d)
	}
	if lo%8 != 0 {
		return 0, fmt.Errorf("%w: %d elements of %v do not fill whole bytes", ErrFormat, n, d)
	}
	return int64(lo / 8), nil
}

// BlockSize returns the stored bytes of n elements kept in blocks of
// blockElems elements and blockBytes bytes. It refuses partial blocks and
// sizes that do not fit an int64.
func BlockSize(n, blockElems, blockBytes int64) (int64, error) {
	if n < 0 || blockElems <= 0 || blockBytes <= 0 || n%blockElems != 0 {
		return 0, fmt.Errorf("%w: %d elements are not whole blocks of %d", ErrFormat, n, blockElems)
	}
	hi, lo := bits.Mul64(uint64(n/blockElems), uint64(blockBytes))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, fmt.Errorf("%w: byte size of %d blocks does not fit 63 bits", ErrFormat, n/blockElems)
	}
	return int64(lo), nil
}

// AddSize returns a+b for sizes and offsets; ok is false if one is negative
// or the sum does not fit an int64.
func AddSize(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, a >= 0 && b >= 0 && sum >= 0
}

// AlignUp rounds n up to a multiple of align, a power of two; ok is false if
// that does not fit an int64.
func AlignUp(n, align int64) (up int64, ok bool) {
	up, ok = AddSize(n, align-1)
	return up &^ (align - 1), ok
}
