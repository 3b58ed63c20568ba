package kernels_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/demi-weights/demi/kernels"
	"github.com/x448/float16"
)

// Rounding is monotone, so all results of FP32 inputs of one sign follow from
// where each result begins: a search finds that with the reference. A run is
// inputs, as bits, from start on that have the same result.
type run struct {
	start  uint32
	result uint16
}

// runs returns what becomes of all inputs, in the order of their bits. The
// last run begins at or before 0xffffffff.
func (f format) runs(m kernels.Mode) []run {
	var rs []run
	for sign := range uint32(2) {
		top := sign << 31
		rs = append(rs, f.finite(top, m)...)
		rs = append(rs, run{top | 0x7f800000, uint16(f.narrow32(top|0x7f800000, m))})
		for b := uint32(0x7f800001); b < 1<<31; b = b&^(1<<(23-f.mant)-1) + 1<<(23-f.mant) {
			rs = append(rs, run{top | b, uint16(f.narrow32(top|b, m))})
		}
	}
	return rs
}

// finite returns the runs of the finite inputs with the sign top.
func (f format) finite(top uint32, m kernels.Mode) []run {
	var rs []run
	n := 0 // length of the last run, likely that of the next
	for b := 0; b < 0x7f800000; b += n {
		r := f.narrow32(top|uint32(b), m)
		rs = append(rs, run{top | uint32(b), uint16(r)})
		other := func(i int) bool { return b+i >= 0x7f800000 || f.narrow32(top|uint32(b+i), m) != r }
		if n == 0 || !other(n) || other(n-1) {
			n = sort.Search(0x7f800000-b, other)
		}
	}
	return rs
}

// fill writes the results of the inputs from b on.
func fill(dst []uint16, rs []run, b uint32) {
	k := sort.Search(len(rs), func(i int) bool { return rs[i].start > b }) - 1
	for i := 0; i < len(dst); k++ {
		next := int(min(uint64(len(dst)), end(rs, k)-uint64(b)))
		repeat(dst[i:next], rs[k].result)
		i = next
	}
}

func repeat(dst []uint16, v uint16) {
	if len(dst) == 0 {
		return
	}
	dst[0] = v
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// A sweep is a kernel under a mode with the results that it must have.
type sweep struct {
	kernel16
	mode     kernels.Mode
	runs     []run
	affected []bool // by chunk: whether the policies of the mode matter to it; nil without any
	spent    atomic.Int64
	bad      atomic.Int64
}

// sweeps makes one for every kernel and mode; the mode without policies comes
// before those with.
var sweeps = sync.OnceValue(func() []*sweep {
	var ss []*sweep
	var plain []run
	for _, k := range kernels16 {
		for _, m := range policies() {
			s := &sweep{kernel16: k, mode: m, runs: k.runs(m)}
			if m.Saturate || m.Flush {
				s.affected = differing(s.runs, plain)
			} else {
				plain = s.runs
			}
			ss = append(ss, s)
		}
	}
	return ss
})

// differing marks the chunks to which two lists of runs give other results.
func differing(a, b []run) []bool {
	marks := make([]bool, 1<<32/sweepChunk)
	for i, j, at := 0, 0, uint64(0); at < 1<<32; {
		next := min(end(a, i), end(b, j))
		for c := at / sweepChunk; a[i].result != b[j].result && c <= (next-1)/sweepChunk; c++ {
			marks[c] = true
		}
		if at = next; end(a, i) == at {
			i++
		}
		if end(b, j) == at {
			j++
		}
	}
	return marks
}

// end returns the first input after run i.
func end(rs []run, i int) uint64 {
	if i+1 < len(rs) {
		return uint64(rs[i+1].start)
	}
	return 1 << 32
}

func (s *sweep) String() string { return s.name + " " + modeName(s.mode) }

const sweepChunk = 1 << 16

type sweepBuffers struct {
	src       []float32
	want, got []uint16
}

// check converts chunk n of all inputs and compares.
func (s *sweep) check(t *testing.T, w *sweepBuffers, n int) {
	if s.affected != nil && !s.affected[n] && n%32 != 0 {
		return
	}
	began := time.Now()
	defer func() { s.spent.Add(int64(time.Since(began))) }()
	fill(w.want, s.runs, uint32(n*sweepChunk))
	s.narrow(w.got, w.src, s.mode)
	if slices.Equal(w.got, w.want) {
		return
	}
	for i, got := range w.got {
		if got != w.want[i] && s.bad.Add(1) < 5 {
			t.Errorf("%v %#08x: %#04x, want %#04x", s, n*sweepChunk+i, got, w.want[i])
		}
	}
}

// workers runs f once on each processor.
func workers(f func()) {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(f)
	}
	wg.Wait()
}

