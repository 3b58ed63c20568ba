// Package tile has the memory that tensors pass through: aligned buffers,
// views of their bytes as numbers, and the size of a tile. It holds the only
// unsafe code outside assembly.
package tile

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A tile is Elems elements of one tensor, or Bytes bytes where an element has
// fewer than 16 bits or no width of its own: the unit of work, of cache
// residency and of error sums. It is a whole number of Bytes either way, but
// for the last of a tensor.
const (
	Elems = 1 << 16
	Bytes = 128 << 10
)

// Size returns the bytes of a whole tile of elements of the given width in
// bits; 0 stands for a type without a width.
func Size(bitWidth int) int64 {
	if bitWidth < 16 {
		return Bytes
	}
	return Elems * int64(bitWidth) / 8
}

// Count returns the number of tiles in size bytes.
func Count(size int64, bitWidth int) int64 {
	t := Size(bitWidth)
	return size/t + min(size%t, 1)
}

// Align is the alignment of buffers: a cache line, and a vector of AVX-512.
const Align = 64

// NewBuffer returns n zero bytes that start on a multiple of Align.
func NewBuffer(n int) []byte {
	b := make([]byte, n+Align-1)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % Align
	return b[skip : int(skip)+n : int(skip)+n]
}

// Uint16s, Float32s and Float64s view bytes as numbers in the byte order of
// the machine, without copying. The length of b must be a multiple of the
// number's size and b must be aligned to it, as buffers are; they panic
// otherwise.
func Uint16s(b []byte) []uint16 { return view[uint16](b) }

// Float32s is described with Uint16s.
func Float32s(b []byte) []float32 { return view[float32](b) }

// Float64s is described with Uint16s.
func Float64s(b []byte) []float64 { return view[float64](b) }

func view[T uint16 | float32 | float64](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic("tile: bytes are not whole aligned numbers")
	}
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

// Swap changes numbers of the given width in bits between little-endian and
// the byte order of the machine, in place. On little-endian machines it does
// nothing.
func Swap(b []byte, bitWidth int) {
	if littleEndian {
		return
	}
	swap(b, bitWidth)
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func swap(b []byte, bitWidth int) {
	le := binary.LittleEndian
	switch bitWidth {
	case 16:
		for ; len(b) >= 2; b = b[2:] {
			le.PutUint16(b, bits.ReverseBytes16(le.Uint16(b)))
		}
	case 32:
		for ; len(b) >= 4; b = b[4:] {
			le.PutUint32(b, bits.ReverseBytes32(le.Uint32(b)))
		}
	case 64:
		for ; len(b) >= 8; b = b[8:] {
			le.PutUint64(b, bits.ReverseBytes64(le.Uint64(b)))
		}
	}
}
