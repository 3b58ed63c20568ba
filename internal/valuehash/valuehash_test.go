package valuehash

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func hashOf(typ string, shape []int64, data []byte, cut int) string {
	r := NewRoot(typ, shape, int64(len(data)))
	for len(data) > 0 {
		n := min(cut, len(data))
		r.Add(AppendLeaves(nil, data[:n]))
		data = data[n:]
	}
	sum := r.Sum()
	return hex.EncodeToString(sum[:])
}

// The values were computed by following the package comment with the blake3
// package of the Python index.
func TestPinnedValues(t *testing.T) {
	data := make([]byte, 3*LeafSize+5)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, cut := range []int{LeafSize, 2 * LeafSize, len(data)} {
		require.Equal(t, pinnedLong, hashOf("U8", []int64{int64(len(data))}, data, cut))
	}
	require.Equal(t, pinnedScalar, hashOf("F32", nil, []byte{0, 0, 0x80, 0x3f}, LeafSize))
	require.Equal(t, pinnedEmpty, hashOf("F32", []int64{0, 3}, nil, LeafSize))
}

func TestEverythingCounts(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range []string{
		hashOf("F16", []int64{2}, []byte{1, 2, 3, 4}, LeafSize),
		hashOf("BF16", []int64{2}, []byte{1, 2, 3, 4}, LeafSize),
		hashOf("F16", []int64{2, 1}, []byte{1, 2, 3, 4}, LeafSize),
		hashOf("F16", []int64{1, 2}, []byte{1, 2, 3, 4}, LeafSize),
		hashOf("F16", []int64{2}, []byte{1, 2, 3, 5}, LeafSize),
	} {
		require.False(t, seen[h])
		seen[h] = true
	}
}
