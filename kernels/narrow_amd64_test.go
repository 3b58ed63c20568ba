//go:build !purego

package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

// eachTier runs f under every SIMD tier of this processor.
func eachTier(t *testing.T, f func(t *testing.T)) {
	for _, tier := range cpu.Tiers()[1:] {
		t.Run(tier, func(t *testing.T) {
			if err := cpu.Limit(tier); err != nil {
				t.Fatal(err)
			}
			defer cpu.Limit("")
			f(t)
		})
	}
}

// hard32 returns float32 values around everything that a conversion to FP16
// or BF16 decides by, a stride over all others, and every kind of NaN.
func hard32() []float32 {
	var b []uint32
	near := func(v uint32) { b = append(b, v-2, v-1, v, v+1, v+2) }
	for h := range uint32(1 << 16) {
		near(h << 16)
		near(h<<16 | 0x8000)
		w := widenF16(uint16(h))
		near(w)
		near(w | 0x1000)
		if h&0x7fff < 0x800 { // half steps of subnormals
			near(h&0x8000<<16 | math.Float32bits(float32(float64(h&0x7fff)*0x1p-24+0x1p-25)))
		}
	}
	for v := uint64(0); v < 1<<32; v += 10007 {
		b = append(b, uint32(v))
	}
	x := make([]float32, len(b))
	for i := range b {
		x[i] = math.Float32frombits(b[i])
	}
	return x
}

func allModes() []Mode {
	var ms []Mode
	for r := range roundingEnd {
		for i := range 4 {
			ms = append(ms, Mode{Rounding: r, Saturate: i&1 != 0, Flush: i&2 != 0, Stream: 0x123456789abcdef, First: 1<<20 - 1<<17})
		}
	}
	return ms
}

type narrowing struct {
	name          string
	arch, generic func(dst []uint16, src []float32, m Mode)
}

var narrowings = []narrowing{
	{"F16", F32ToF16, f32ToF16Generic},
	{"BF16", F32ToBF16, f32ToBF16Generic},
}

func TestNarrowArch(t *testing.T) {
	src := hard32()
	want, got := make([]uint16, len(src)), make([]uint16, len(src))
	for _, k := range narrowings {
		for _, m := range allModes() {
			k.generic(want, src, m)
			eachTier(t, func(t *testing.T) {
				k.arch(got, src, m)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%s %+v: element %d %#08x: %#04x, want %#04x", k.name, m, i, math.Float32bits(src[i]), got[i], want[i])
					}
				}
			})
		}
	}
}

// TestNarrowArchLengths converts short slices in the middle of longer ones:
// nothing else may change.
func TestNarrowArchLengths(t *testing.T) {
	all := hard32()
	want, got := make([]uint16, 300), make([]uint16, 300)
	for _, k := range narrowings {
		for _, m := range allModes() {
			eachTier(t, func(t *testing.T) {
				for n := range 201 {
					src := all[n*1009:][:n]
					for i := range got {
						got[i], want[i] = 0xdead, 0xdead
					}
					m.First = int64(n * 7)
					k.generic(want[n%31:][:n], src, m)
					k.arch(got[n%31:][:n], src, m)
					if !slices.Equal(got, want) {
						t.Fatalf("%s %+v, %d elements", k.name, m, n)
					}
				}
			})
		}
	}
}

// TestNarrowArchLarge reaches the stores past the caches, at odd addresses.
func TestNarrowArchLarge(t *testing.T) {
	hard := hard32()
	src := make([]float32, ntMin/2+piece+1001)
	for i := 0; i < len(src); {
		i += copy(src[i:], hard)
	}
	want, got := make([]uint16, len(src)), make([]uint16, len(src))
	for _, k := range narrowings {
		for _, m := range allModes() {
			if m.Saturate || m.Flush || m.Rounding == Stochastic {
				continue
			}
			k.generic(want, src, m)
			eachTier(t, func(t *testing.T) {
				for _, o := range []int{0, 1, 31} {
					clear(got)
					k.arch(got[o:], src[o:], m)
					if !slices.Equal(got[o:], want[o:]) {
						t.Fatalf("%s %+v from %d", k.name, m, o)
					}
				}
			})
		}
	}
}

func TestWidenArch(t *testing.T) {
	src := make([]uint16, 1<<16, ntMin/4+piece+1001)
	for i := range src {
		src[i] = uint16(i)
	}
	for i := 0; len(src) < cap(src); i++ {
		src = append(src, uint16(i))
	}
	for name, k := range map[string][2]func([]float32, []uint16){
		"F16":  {F16ToF32, f16ToF32Generic},
		"BF16": {BF16ToF32, bf16ToF32Generic},
	} {
		want, got := make([]float32, len(src)), make([]float32, len(src))
		k[1](want, src)
		eachTier(t, func(t *testing.T) {
			k[0](got[1:], src[1:])
			for n := range 200 {
				got[n] = 0
				k[0](got[n+1:][:n], src[n+1:][:n])
			}
			k[0](got, src)
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%s %#04x: %#08x, want %#08x", name, src[i], math.Float32bits(got[i]), math.Float32bits(want[i]))
				}
			}
			for n := range 200 {
				got = make([]float32, n+2)
				got[0], got[n+1] = -7, -7
				k[0](got[1:n+1], src[0x7bf0:][:n])
				if got[0] != -7 || got[n+1] != -7 {
					t.Fatalf("%s wrote outside %d elements", name, n)
				}
			}
			got = make([]float32, len(src))
		})
	}
}

func BenchmarkNarrowArch(b *testing.B) {
	src := make([]float32, 96<<10)
	for i := range src {
		src[i] = float32(i%1000-500) * 1e-4
	}
	dst := make([]uint16, len(src))
	for _, k := range narrowings {
		for _, tier := range cpu.Tiers()[1:] {
			for _, m := range allModes() {
				b.Run(fmt.Sprintf("%s/%s/%v/sat=%v/flush=%v", k.name, tier, m.Rounding, m.Saturate, m.Flush), func(b *testing.B) {
					cpu.Limit(tier)
					defer cpu.Limit("")
					b.SetBytes(int64(4 * len(src)))
					for b.Loop() {
						k.arch(dst, src, m)
					}
				})
			}
		}
	}
}

// TestStochasticArch gives values that need care very many draws, in two
// segments, from an element on that begins no group.
func TestStochasticArch(t *testing.T) {
	const n = 100_003
	src := make([]float32, n)
	want, got := make([]uint16, n), make([]uint16, n)
	for _, b := range []uint32{
		0, 1, 0x007fffff, 0x00800000, 0x32800000, 0x33000000, 0x33000001, 0x33ffffff, 0x387fffff, 0x38800001,
		0x3f800001, 0x477fe000, 0x477fe001, 0x477ff000, 0x477fffff, 0x47800000, 0x7f7f0000, 0x7f7f0001, 0x7f7fffff,
		0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff,
	} {
		for i := range src {
			src[i] = math.Float32frombits(b | uint32(i&1)<<31)
		}
		for _, k := range narrowings {
			for i := range 4 {
				m := Mode{Rounding: Stochastic, Saturate: i&1 != 0, Flush: i&2 != 0, Stream: 77, First: segment - n/2}
				k.generic(want, src, m)
				eachTier(t, func(t *testing.T) {
					k.arch(got, src, m)
					if !slices.Equal(got, want) {
						t.Fatalf("%s %+v of %#08x", k.name, m, b)
					}
				})
			}
		}
	}
}
