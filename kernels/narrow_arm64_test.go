//go:build !purego

package kernels

import (
	"math"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

// needNEON fails where the tier is missing: every arm64 processor has it.
func needNEON(t *testing.T) {
	if !cpu.HasNEON {
		t.Fatal("no NEON")
	}
}

// armFloats returns bits of float32 that tell kernels apart: a sample of all,
// the surroundings of every value of the target (whose widened bits are wide)
// and of every midpoint, and the surroundings of every power of two.
func armFloats(stride uint32, wide []float32, half uint32) []float32 {
	var xs []float32
	put := func(b uint32) { xs = append(xs, math.Float32frombits(b)) }
	for b := uint64(0); b < 1<<32; b += uint64(stride) {
		put(uint32(b))
	}
	for _, w := range wide {
		b := math.Float32bits(w)
		for _, d := range []uint32{0, half / 2, half, half + half/2} {
			put(b + d - 1)
			put(b + d)
			put(b + d + 1)
		}
	}
	for e := uint32(0); e < 512; e++ {
		for d := uint32(0); d < 9; d++ {
			put(e<<23 + d - 4)
		}
	}
	// Midpoints of subnormal float16: odd multiples of 2^-25.
	for i := 1; i < 4096; i++ {
		b := math.Float32bits(float32(math.Ldexp(float64(i), -26)))
		for d := uint32(0); d < 3; d++ {
			put(b + d - 1)
			put(b + d - 1 | 1<<31)
		}
	}
	return xs
}

// armModes returns every combination of rounding, saturation and flushing.
func armModes() []Mode {
	var ms []Mode
	for r := NearestEven; r < roundingEnd; r++ {
		for i := range 4 {
			ms = append(ms, Mode{Rounding: r, Saturate: i&1 != 0, Flush: i&2 != 0})
		}
	}
	return ms
}

func all16() []uint16 {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	return all
}

type narrowing struct {
	name          string
	arch          func([]uint16, []float32, Mode) int
	generic       func([]uint16, []float32, Mode)
	widen         func([]float32, []uint16)
	half, largest uint32
}

var narrowings = []narrowing{
	{"F16", f32ToF16Arch, f32ToF16Generic, f16ToF32Generic, 1 << 12, 0x477fe000},
	{"BF16", f32ToBF16Arch, f32ToBF16Generic, bf16ToF32Generic, 1 << 15, 0x7f7f0000},
}

// same compares a conversion of xs with the definition.
func (k narrowing) same(t *testing.T, xs []float32, m Mode) {
	t.Helper()
	got, want := make([]uint16, len(xs)), make([]uint16, len(xs))
	n := k.arch(got, xs, m)
	k.generic(want, xs, m)
	if n < len(xs)-63 {
		t.Fatalf("%s %+v: did %d of %d", k.name, m, n, len(xs))
	}
	bad := 0
	for i := range got[:n] {
		if got[i] == want[i] {
			continue
		}
		if bad++; bad < 5 {
			t.Errorf("%s %+v: element %d, %#08x: got %#04x, want %#04x", k.name, m, i, math.Float32bits(xs[i]), got[i], want[i])
		}
	}
	if bad > 0 {
		t.Errorf("%s %+v: %d of %d differ", k.name, m, bad, n)
	}
}

func TestNEONNarrow(t *testing.T) {
	needNEON(t)
	for _, k := range narrowings {
		wide := make([]float32, 1<<16)
		k.widen(wide, all16())
		for _, m := range armModes() {
			// Modes differ from the plain ones by what the surroundings test.
			stride := uint32(1021)
			if m.Saturate || m.Flush || m.Rounding == Stochastic {
				stride *= 7
			}
			if testing.Short() {
				stride *= 13
			}
			m.Stream, m.First = Stream(stride), 1<<20-1<<15
			k.same(t, armFloats(stride, wide, k.half), m)
		}
	}
}

// TestNEONStochastic starts everywhere in a turn of 32 and at ends of segments,
// and gives single values many draws.
func TestNEONStochastic(t *testing.T) {
	needNEON(t)
	xs := make([]float32, 1<<14)
	for _, k := range narrowings {
		m := Mode{Rounding: Stochastic, Stream: 0x0123456789abcdef}
		for i := range xs {
			xs[i] = float32(math.Exp2(float64(i)/700 - 24))
		}
		for first := int64(0); first < 70; first++ {
			m.First = first
			k.same(t, xs[:300], m)
			m.First = 5<<20 - 35 + first
			k.same(t, xs[:300], m)
			m.First = 1<<62 + 1<<20 - first
			k.same(t, xs[:300], m)
		}
		m.First = 3 << 20
		inf := float32(math.Inf(1))
		for _, x := range []float32{0, inf, -inf, math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff),
			65504, 65519, 65520, 65535, -70000, math.MaxFloat32, 0x1p-14, 0x1.fffffep-15, 0x1.8p-24, 0x1p-30,
			math.SmallestNonzeroFloat32, 0x1.fffffep-127, 1.0001, -1.0001, math.Float32frombits(k.largest)} {
			for i := range xs {
				xs[i] = x
			}
			k.same(t, xs, m)
		}
	}
}

