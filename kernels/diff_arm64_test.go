//go:build !purego

package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// armTiles returns tiles of every kind: weights, runs of zeros, values around
// the limits of the targets, and anything.
func armTiles(n int) map[string][]float32 {
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
	fill("least of BF16", func(int) float32 { return weight() * 0x1p-99 })
	fill("subnormal", func(int) float32 { return math.Float32frombits(r.Uint32() & 0x80ffffff) })
	fill("sparse", func(i int) float32 {
		if i/50%2 == 0 {
			return float32(math.Copysign(0, float64(i%3-1)))
		}
		return weight()
	})
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

// armFakes are what a tile may have become without a conversion.
var armFakes = map[string]func(r *rand.Rand, h uint16) uint16{
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
	diffArch    func(*diff, []float32, []uint16) int
	diffGeneric func(*diff, []float32, []uint16, int, int)
}

var differs = []differ{
	{narrowings[0], diffF16Arch, diffF16Generic},
	{narrowings[1], diffBF16Arch, diffBF16Generic},
}

// same compares the figures of a tile with the definition.
func (k differ) same(t *testing.T, name string, xs []float32, ys []uint16, m Mode) {
	t.Helper()
	got, want := newDiff(m), newDiff(m)
	n := k.diffArch(got, xs, ys)
	if n != len(xs)&^15 {
		t.Fatalf("%s %s: did %d of %d", k.name, name, n, len(xs))
	}
	k.diffGeneric(want, xs, ys, 0, n)
	if *got != *want {
		t.Errorf("%s %s %v:\n got %+v\nwant %+v", k.name, name, m.Rounding, *got, *want)
	}
}

// TestNEONInspect makes sure that weights are ordinary, else all is slow.
func TestNEONInspect(t *testing.T) {
	needNEON(t)
	xs := armTiles(inspectRun)["weights"]
	ys := make([]uint16, len(xs))
	var c inspection
	f32ToF16Generic(ys, xs, Mode{})
	if n := f16Inspect(&c, &xs[0], &ys[0], len(xs)); n != len(xs) {
		t.Errorf("F16: %d of %d", n, len(xs))
	}
	f32ToBF16Generic(ys, xs, Mode{})
	if n := bf16Inspect(&c, &xs[0], &ys[0], len(xs)); n != len(xs) {
		t.Errorf("BF16: %d of %d", n, len(xs))
	}
}

func TestNEONDiff(t *testing.T) {
	needNEON(t)
	n := 1 << 14
	if testing.Short() {
		n = 1 << 12
	}
	r := rand.New(rand.NewPCG(3, 4))
	for name, xs := range armTiles(n) {
		for _, k := range differs {
			ys := make([]uint16, n)
			for _, m := range armModes() {
				k.generic(ys, xs, m)
				k.same(t, name, xs, ys, m)
			}
			k.generic(ys, xs, Mode{})
			for how, fake := range armFakes {
				zs := make([]uint16, n)
				for i, y := range ys {
					zs[i] = fake(r, y)
				}
				k.same(t, name+", "+how, xs, zs, Mode{})
			}
		}
	}
}

// TestNEONDiffOdd puts one odd pair after another into ordinary blocks.
func TestNEONDiffOdd(t *testing.T) {
	needNEON(t)
	odd := []uint32{0, 1, 0x00400000, 0x007fffff, 0x00800000, 0x00808000, 0x0b7fffff, 0x0b800000, 0x0b800001, 0x0bffffff, 0x0c000000,
		0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x387fffff, 0x38800000, 0x3f800000, 0x3f801000, 0x475fffff, 0x47600000,
		0x477fe000, 0x477fe001, 0x477fefff, 0x477ff000, 0x477fffff, 0x47800000, 0x7effffff, 0x7f000000, 0x7f7f0000, 0x7f7f0001,
		0x7f7f8000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff}
	xs, ys := make([]float32, 48), make([]uint16, 48)
	for _, k := range differs {
		for i := range xs {
			xs[i] = float32(i) * 0.0101
		}
		k.generic(ys, xs, Mode{})
		x0, y0 := xs[17], ys[17]
		for _, b := range odd {
			for _, sign := range []uint32{0, 1 << 31} {
				xs[17] = math.Float32frombits(b | sign)
				k.generic(ys[17:18], xs[17:18], Mode{})
				near := int(ys[17])
				try := func(h int) {
					ys[17] = uint16(h)
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
		xs[17], ys[17] = x0, y0
	}
}
