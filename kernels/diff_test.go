package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"pgregory.net/rapid"
)

// A pair is what Diff compares: bits and values of x and of y in the type of x.
type pair struct {
	x, y         float64
	xBits, yBits uint64
}

// naive measures pairs as the definition says. ref is the type of x, got that
// of y.
func naive(pairs []pair, ref, got format, m kernels.Mode) tensor.Stats {
	s := tensor.Stats{Count: int64(len(pairs)), MaxIndex: -1}
	var err2, ref2, refEr [16]float64
	for i, p := range pairs {
		add := func(n *int64, yes bool) {
			if yes {
				*n++
			}
		}
		x, y := p.x, p.y
		xInf, yInf := math.IsInf(x, 0), math.IsInf(y, 0)
		add(&s.Changed, p.xBits != p.yBits)
		add(&s.Overflowed, x == x && !xInf && (yInf || ref != got && got.overflows(x, m)))
		add(&s.Flushed, x == x && x != 0 && y == 0)
		add(&s.Subnormal, ref.normal(x) && y != 0 && math.Abs(y) < math.Ldexp(1, got.emin))
		add(&s.NaNIn, x != x)
		add(&s.NaNOut, y != y)
		add(&s.NaNLost, x != x && y == y)
		add(&s.NaNMade, x == x && y != y)
		add(&s.InfIn, xInf)
		add(&s.InfOut, yInf)
		if x != x || y != y || xInf || yInf {
			continue
		}
		s.Finite++
		d := y - x
		if ref == fp32 {
			d = float64(float32(y) - float32(x))
		}
		err2[i%16] += float64(d * d)
		ref2[i%16] += float64(x * x)
		refEr[i%16] += float64(x * d)
		if math.Abs(d) > s.MaxAbs {
			s.MaxAbs, s.MaxIndex, s.MaxRef, s.MaxGot = math.Abs(d), int64(i), x, y
		}
		u := math.RoundToEven(math.Ldexp(d, got.mant-max(exponent(x), got.emin)+16))
		u = min(max(u, -math.MaxInt32), math.MaxInt32)
		s.ULPUp += int64(u)
		if math.Signbit(x) {
			u = -u
		}
		s.ULPAway += int64(u)
	}
	s.SumErr2, s.SumRef2, s.SumRefEr = sumLanes(err2), sumLanes(ref2), sumLanes(refEr)
	return s
}

func sumLanes(l [16]float64) float64 {
	var eight [8]float64
	for i := range eight {
		eight[i] = l[i] + l[i+8]
	}
	a, b, c, d := eight[0]+eight[4], eight[1]+eight[5], eight[2]+eight[6], eight[3]+eight[7]
	return (a + c) + (b + d)
}

// overflows tells whether the mode would round x beyond the largest value,
// whatever it returns then. Stochastic: whether every draw would.
func (f format) overflows(x float64, m kernels.Mode) bool {
	never := func(float64) bool { return false }
	return integer(math.Abs(x)/f.step(x), x < 0, m.Rounding, never)*f.step(x) > f.largest()
}

func (f format) normal(x float64) bool {
	return math.Abs(x) >= math.Ldexp(1, f.emin) && !math.IsInf(x, 0)
}

var fp64 = format{"F64", 52, -1022, 1023}

// sameStats compares figures to the bit; a NaN is as good as another.
func sameStats(a, b tensor.Stats) bool {
	for _, p := range [][2]*float64{{&a.SumErr2, &b.SumErr2}, {&a.SumRef2, &b.SumRef2}, {&a.SumRefEr, &b.SumRefEr}} {
		if *p[0] != *p[0] && *p[1] != *p[1] {
			*p[0], *p[1] = 0, 0
		}
	}
	return a == b
}

