package shardset_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

type shard struct {
	From, To int
	Size     int64
}

func sized(sizes ...int64) (infos []tensor.Info) {
	for i, n := range sizes {
		infos = append(infos, tensor.Info{Name: fmt.Sprint("t", i), Size: n})
	}
	return infos
}

func TestSplit(t *testing.T) {
	runs := func(limit int64, sizes ...int64) string {
		shards, warnings := shardset.Split[shard](sized(sizes...), limit, nil)
		var out []string
		for _, s := range shards {
			out = append(out, fmt.Sprintf("%d-%d:%d", s.From, s.To, s.Size))
		}
		return strings.Join(append(out, warnings...), " ")
	}
	require.Equal(t, "0-1:6 1-3:8 3-6:10", runs(10, 6, 6, 2, 6, 2, 2))
	require.Equal(t, `0-1:4 1-2:11 2-3:4 tensor "t1" of 11 bytes is larger than the limit of 10 for a shard`, runs(10, 4, 11, 4))
	require.Equal(t, `0-1:11 1-2:1 tensor "t0" of 11 bytes is larger than the limit of 10 for a shard`, runs(10, 11, 1))
	require.Equal(t, "0-3:12", runs(0, 4, 4, 4))
	require.Equal(t, "0-0:0", runs(10))
	require.Equal(t, "0-2:10 2-3:1", runs(10, 10, 0, 1), "no data takes no room")
	require.Equal(t, fmt.Sprintf("0-1:%d 1-2:1", math.MaxInt64), runs(0, math.MaxInt64, 1), "a sum beyond 2^63")
}

// TestSplitApart: tensors that are to be apart are, whatever the limit.
func TestSplitApart(t *testing.T) {
	of := map[string]int{"t0": 7, "t1": 7, "t2": 3, "t3": 5, "t4": 5}
	shardOf := func(name string) int { return of[name] }
	shards, _ := shardset.Split[shard](sized(1, 1, 1, 1, 1), 0, shardOf)
	require.Equal(t, []shard{{0, 2, 2}, {2, 3, 1}, {3, 5, 2}}, shards)
	shards, _ = shardset.Split[shard](sized(9, 9, 1, 1, 1), 10, shardOf)
	require.Equal(t, []shard{{0, 1, 9}, {1, 2, 9}, {2, 3, 1}, {3, 5, 2}}, shards)
	shards, _ = shardset.Split[shard](nil, 0, shardOf)
	require.Equal(t, []shard{{}}, shards)
}

// TestSplitGreedy: the runs cover all tensors in order, none is empty, none
// could have taken the next tensor, none is over the limit but for one tensor
// alone.
func TestSplitGreedy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		infos := sized(rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 30).Draw(t, "sizes")...)
		limit := rapid.Int64Range(1, 40).Draw(t, "limit")
		shards, warnings := shardset.Split[shard](infos, limit, nil)
		next, large := 0, 0
		for _, s := range shards {
			require.Equal(t, next, s.From)
			require.Less(t, s.From, s.To)
			sum := int64(0)
			for _, in := range infos[s.From:s.To] {
				sum += in.Size
			}
			require.Equal(t, sum, s.Size)
			if sum > limit {
				large++
				require.Greater(t, infos[s.From].Size, limit)
			}
			if next = s.To; next < len(infos) {
				require.Greater(t, sum+infos[next].Size, limit)
			}
		}
		require.Equal(t, len(infos), next)
		require.Len(t, warnings, large)
	})
}
