package ordered

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMapEmitsInOrderWithinWindow(t *testing.T) {
	const n, workers, window = 500, 4, 7
	var live, peak atomic.Int64
	var got []int64
	err := Map(context.Background(), n, workers, window,
		func(_ context.Context, worker int, i int64) (int64, error) {
			peak.Store(max(peak.Load(), live.Add(1)))
			if worker < 0 || worker >= workers {
				t.Errorf("worker %d", worker)
			}
			time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
			return i * i, nil
		},
		func(i, r int64) error {
			live.Add(-1)
			got = append(got, r)
			return nil
		})
	require.NoError(t, err)
	require.Len(t, got, n)
	for i, r := range got {
		require.Equal(t, int64(i*i), r)
	}
	require.LessOrEqual(t, peak.Load(), int64(window))
}

func TestMapReturnsTheFirstErrorInOrder(t *testing.T) {
	early, late := errors.New("early"), errors.New("late")
	for range 50 {
		err := Map(context.Background(), 100, 8, 8,
			func(_ context.Context, _ int, i int64) (int, error) {
				switch i {
				case 3:
					time.Sleep(time.Millisecond)
					return 0, early
				case 4:
					return 0, late
				}
				return 0, nil
			}, func(i int64, _ int) error {
				require.Less(t, i, int64(3))
				return nil
			})
		require.Equal(t, early, err)
	}
}

func TestMapEmitErrorAndCancel(t *testing.T) {
	stop := errors.New("stop")
	nothing := func(context.Context, int, int64) (int, error) { return 0, nil }
	require.Equal(t, stop, Map(context.Background(), 100, 3, 3, nothing,
		func(i int64, _ int) error {
			if i == 10 {
				return stop
			}
			return nil
		}))

	ctx, cancel := context.WithCancel(context.Background())
	err := Map(ctx, 1<<40, 2, 2, nothing, func(i int64, _ int) error {
		if i == 5 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestMapCatchesPanics(t *testing.T) {
	err := Map(context.Background(), 10, 2, 2,
		func(_ context.Context, _ int, i int64) (int, error) {
			if i == 4 {
				panic("boom")
			}
			return 0, nil
		}, func(int64, int) error { return nil })
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "boom", p.Value)
	require.Contains(t, string(p.Stack), "ordered_test")
}

func TestMapOfNothing(t *testing.T) {
	require.NoError(t, Map(context.Background(), 0, 0, 0,
		func(context.Context, int, int64) (int, error) { return 0, nil },
		func(int64, int) error { return errors.New("called") }))
}