// tiles32 returns tiles of every kind.
func tiles32(r *rand.Rand, n int) map[string][]float32 {
	weight := func() float32 { return float32(r.NormFloat64() * 0.02) }
	specials := append(fp16.special32(), bf16.special32()...)
	tiles := map[string][]float32{}
	for name, f := range map[string]func(i int) float32{
		"weights":   func(int) float32 { return weight() },
		"specials":  func(int) float32 { return specials[r.IntN(len(specials))] },
		"bits":      func(int) float32 { return math.Float32frombits(r.Uint32()) },
		"exponents": func(int) float32 { return float32(math.Ldexp(r.Float64()-0.5, r.IntN(40)-25)) },
		"large":     func(int) float32 { return float32(r.NormFloat64() * 65504) },
		"huge":      func(int) float32 { return math.MaxFloat32 * float32(1-r.Float64()/80) },
		"zeros":     func(int) float32 { return float32(math.Copysign(0, r.Float64()-0.5)) },
		"small":     func(int) float32 { return math.Float32frombits(r.Uint32() & 0x80ffffff) },
		"rare": func(i int) float32 {
			if i%777 == 500 {
				return specials[r.IntN(len(specials))]
			}
			return weight()
		},
	} {
		xs := make([]float32, n)
		for i := range xs {
			xs[i] = f(i)
		}
		tiles[name] = xs
	}
	return tiles
}

// fakes are what a tile may have become without a conversion.
var fakes = map[string]func(r *rand.Rand, h uint16) uint16{
	"":               func(_ *rand.Rand, h uint16) uint16 { return h },
	", one off":      func(r *rand.Rand, h uint16) uint16 { return h + uint16(r.IntN(3)) - 1 },
	", bits flipped": func(r *rand.Rand, h uint16) uint16 { return h ^ uint16(1)<<r.IntN(16) },
	", anything":     func(r *rand.Rand, _ uint16) uint16 { return uint16(r.Uint32()) },
	", zero":         func(*rand.Rand, uint16) uint16 { return 0 },
}

// everyMode returns all modes.
func everyMode() []kernels.Mode {
	ms := policies()
	for i := range 4 {
		ms = append(ms, kernels.Mode{Rounding: kernels.Stochastic, Saturate: i&1 != 0, Flush: i&2 != 0, Stream: 3, First: 99})
	}
	return ms
}

var differs = []struct {
	kernel16
	diff func(ref []float32, got []uint16, m kernels.Mode) tensor.Stats
}{{kernels16[0], kernels.DiffF16}, {kernels16[1], kernels.DiffBF16}}

// TestDiff compares with the definition, on every tier.
func TestDiff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, xs := range tiles32(r, 5000) {
		for _, k := range differs {
			for i, m := range everyMode() {
				ys := make([]uint16, len(xs))
				k.narrow(ys, xs, m)
				for how, fake := range fakes {
					if how != "" && i%5 != 0 || short() && i%3 != 0 {
						continue
					}
					zs := make([]uint16, len(xs))
					for i, h := range ys {
						zs[i] = fake(r, h)
					}
					pairs := make([]pair, len(xs))
					for i, x := range xs {
						y := math.Float32frombits(k.widen32(uint32(zs[i])))
						pairs[i] = pair{float64(x), float64(y), uint64(math.Float32bits(x)), uint64(math.Float32bits(y))}
					}
					want := naive(pairs, fp32, k.format, m)
					for _, tier := range cpu.Tiers() {
						limit(t, tier)
						if got := k.diff(xs, zs, m); !sameStats(got, want) {
							t.Fatalf("%s %s%s, %s, %s:\n got %+v\nwant %+v", k.name, name, how, modeName(m), tier, got, want)
						}
					}
				}
			}
		}
	}
}

