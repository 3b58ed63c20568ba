package ordered

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCallsOnce(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 2, 7, 1000} {
		const n = 300
		var calls [n]atomic.Int64
		require.NoError(t, Each(context.Background(), n, workers, func(k int64) error {
			calls[k].Add(1)
			return nil
		}))
		for k := range calls {
			require.EqualValues(t, 1, calls[k].Load())
		}
		require.NoError(t, Each(context.Background(), 0, workers, func(int64) error { return errors.New("none") }))
	}
}

// TestEachErrors: the error is that of the lowest number, however the work is
// shared, and nothing begins long after it.
func TestEachErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first, other := errors.New("first"), errors.New("other")
	for _, workers := range []int{1, 3, 50} {
		for range 20 {
			var calls atomic.Int64
			err := Each(ctx, 1_000_000, workers, func(k int64) error {
				calls.Add(1)
				switch {
				case k == 9:
					return first
				case k > 9:
					return other
				}
				return nil
			})
			require.Equal(t, first, err)
			require.LessOrEqual(t, calls.Load(), int64(10+workers))
		}
	}
	var caught *PanicError
	require.ErrorAs(t, Each(ctx, 9, 2, func(int64) error { panic("x") }), &caught)
	require.Equal(t, "x", caught.Value)
	for _, workers := range []int{1, 3} {
		var calls atomic.Int64
		require.Equal(t, context.Canceled, Each(ctx, 1_000_000, workers, func(k int64) error {
			if calls.Add(1) == 5 {
				cancel()
			}
			return nil
		}))
		require.Less(t, calls.Load(), int64(1_000_000))
		require.Equal(t, context.Canceled, Each(ctx, 1, workers, func(int64) error { return nil }))
	}
}