// TestEveryFloat32 converts all 2^32 inputs in every deterministic mode; in
// modes with policies, those to which it matters and a sample of the others.
func TestEveryFloat32(t *testing.T) {
	if short() {
		t.Skip("sampled by TestSampleFloat32")
	}
	ss := sweeps()
	onEveryTier(t, func(t *testing.T) {
		var next atomic.Int64
		workers(func() {
			w := &sweepBuffers{make([]float32, sweepChunk), make([]uint16, sweepChunk), make([]uint16, sweepChunk)}
			for n := int(next.Add(1)) - 1; n < 1<<32/sweepChunk; n = int(next.Add(1)) - 1 {
				for i := range w.src {
					w.src[i] = math.Float32frombits(uint32(n*sweepChunk + i))
				}
				for _, s := range ss {
					s.check(t, w, n)
				}
			}
		})
		for _, s := range ss {
			t.Logf("%v: %.1f s of processor", s, time.Duration(s.spent.Swap(0)).Seconds())
			if n := s.bad.Swap(0); n > 0 {
				t.Errorf("%v: %d wrong", s, n)
			}
		}
	})
}

// TestSampleFloat32 converts the inputs around each place where the result
// changes, and others in between.
func TestSampleFloat32(t *testing.T) {
	for _, s := range sweeps() {
		bits := s.sample()
		want := make([]uint16, len(bits))
		for i, b := range bits {
			fill(want[i:i+1], s.runs, b)
		}
		src, got := floats32(bits), make([]uint16, len(bits))
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			onEveryTier(t, func(t *testing.T) {
				s.narrow(got, src, s.mode)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%#08x: %#04x, want %#04x", bits[i], got[i], want[i])
					}
				}
			})
		})
	}
}

func (s *sweep) sample() []uint32 {
	var bits []uint32
	stride, every := uint64(100003), 1
	if short() {
		stride, every = 1000003, 5
	}
	for i := 0; i < len(s.runs); i += every {
		r := s.runs[i]
		bits = append(bits, r.start-2, r.start-1, r.start, r.start+1)
	}
	for b := uint64(0); b < 1<<32; b += stride {
		bits = append(bits, uint32(b))
	}
	return bits
}

// TestRuns compares runs with the reference itself.
func TestRuns(t *testing.T) {
	for _, s := range sweeps() {
		var got [1]uint16
		for b := uint64(0); b < 1<<32; b += 1000003 {
			fill(got[:], s.runs, uint32(b))
			if want := s.narrow32(uint32(b), s.mode); uint32(got[0]) != want {
				t.Fatalf("%v %#08x: %#04x, want %#04x", s, b, got[0], want)
			}
		}
	}
}

// TestX448 compares the reference, and so every tier, with x448/float16 for
// all inputs.
func TestX448(t *testing.T) {
	stride := 1
	if short() {
		stride = 101
	}
	rs := fp16.runs(kernels.Mode{})
	var next atomic.Int64
	workers(func() {
		want := make([]uint16, sweepChunk)
		for n := int(next.Add(1)) - 1; n < 1<<32/sweepChunk; n = int(next.Add(1)) - 1 {
			if n%stride != 0 {
				continue
			}
			fill(want, rs, uint32(n*sweepChunk))
			for i, h := range want {
				x := math.Float32frombits(uint32(n*sweepChunk + i))
				if got := float16.Fromfloat32(x).Bits(); got != h {
					t.Errorf("%#08x: %#04x, x448 has %#04x", n*sweepChunk+i, h, got)
					return
				}
			}
		}
	})
}
