package tensor_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/tensor"
)

// TestElements: the product, or an error where it passes 63 bits on the way.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		want  int64 // -1: refused
	}{
		{nil, 1}, {[]int64{0}, 0}, {[]int64{3, 4, 5}, 60}, {[]int64{math.MaxInt64}, math.MaxInt64}, {[]int64{math.MaxInt64, 1, 1}, math.MaxInt64},
		{[]int64{0, 1 << 62, 4}, 0}, {[]int64{1 << 62, 4, 0}, -1}, {[]int64{1 << 32, 1 << 32}, -1}, {[]int64{1 << 31, 1 << 32}, -1},
		{[]int64{math.MaxInt64, 2}, -1}, {[]int64{-1}, -1}, {[]int64{-1, -1}, -1}, {[]int64{0, -1}, -1},
	} {
		got, err := tensor.Elements(c.shape)
		if c.want < 0 {
			require.ErrorIs(t, err, tensor.ErrFormat, "%v", c.shape)
			continue
		}
		require.NoError(t, err, "%v", c.shape)
		require.Equal(t, c.want, got, "%v", c.shape)
		require.Equal(t, c.want, tensor.Info{Shape: c.shape}.Elements())
	}
}

// dims draws sizes near the edges.
func dims() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(-1, 9), rapid.Int64Range(1<<31-2, 1<<32+2), rapid.Int64Range(math.MaxInt64-9, math.MaxInt64), rapid.Int64Range(0, math.MaxInt64))
}

// TestSizes compares the sizes with integers of any length.
func TestSizes(t *testing.T) {
	fits := func(n *big.Int) bool { return n.Sign() >= 0 && n.IsInt64() }
	rapid.Check(t, func(t *rapid.T) {
		n, block, bytes := dims().Draw(t, "n"), dims().Draw(t, "block"), dims().Draw(t, "bytes")
		d := tensor.DType(rapid.IntRange(0, 255).Draw(t, "type"))

		exact := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(d.Bits())))
		size, rest := new(big.Int).DivMod(exact, big.NewInt(8), new(big.Int))
		got, err := tensor.ByteSize(d, n)
		require.Equal(t, n >= 0 && d.Bits() > 0 && rest.Sign() == 0 && exact.IsUint64(), err == nil, "%v", err)
		require.True(t, err != nil || got == size.Int64())

		got, err = tensor.BlockSize(n, block, bytes)
		whole := n >= 0 && block > 0 && bytes > 0 && n%block == 0
		if whole {
			size.Mul(big.NewInt(n/block), big.NewInt(bytes))
		}
		require.Equal(t, whole && fits(size), err == nil, "%v", err)
		require.True(t, err != nil || got == size.Int64())

		sum, ok := tensor.AddSize(n, bytes)
		size.Add(big.NewInt(n), big.NewInt(bytes))
		require.Equal(t, n >= 0 && bytes >= 0 && fits(size), ok)
		require.True(t, !ok || sum == size.Int64())

		align := int64(1) << rapid.IntRange(0, 40).Draw(t, "align")
		up, ok := tensor.AlignUp(n, align)
		require.True(t, !ok || up >= n && up-n < align && up%align == 0)
		require.Equal(t, n >= 0 && n <= math.MaxInt64-(align-1), ok)
	})
}

func TestByteSizeErrors(t *testing.T) {
	_, err := tensor.ByteSize(tensor.F4, 3)
	require.ErrorContains(t, err, "3 elements of F4 do not fill whole bytes")
	_, err = tensor.ByteSize(tensor.Opaque, 3)
	require.ErrorContains(t, err, "no size for 3 elements of type OPAQUE")
	_, err = tensor.BlockSize(33, 32, 18)
	require.ErrorContains(t, err, "33 elements are not whole blocks of 32")
}