// TestDiffOdd puts every y against special values of x, alone in their blocks.
func TestDiffOdd(t *testing.T) {
	stride := 61
	if short() {
		stride = 1009
	}
	for _, k := range differs {
		for i, x := range append(fp16.special32(), bf16.special32()...) {
			xs, ys := make([]float32, 1<<13), make([]uint16, 1<<13)
			for i := range xs {
				xs[i] = float32(i%100) * 0.01
			}
			m := everyMode()[i%24]
			k.narrow(ys, xs, m)
			near := int(k.narrow64(float64(x), kernels.Mode{}))
			for j, h := 7, 0; h < 1<<16 && j < len(xs); j, h = j+33, h+stride*5 {
				xs[j], ys[j] = x, uint16(h)
				if j%2 == 0 {
					ys[j] = uint16(near + j/66 - 64)
				}
			}
			pairs := make([]pair, len(xs))
			for i, x := range xs {
				y := math.Float32frombits(k.widen32(uint32(ys[i])))
				pairs[i] = pair{float64(x), float64(y), uint64(math.Float32bits(x)), uint64(math.Float32bits(y))}
			}
			want := naive(pairs, fp32, k.format, m)
			for _, tier := range cpu.Tiers() {
				limit(t, tier)
				if got := k.diff(xs, ys, m); !sameStats(got, want) {
					t.Fatalf("%s %x, %s, %s:\n got %+v\nwant %+v", k.name, x, modeName(m), tier, got, want)
				}
			}
		}
	}
}

func TestDiffF32(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, xs := range tiles32(r, 3000) {
		ys, pairs := make([]float32, len(xs)), make([]pair, len(xs))
		for i, x := range xs {
			if ys[i] = x; i%3 == 0 {
				ys[i] = math.Float32frombits(math.Float32bits(x) ^ 1<<r.IntN(32))
			}
			pairs[i] = pair{float64(x), float64(ys[i]), uint64(math.Float32bits(x)), uint64(math.Float32bits(ys[i]))}
		}
		if got, want := kernels.DiffF32(xs, ys, kernels.Mode{}), naive(pairs, fp32, fp32, kernels.Mode{}); !sameStats(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// A differ64 measures what FP64 became; y comes widened.
type differ64 struct {
	format
	narrow func(src []float64, m kernels.Mode) (wide []float64, diff tensor.Stats)
}

var differs64 = []differ64{
	{fp16, func(src []float64, m kernels.Mode) ([]float64, tensor.Stats) {
		y, wide := make([]uint16, len(src)), make([]float64, len(src))
		kernels.F64ToF16(y, src, m)
		kernels.F16ToF64(wide, y)
		return wide, kernels.DiffF64F16(src, y, m)
	}},
	{bf16, func(src []float64, m kernels.Mode) ([]float64, tensor.Stats) {
		y, wide := make([]uint16, len(src)), make([]float64, len(src))
		kernels.F64ToBF16(y, src, m)
		kernels.BF16ToF64(wide, y)
		return wide, kernels.DiffF64BF16(src, y, m)
	}},
	{fp32, func(src []float64, m kernels.Mode) ([]float64, tensor.Stats) {
		y, wide := make([]float32, len(src)), make([]float64, len(src))
		kernels.F64ToF32(y, src, m)
		kernels.F32ToF64(wide, y)
		return wide, kernels.DiffF64F32(src, y, m)
	}},
	{fp64, func(src []float64, m kernels.Mode) ([]float64, tensor.Stats) {
		y := make([]float64, len(src))
		for i, x := range src {
			y[i] = math.Float64frombits(math.Float64bits(x) ^ uint64(i%3)<<(i%62))
		}
		return y, kernels.DiffF64(src, y, m)
	}},
}

// tiles64 returns tiles of FP64 of every kind.
func tiles64(r *rand.Rand, n int) map[string][]float64 {
	tiles := map[string][]float64{}
	for name, f := range map[string]func() float64{
		"weights":   func() float64 { return r.NormFloat64() * 0.02 },
		"bits":      func() float64 { return math.Float64frombits(r.Uint64()) },
		"exponents": func() float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(320)-160) },
		"tiny":      func() float64 { return math.Float64frombits(r.Uint64() & (1<<63 | 1<<53 - 1)) },
	} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = f()
		}
		tiles[name] = xs
	}
	for _, f := range []format{fp16, bf16, fp32} {
		tiles["edges of "+f.name] = f.edges(max(1, f.inf()>>12))
	}
	return tiles
}

