package crc

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCombine puts the sums of two parts together, for lengths of all kinds.
func TestCombine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	for range 2000 {
		n := r.IntN(1 << r.IntN(21))
		p := text[:n]
		k := r.IntN(n + 1)
		got := combine(crc32.ChecksumIEEE(p[:k]), crc32.ChecksumIEEE(p[k:]), shiftOf(int64(n-k)))
		require.Equal(t, crc32.ChecksumIEEE(p), got, "%d and %d bytes", k, n-k)
	}
	require.Equal(t, uint32(one), shiftOf(0))
	// x^(2^32-1) is 1 for a primitive polynomial of degree 32, such as this one:
	// lengths of more than 32 bits come round.
	require.Equal(t, shiftOf(7), shiftOf(1<<32-1+7))
}
