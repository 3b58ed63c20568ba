package ordered

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each calls work for each k in [0, n), on the given number of goroutines; on
// that of the caller if there is one. It returns the error of the lowest k that
// has one, or that of ctx, after all goroutines have ended. It costs less than
// Map, whose results have an order.
func Each(ctx context.Context, n int64, workers int, work func(k int64) error) error {
	if workers = int(min(int64(workers), n)); workers <= 1 {
		for k := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := work(k); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	r := &race{work: work, ctx: ctx}
	r.stop.Store(n)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(r.run)
	}
	wg.Wait()
	if r.err == nil {
		return ctx.Err()
	}
	return r.err
}

// A race is one run of Each.
type race struct {
	work func(k int64) error
	ctx  context.Context
	next atomic.Int64
	stop atomic.Int64 // no k from here on
	mu   sync.Mutex
	at   int64
	err  error // of at
}

func (r *race) run() {
	for r.ctx.Err() == nil {
		k := r.next.Add(1) - 1
		if k >= r.stop.Load() {
			return
		}
		if _, err := protect(func() (struct{}, error) { return struct{}{}, r.work(k) }); err != nil {
			r.fail(k, err)
		}
	}
}

// fail keeps the error of the lowest k: those before it have begun already.
func (r *race) fail(k int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || k < r.at {
		r.at, r.err = k, err
	}
	r.stop.Store(0)
}
