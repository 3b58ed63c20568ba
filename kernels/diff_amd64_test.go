//go:build !purego

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

// diffTiles returns tiles of every kind: weights, runs of zeros, values around
// the limits of the targets, and anything.
func diffTiles(n int) map[string][]float32 {
	r := rand.New(rand.NewPCG(1, 2))
	tiles := map[string][]float32{}
	fill := func(name string, f func(i int) float32) {
		xs := make([]float32, n)
		for i := range xs {
			xs[i] = f(i)
		}
		tiles[name] = xs
	}
	weight := func() float32 { return float32(r.NormFloat64() * 0.02) }
	fill("weights", func(int) float32 { return weight() })
	fill("growing", func(i int) float32 { return weight() * float32(i) })
	fill("small", func(int) float32 { return weight() * 0x1p-13 })
	fill("smaller", func(int) float32 { return weight() * 0x1p-19 })
	fill("least of BF16", func(int) float32 { return weight() * 0x1p-99 })
	fill("least of FP32", func(int) float32 { return weight() * 0x1p-122 })
	fill("subnormal", func(int) float32 { return math.Float32frombits(r.Uint32() & 0x80ffffff) })
	fill("sparse", func(i int) float32 {
		if i/50%2 == 0 {
			return float32(math.Copysign(0, float64(i%3-1)))
		}
		return weight()
	})
	fill("ties", func(i int) float32 { return 1 + float32(i%9)*0x1p-9 })
	fill("large", func(int) float32 { return 65504 * (1 + weight()/20) })
	fill("huge", func(int) float32 { return math.MaxFloat32 * float32(1-r.Float64()/80) })
	fill("exponents", func(int) float32 { return float32(math.Ldexp(1+r.Float64(), r.IntN(40)-25)) })
	fill("bits", func(int) float32 { return math.Float32frombits(r.Uint32()) })
	fill("rare", func(i int) float32 {
		if i%1000 == 999 {
			return math.Float32frombits(r.Uint32() | 0x7f000000)
		}
		return weight()
	})
	return tiles
}

// diffFakes are what a tile may have become without a conversion.
var diffFakes = map[string]func(r *rand.Rand, h uint16) uint16{
	"itself":    func(_ *rand.Rand, h uint16) uint16 { return h },
	"one off":   func(r *rand.Rand, h uint16) uint16 { return h + uint16(r.IntN(2)) },
	"far":       func(r *rand.Rand, h uint16) uint16 { return h ^ uint16(1)<<r.IntN(16) },
	"64 ULP":    func(r *rand.Rand, h uint16) uint16 { return h + uint16(60+r.IntN(8)) },
	"negated":   func(_ *rand.Rand, h uint16) uint16 { return h ^ 0x8000 },
	"anything":  func(r *rand.Rand, _ uint16) uint16 { return uint16(r.Uint32()) },
	"nothing":   func(*rand.Rand, uint16) uint16 { return 0 },
	"subnormal": func(_ *rand.Rand, h uint16) uint16 { return h & 0x80ff },
}

type differ struct {
	narrowing
	arch    func(*diff, []float32, []uint16) int
	generic func(*diff, []float32, []uint16, int, int)
}

var differs = []differ{
	{narrowings[0], diffF16Arch, diffF16Generic},
	{narrowings[1], diffBF16Arch, diffBF16Generic},
}

// bits returns a diff without NaNs, which are equal to nothing.
func (d diff) bits() diff {
	for _, l := range []*[lanes]float64{&d.err2, &d.ref2, &d.refEr} {
		for i, v := range l {
			if v != v {
				l[i] = -0x1p1000
			}
		}
	}
	return d
}

// want returns the figures of a tile by the definition.
func (k differ) want(xs []float32, ys []uint16, m Mode) diff {
	d := newDiff(m)
	k.generic(d, xs, ys, 0, len(xs))
	return d.bits()
}

