// Package ordered runs numbered pieces of work in parallel and hands their
// results on in order.
package ordered

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// A PanicError is a panic in a piece of work, caught so that it ends the run
// as an error instead of the program.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic; Stack has where it came from.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Map calls work for each i in [0, n) on the given number of goroutines and
// calls emit for each result, in order and from the calling goroutine. At most
// window results (at least one a worker) exist at a time, from the start of
// their work to the end of their emit. worker, in [0, workers), lets work use
// memory that belongs to its goroutine.
//
// Map returns the first error in order, of work or emit, or that of ctx, after
// all goroutines have ended. Results that come after it are dropped.
func Map[R any](ctx context.Context, n int64, workers, window int,
	work func(ctx context.Context, worker int, i int64) (R, error), emit func(i int64, r R) error) error {
	return Runs(ctx, n, workers, window, func(int64) int64 { return 1 }, work, emit)
}

// Runs is Map whose goroutines take several numbers at a time, and do their work
// one after another: run(i) of them from i on, which is 1 or more, never beyond
// n, and never above window. It is called for the first number of each run.
func Runs[R any](ctx context.Context, n int64, workers, window int, run func(i int64) int64,
	work func(ctx context.Context, worker int, i int64) (R, error), emit func(i int64, r R) error) error {
	workers = max(1, workers)
	window = max(workers, window)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &mapper[R]{
		jobs:    make(chan span),
		tokens:  make(chan struct{}, window),
		results: make(chan result[R], window),
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.dispatch(ctx, n, run) })
	for w := range workers {
		wg.Go(func() {
			for s := range m.jobs {
				m.do(ctx, s, func(i int64) (R, error) { return work(ctx, w, i) })
			}
		})
	}
	err := m.collect(ctx, n, emit)
	cancel()
	wg.Wait()
	return err
}

// A span is the numbers from first up to end.
type span struct{ first, end int64 }

// do does the work of a span. After an error nobody waits for more results.
func (m *mapper[R]) do(ctx context.Context, s span, work func(i int64) (R, error)) {
	for i := s.first; i < s.end && ctx.Err() == nil; i++ {
		r, err := protect(func() (R, error) { return work(i) })
		m.results <- result[R]{i, r, err} // never blocks: one place a token
		if err != nil {
			return
		}
	}
}

type result[R any] struct {
	i   int64
	r   R
	err error
}

type mapper[R any] struct {
	jobs    chan span
	tokens  chan struct{}
	results chan result[R]
}

// dispatch hands out the numbers in order, each with a token.
func (m *mapper[R]) dispatch(ctx context.Context, n int64, run func(int64) int64) {
	defer close(m.jobs)
	for i := int64(0); i < n; {
		s := span{i, i + run(i)}
		for ; i < s.end; i++ {
			select {
			case m.tokens <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case m.jobs <- s:
		case <-ctx.Done():
			return
		}
	}
}

// collect puts the results in order and emits them.
func (m *mapper[R]) collect(ctx context.Context, n int64, emit func(int64, R) error) error {
	waiting := make(map[int64]result[R])
	for next := int64(0); next < n; {
		select {
		case r := <-m.results:
			waiting[r.i] = r
		case <-ctx.Done():
			return ctx.Err()
		}
		for r, ok := waiting[next]; ok; r, ok = waiting[next] {
			delete(waiting, next)
			if r.err != nil {
				return r.err
			}
			if err := emit(next, r.r); err != nil {
				return err
			}
			<-m.tokens
			next++
		}
	}
	return nil
}

func protect[R any](work func() (R, error)) (r R, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work()
}
