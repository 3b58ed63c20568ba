package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/demi-weights/demi/kernels"
)

// A set is an amount of memory: elements of FP32, and as many of 16 bits.
type set struct {
	name         string
	elements     int // for each goroutine, a multiple of kernels.Tile
	rounds, reps int
	cached       bool
}

var sets = []set{
	{"L2", kernels.Tile, 300, 8, true},
	{"L3", 16 * kernels.Tile, 60, 2, true},
	{"DRAM", 2048 * kernels.Tile, 9, 1, false},
}

// A part is what one goroutine works on.
type part struct {
	f32, wide []float32
	h         []uint16
}

// work is a set in memory, for several goroutines.
type work struct {
	set
	parts []part
}

func newWork(s set, goroutines int) *work {
	w := &work{set: s}
	if !s.cached {
		w.elements /= goroutines
	}
	for range goroutines {
		w.parts = append(w.parts, newPart(w.elements))
	}
	return w
}

// newPart fills a part with values like weights.
func newPart(n int) part {
	p := part{make([]float32, n), make([]float32, n), make([]uint16, n)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range p.f32[:kernels.Tile] {
		p.f32[i] = float32(r.NormFloat64() * 0.02)
	}
	for i := kernels.Tile; i < n; i += kernels.Tile {
		copy(p.f32[i:], p.f32[:kernels.Tile])
	}
	kernels.F32ToF16(p.h, p.f32, kernels.Mode{})
	return p
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// measure runs all items in turns.
func (w *work) measure(items []*item) {
	for range w.rounds {
		for _, it := range items {
			limitTo(it.tier)
			it.times = append(it.times, w.pass(it))
		}
	}
	limitTo("")
}

// pass returns the time for one run of an item by all goroutines at once.
func (w *work) pass(it *item) time.Duration {
	it.run(&w.parts[0]) // brings the parts of the processor to work
	var all sync.WaitGroup
	start := time.Now()
	for i := range w.parts {
		all.Go(func() {
			for range w.reps {
				it.run(&w.parts[i])
			}
		})
	}
	all.Wait()
	return time.Since(start) / time.Duration(w.reps)
}

// speed returns GB/s of input at the 5th percentile of the times.
func (w *work) speed(it *item) float64 {
	slices.Sort(it.times)
	size := 4
	if it.wide {
		size = 2
	}
	return float64(size*w.elements*len(w.parts)) / float64(it.times[len(it.times)/20])
}

// limit returns the speed of the best copy.
func (w *work) limit(items []*item, wide bool) float64 {
	best := 0.0
	for _, it := range items {
		if it.copies != nil && it.wide == wide {
			best = max(best, w.speed(it))
		}
	}
	return best
}