// same compares the figures of a tile with the definition, in every tier.
func (k differ) same(t *testing.T, name string, xs []float32, ys []uint16, m Mode) {
	t.Helper()
	want := k.want(xs, ys, m)
	for _, tier := range cpu.Tiers()[1:] {
		if err := cpu.Limit(tier); err != nil {
			t.Fatal(err)
		}
		d := newDiff(m)
		n := k.arch(d, xs, ys)
		if n&15 != 0 || n <= len(xs)-32 {
			t.Fatalf("%s %s %s: did %d of %d", k.name, tier, name, n, len(xs))
		}
		k.generic(d, xs, ys, n, len(xs))
		if got := d.bits(); got != want {
			t.Errorf("%s %s %s %v:\n got %+v\nwant %+v", k.name, tier, name, m.Rounding, got, want)
		}
	}
	cpu.Limit("")
}

// TestInspect makes sure that weights are ordinary, else all is slow.
func TestInspect(t *testing.T) {
	xs := diffTiles(inspectRun)["weights"]
	ys := make([]uint16, len(xs))
	eachTier(t, func(t *testing.T) {
		var c inspection
		var buf [inspectRun]float32
		var d diff
		F32ToF16(ys, xs, Mode{})
		if n := d.f16(&c, &buf, &xs[0], &ys[0], len(xs)); n != len(xs) {
			t.Errorf("F16: %d of %d", n, len(xs))
		}
		F32ToBF16(ys, xs, Mode{})
		if n := d.bf16(&c, &buf, &xs[0], &ys[0], len(xs)); n != len(xs) {
			t.Errorf("BF16: %d of %d", n, len(xs))
		}
	})
}

func TestDiffArch(t *testing.T) {
	n := 1<<14 + 48
	if testing.Short() {
		n = 1<<12 + 48
	}
	r := rand.New(rand.NewPCG(3, 4))
	ys, zs := make([]uint16, n), make([]uint16, n)
	for name, xs := range diffTiles(n) {
		for _, k := range differs {
			for _, m := range allModes() {
				k.narrowing.generic(ys, xs, m)
				k.same(t, name, xs, ys, m)
			}
			k.narrowing.generic(ys, xs, Mode{})
			for how, fake := range diffFakes {
				for i, y := range ys {
					zs[i] = fake(r, y)
				}
				k.same(t, name+", "+how, xs, zs, Mode{})
			}
		}
	}
}

// TestDiffArchTile measures whole tiles of the largest errors of ordinary
// pairs, the most that the sums must hold.
func TestDiffArchTile(t *testing.T) {
	xs, ys := make([]float32, Tile), make([]uint16, Tile)
	for _, m := range []Mode{{Rounding: Up}, {Rounding: Down}, {Rounding: TowardZero}} {
		for _, x := range []float32{1 + 0x1p-22, -1 - 0x1p-22, 2 - 0x1p-22, 0x1p-20 + 0x1p-40, -0x1p-20 - 0x1p-40} {
			for i := range xs {
				xs[i] = x
			}
			for _, k := range differs {
				k.narrowing.generic(ys, xs, m)
				k.same(t, fmt.Sprint("all ", x), xs, ys, m)
			}
		}
	}
}

func TestDiffArchLengths(t *testing.T) {
	for _, name := range []string{"weights", "ties", "rare", "sparse", "small"} {
		xs := diffTiles(1400)[name]
		ys := make([]uint16, len(xs))
		for _, k := range differs {
			k.narrowing.generic(ys, xs, Mode{})
			for n := range 201 {
				o := n * 5
				k.same(t, fmt.Sprintf("%s, %d", name, n), xs[o:o+n], ys[o:o+n], Mode{})
			}
		}
	}
}