// TestNEONEdges converts every length at every alignment, and looks at what
// lies around the destination.
func TestNEONEdges(t *testing.T) {
	needNEON(t)
	const guard = 0xa5a5
	var xs [256]float32
	for i := range xs {
		xs[i] = float32(i)*0.0371 - 4
	}
	for _, k := range narrowings {
		for _, m := range armModes() {
			for n := 0; n <= 200; n++ {
				off, at := n%5, n%11
				var dst [256]uint16
				for i := range dst {
					dst[i] = guard
				}
				m.First = int64(n * n)
				done := k.arch(dst[at:at+n], xs[off:off+n], m)
				want := make([]uint16, n)
				k.generic(want, xs[off:off+n], m)
				for i, h := range dst {
					if i >= at && i < at+done {
						if h != want[i-at] {
							t.Fatalf("%s %+v: %d elements: got %#x at %d, want %#x", k.name, m, n, h, i-at, want[i-at])
						}
					} else if h != guard {
						t.Fatalf("%s %+v: %d elements: wrote at %d", k.name, m, n, i-at)
					}
				}
			}
		}
	}
}

// TestNEONRoundingMode makes sure that a directed mode does not outlive the
// call.
func TestNEONRoundingMode(t *testing.T) {
	needNEON(t)
	one, tiny := 1.0, 0x1p-60
	xs, dst := make([]float32, 64), make([]uint16, 64)
	for _, m := range armModes() {
		f32ToF16Arch(dst, xs, m)
		if one+tiny != 1 || one-tiny != 1 || -one-tiny != -1 {
			t.Fatalf("%+v: float64 operations round elsewhere afterwards", m)
		}
		tiny /= 1 + 0x1p-40 // so that no sum is made before the call
	}
}

func TestNEONWiden(t *testing.T) {
	needNEON(t)
	all := all16()
	for _, k := range []struct {
		name    string
		arch    func([]float32, []uint16) int
		generic func([]float32, []uint16)
	}{{"F16", f16ToF32Arch, f16ToF32Generic}, {"BF16", bf16ToF32Arch, bf16ToF32Generic}} {
		got, want := make([]float32, 1<<16), make([]float32, 1<<16)
		k.generic(want, all)
		if n := k.arch(got, all); n != len(all) {
			t.Fatalf("%s: did %d", k.name, n)
		}
		for i := range got {
			if g, w := math.Float32bits(got[i]), math.Float32bits(want[i]); g != w {
				t.Fatalf("%s %#04x: got %#08x, want %#08x", k.name, i, g, w)
			}
		}
		for n := 0; n <= 200; n++ {
			clear(got[:256])
			at, off := n%7, n%3
			done := k.arch(got[at:at+n], all[0x3c00+off:][:n])
			for i, g := range got[:256] {
				if inside := i >= at && i < at+done; inside && g != want[0x3c00+off+i-at] || !inside && g != 0 {
					t.Fatalf("%s: %d elements: got %v at %d", k.name, n, g, i-at)
				}
			}
		}
	}
}
