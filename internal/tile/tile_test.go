package tile

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestNewBufferIsAligned(t *testing.T) {
	for n := range 300 {
		b := NewBuffer(n)
		require.Len(t, b, n)
		require.Equal(t, n, cap(b))
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Align)
	}
}

func TestSizes(t *testing.T) {
	require.EqualValues(t, 128<<10, Size(16))
	require.EqualValues(t, 256<<10, Size(32))
	require.EqualValues(t, 128<<10, Size(8))
	require.EqualValues(t, 128<<10, Size(0))
	require.EqualValues(t, 0, Count(0, 32))
	require.EqualValues(t, 1, Count(4, 32))
	require.EqualValues(t, 1, Count(256<<10, 32))
	require.EqualValues(t, 2, Count(256<<10+4, 32))
	require.EqualValues(t, 1<<46, Count(math.MaxInt64, 16))
}

func TestViewsAreTheBytes(t *testing.T) {
	b := NewBuffer(16)
	binary.NativeEndian.PutUint32(b[4:], math.Float32bits(1.5))
	require.Equal(t, float32(1.5), Float32s(b)[1])
	Uint16s(b)[0] = 0x1234
	require.Equal(t, uint16(0x1234), binary.NativeEndian.Uint16(b))
	require.Len(t, Float64s(b), 2)
	require.Empty(t, Float64s(nil))
	require.Panics(t, func() { Float32s(b[:7]) })
	require.Panics(t, func() { Float32s(b[2:6]) })
}

func TestSwap(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	swap(b, 16)
	require.Equal(t, []byte{2, 1, 4, 3, 6, 5, 8, 7}, b)
	swap(b, 32)
	require.Equal(t, []byte{3, 4, 1, 2, 7, 8, 5, 6}, b)
	swap(b, 64)
	require.Equal(t, []byte{6, 5, 8, 7, 2, 1, 4, 3}, b)
	little := NewBuffer(4)
	binary.LittleEndian.PutUint32(little, math.Float32bits(-2))
	Swap(little, 32)
	require.Equal(t, float32(-2), Float32s(little)[0])
}