func TestDiffF64(t *testing.T) {
	for name, xs := range tiles64(rand.New(rand.NewPCG(5, 6)), 3000) {
		for _, k := range differs64 {
			for i, m := range everyMode() {
				if short() && i%7 != 0 {
					continue
				}
				ys, got := k.narrow(xs, m)
				pairs := make([]pair, len(xs))
				for i, x := range xs {
					pairs[i] = pair{x, ys[i], math.Float64bits(x), math.Float64bits(ys[i])}
				}
				if want := naive(pairs, fp64, k.format, m); !sameStats(got, want) {
					t.Fatalf("%s to %s, %s:\n got %+v\nwant %+v", name, k.name, modeName(m), got, want)
				}
			}
		}
	}
}

// TestDiffOverflowing: the counts of Diff are those of the conversion.
func TestDiffOverflowing(t *testing.T) {
	for _, c := range []struct {
		r    kernels.Rounding
		x    float32
		want int64
	}{
		{kernels.NearestEven, math.Nextafter32(65520, 0), 0}, {kernels.NearestEven, 65520, 1},
		{kernels.NearestAway, math.Nextafter32(65520, 0), 0}, {kernels.NearestAway, 65520, 1},
		{kernels.TowardZero, math.Nextafter32(65536, 0), 0}, {kernels.TowardZero, -65536, 1},
		{kernels.Up, 65504, 0}, {kernels.Up, math.Nextafter32(65504, 1e9), 1},
		{kernels.Up, math.Nextafter32(-65536, 0), 0}, {kernels.Up, -65536, 1},
		{kernels.Down, math.Nextafter32(-65504, -1e9), 1}, {kernels.Down, math.Nextafter32(65536, 0), 0},
		{kernels.Stochastic, 65536, 1}, {kernels.Stochastic, 65504, 0},
	} {
		for _, saturate := range []bool{false, true} {
			m := kernels.Mode{Rounding: c.r, Saturate: saturate}
			var y [1]uint16
			kernels.F32ToF16(y[:], []float32{c.x}, m)
			if got := kernels.DiffF16([]float32{c.x}, y[:], m).Overflowed; got != c.want {
				t.Errorf("%v %v saturate=%v: %d, want %d", c.r, c.x, saturate, got, c.want)
			}
		}
	}
}

// TestDiffIdentical: what is the same has no errors, whatever it is.
func TestDiffIdentical(t *testing.T) {
	defer cpu.Limit("")
	rapid.Check(t, func(t *rapid.T) {
		setTier(t)
		k := rapid.SampledFrom(differs).Draw(t, "kernel")
		ys := rapid.SliceOfN(rapid.Uint16(), 0, 300).Draw(t, "values")
		xs := make([]float32, len(ys))
		k.widen(xs, ys)
		for _, s := range []tensor.Stats{k.diff(xs, ys, kernels.Mode{}), kernels.DiffF32(xs, xs, kernels.Mode{})} {
			want := tensor.Stats{Count: int64(len(ys)), MaxIndex: -1, SumRef2: s.SumRef2, Subnormal: s.Subnormal}
			for _, h := range ys {
				switch a := uint32(h) &^ k.signBit(); {
				case a > k.inf():
					want.NaNIn, want.NaNOut = want.NaNIn+1, want.NaNOut+1
				case a == k.inf():
					want.InfIn, want.InfOut = want.InfIn+1, want.InfOut+1
				default:
					want.Finite++
				}
			}
			if s != want || s.SNR() != math.Inf(1) || s.Cosine() != 1 {
				t.Fatalf("got %+v, want %+v", s, want)
			}
		}
	})
}

// TestDiffMerge: tiles merged in order give the counts of the whole.
func TestDiffMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	xs := tiles32(r, 4000)["rare"]
	ys := make([]uint16, len(xs))
	kernels.F32ToF16(ys, xs, kernels.Mode{})
	whole := kernels.DiffF16(xs, ys, kernels.Mode{})
	var merged tensor.Stats
	for i := 0; i < len(xs); i += 1000 {
		s := kernels.DiffF16(xs[i:i+1000], ys[i:i+1000], kernels.Mode{})
		merged.Merge(&s)
	}
	merged.SumErr2, merged.SumRef2, merged.SumRefEr = whole.SumErr2, whole.SumRef2, whole.SumRefEr
	if merged != whole {
		t.Errorf("\n got %+v\nwant %+v", merged, whole)
	}
}

