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

// TestRuns: the numbers of a run are done by one goroutine, one after another;
// all of them are emitted in order, within the window.
func TestRuns(t *testing.T) {
	const n, workers, window = 500, 4, 16
	run := func(i int64) int64 { return min(1+i%7, n-i) }
	var live, peak atomic.Int64
	by, last := map[int64]int{}, [workers]int64{}
	var got []int64
	err := Runs(context.Background(), n, workers, window, run,
		func(_ context.Context, worker int, i int64) (int, error) {
			peak.Store(max(peak.Load(), live.Add(1)))
			if i < last[worker] {
				t.Errorf("worker %d: %d after %d", worker, i, last[worker])
			}
			last[worker] = i
			time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
			return worker, nil
		},
		func(i int64, worker int) error {
			live.Add(-1)
			by[i] = worker
			got = append(got, i)
			return nil
		})
	require.NoError(t, err)
	require.Len(t, got, n)
	require.IsIncreasing(t, got)
	require.LessOrEqual(t, peak.Load(), int64(window))
	for first := int64(0); first < n; first += run(first) {
		for i := first; i < first+run(first); i++ {
			require.Equal(t, by[first], by[i], i)
		}
	}
}

// TestRunsEnd: after an error, and after the end of the context, the rest of a
// run is not done.
func TestRunsEnd(t *testing.T) {
	all := func(i int64) int64 { return 100 - i }
	stop := errors.New("stop")
	last := int64(0)
	err := Runs(context.Background(), 100, 1, 100, all, func(_ context.Context, _ int, i int64) (int, error) {
		if last = i; i == 7 {
			return 0, stop
		}
		return 0, nil
	}, func(int64, int) error { return nil })
	require.Equal(t, stop, err)
	require.EqualValues(t, 7, last)

	ctx, cancel := context.WithCancel(context.Background())
	err = Runs(ctx, 100, 1, 100, all, func(_ context.Context, _ int, i int64) (int, error) {
		if last = i; i == 5 {
			cancel()
		}
		return 0, nil
	}, func(int64, int) error { return nil })
	require.Equal(t, context.Canceled, err)
	require.EqualValues(t, 5, last)
}