// TestDiffArchOdd puts one odd pair after another into ordinary blocks.
func TestDiffArchOdd(t *testing.T) {
	odd := []uint32{0, 1, 0x00400000, 0x007fffff, 0x00800000, 0x00808000, 0x0b7fffff, 0x0b800000, 0x0b800001, 0x0bffffff, 0x0c000000,
		0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x387fffff, 0x38800000, 0x3f800000, 0x3f801000, 0x475fffff, 0x47600000,
		0x477fe000, 0x477fe001, 0x477fefff, 0x477ff000, 0x477fffff, 0x47800000, 0x7effffff, 0x7f000000, 0x7f7f0000, 0x7f7f0001,
		0x7f7f8000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff}
	xs, ys := make([]float32, 96), make([]uint16, 96)
	for _, k := range differs {
		for i := range xs {
			xs[i] = float32(i) * 0.0101
		}
		k.narrowing.generic(ys, xs, Mode{})
		for at := 17; at < 64; at += 27 {
			x0, y0 := xs[at], ys[at]
			for _, b := range odd {
				for _, sign := range []uint32{0, 1 << 31} {
					xs[at] = math.Float32frombits(b | sign)
					k.narrowing.generic(ys[at:at+1], xs[at:at+1], Mode{})
					near := int(ys[at])
					try := func(h int) {
						ys[at] = uint16(h)
						k.same(t, "odd", xs, ys, Mode{Rounding: Rounding(h & 0xffff % int(roundingEnd))})
					}
					for h := 0; h < 1<<16; h += 1 + h%256 {
						try(h)
					}
					for h := near - 140; h <= near+70; h++ {
						try(h)
					}
				}
			}
			xs[at], ys[at] = x0, y0
		}
	}
}

// TestDiffArchPeak puts equal largest errors at many places: the first counts.
func TestDiffArchPeak(t *testing.T) {
	xs, ys := make([]float32, 5000), make([]uint16, 5000)
	places := []int{0, 7, 15, 16, 31, 32, 1023, 1024, 1025, 2047, 3000, 4991, 4999}
	for _, k := range differs {
		for _, odd := range []float32{1, float32(math.Inf(1))} {
			for i, p := range places {
				for j := range xs {
					xs[j] = 1 + 0x1p-20
				}
				if i > 0 {
					xs[places[i-1]+1] = odd
				}
				k.narrowing.generic(ys, xs, Mode{})
				for j, q := range places[i:] {
					if xs[q] != odd {
						xs[q] = float32(1-2*(j&1)) * (1 + 0x1p-12) // alternating signs
					}
				}
				k.narrowing.generic(ys, xs, Mode{Rounding: TowardZero})
				k.same(t, fmt.Sprint("from ", p), xs, ys, Mode{Rounding: TowardZero})
				if d := k.want(xs, ys, Mode{Rounding: TowardZero}); xs[p] != odd && d.MaxIndex != int64(p) {
					t.Fatalf("the largest error is at %d, not at %d", d.MaxIndex, p)
				}
			}
		}
	}
}

func TestDiffAllocs(t *testing.T) {
	xs := diffTiles(1 << 12)["rare"]
	ys := make([]uint16, len(xs))
	F32ToF16(ys, xs, Mode{})
	if n := testing.AllocsPerRun(10, func() {
		DiffF16(xs, ys, Mode{})
		DiffBF16(xs, ys, Mode{})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDiffArch(b *testing.B) {
	for _, kind := range []string{"weights", "rare", "small", "sparse"} {
		xs := diffTiles(Tile)[kind]
		ys := make([]uint16, Tile)
		for _, k := range differs {
			k.narrowing.arch(ys, xs, Mode{})
			for _, tier := range cpu.Tiers() {
				b.Run(fmt.Sprintf("%s/%s/%s", k.name, tier, kind), func(b *testing.B) {
					cpu.Limit(tier)
					defer cpu.Limit("")
					b.SetBytes(4 * Tile)
					for b.Loop() {
						d := newDiff(Mode{})
						n := k.arch(d, xs, ys)
						k.generic(d, xs, ys, n, len(xs))
					}
				})
			}
		}
	}
}