// TestNoAllocs: nothing allocates once tables are there.
func TestNoAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	x32, x64, y := make([]float32, 1000), make([]float64, 1000), make([]uint16, 1000)
	var s kernels.Scan
	onEveryTier(t, func(t *testing.T) {
		for i, f := range []func(){
			func() { kernels.F32ToF16(y, x32, kernels.Mode{}) },
			func() { kernels.F32ToBF16(y, x32, kernels.Mode{Rounding: kernels.Stochastic}) },
			func() { kernels.F16ToF32(x32, y) },
			func() { kernels.F64ToF16(y, x64, kernels.Mode{Rounding: kernels.Stochastic}) },
			func() { kernels.F16ToBF16(y, y, kernels.Mode{}) },
			func() { kernels.DiffF16(x32, y, kernels.Mode{}) },
			func() { kernels.DiffBF16(x32, y, kernels.Mode{}) },
			func() { kernels.DiffF64F16(x64, y, kernels.Mode{}) },
			func() { s.F32(x32) },
			func() { s.F64(x64) },
		} {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("function %d: %v allocations", i, n)
			}
		}
	})
}

// TestPanics: lengths that differ, and more than a tile, are errors of the
// program.
func TestPanics(t *testing.T) {
	f32, f64, u16, b := make([]float32, 3), make([]float64, 3), make([]uint16, 2), make([]byte, 3)
	big32, big64, big16 := make([]float32, kernels.Tile+1), make([]float64, kernels.Tile+1), make([]uint16, kernels.Tile+1)
	var m kernels.Mode
	for i, f := range []func(){
		func() { kernels.F32ToF16(u16, f32, m) }, func() { kernels.F32ToBF16(u16, f32, m) },
		func() { kernels.F64ToF16(u16, f64, m) }, func() { kernels.F64ToBF16(u16, f64, m) },
		func() { kernels.F64ToF32(f32[1:], f64, m) }, func() { kernels.F16ToBF16(u16[1:], u16, m) },
		func() { kernels.BF16ToF16(u16[1:], u16, m) }, func() { kernels.F16ToF32(f32, u16) },
		func() { kernels.BF16ToF32(f32, u16) }, func() { kernels.F16ToF64(f64, u16) },
		func() { kernels.BF16ToF64(f64, u16) }, func() { kernels.F32ToF64(f64[1:], f32) },
		func() { kernels.DiffF16(f32, u16, m) }, func() { kernels.DiffBF16(f32, u16, m) },
		func() { kernels.DiffF32(f32, f32[1:], m) }, func() { kernels.DiffF64F16(f64, u16, m) },
		func() { kernels.DiffF64BF16(f64, u16, m) }, func() { kernels.DiffF64F32(f64, f32[1:], m) },
		func() { kernels.DiffF64(f64, f64[1:], m) },
		func() { kernels.DiffF16(big32, big16, m) }, func() { kernels.DiffBF16(big32, big16, m) },
		func() { kernels.DiffF32(big32, big32, m) }, func() { kernels.DiffF64(big64, big64, m) },
		func() { kernels.DiffF64F16(big64, big16, m) }, func() { kernels.DiffF64BF16(big64, big16, m) },
		func() { kernels.DiffF64F32(big64, big32, m) },
		func() { kernels.SplitBF16(b, b[1:], u16) }, func() { kernels.SplitF16(b[1:], b[1:], b, u16) },
		func() { kernels.JoinBF16(u16, b[1:], b) }, func() { kernels.JoinF16(u16, b[1:], b, b[1:]) },
		func() { kernels.F32ToF16(make([]uint16, 3), f32, kernels.Mode{Rounding: 99}) },
	} {
		func() {
			defer func() {
				if s := fmt.Sprint(recover()); len(s) < 9 || s[:9] != "kernels: " {
					t.Errorf("function %d: %q", i, s)
				}
			}()
			f()
		}()
	}
}
