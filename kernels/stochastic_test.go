package kernels_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/kernels"
	"pgregory.net/rapid"
)

// What follows is the definition of stochastic rounding written once more. It
// must never change: a conversion is repeated years later with the same seed.

// draw returns 32 random bits: those of place c among the elements that share
// the key of element i.
func draw(s kernels.Stream, i int64, c uint32) uint32 {
	k := finish(uint64(s) + uint64(i/(1<<20))*0x9e3779b97f4a7c15)
	h := c ^ uint32(k)
	for _, f := range []struct{ shift, factor uint32 }{{16, 0x7feb352d}, {15, 0x846ca68b}, {16, 1}} {
		h = (h ^ h>>f.shift) * f.factor
	}
	return h ^ uint32(k>>32)
}

func finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func draw16(s kernels.Stream, i int64) uint32 {
	j := uint32(i % (1 << 20))
	h := draw(s, i, j/32*16+j%16)
	if j/16%2 == 1 {
		return h >> 16
	}
	return h & 0xffff
}

func draw32(s kernels.Stream, i int64) uint32 { return draw(s, i, uint32(i%(1<<20))+1<<31) }

func draw64(s kernels.Stream, i int64) uint64 {
	return uint64(draw32(s, i))<<32 | uint64(draw(s, i, uint32(i%(1<<20))+3<<30))
}

// chance32 tells whether a fraction of FP32 that is lost counts as one: always
// if the bits are large enough, of 16, or of 32 where the step of f is that of
// its subnormals and the source is finer.
func (f format) chance32(x float64, u16, u32 uint32) func(lost float64) bool {
	if f.emin != fp32.emin && exponent(x) < f.emin {
		return func(lost float64) bool { return u32 < uint32(lost*0x1p32) }
	}
	bits := fp32.mant - f.mant
	return func(lost float64) bool {
		return math.Ldexp(lost, bits)+float64(u16>>(16-bits)) >= math.Ldexp(1, bits)
	}
}

func chance64(u uint64) func(lost float64) bool {
	return func(lost float64) bool { return u < uint64(lost*0x1p64) }
}

// dice32 returns the bits of element i of a stream.
func (f format) dice32(x float32, i int64, m kernels.Mode) uint32 {
	return f.toss32(x, draw16(m.Stream, i), draw32(m.Stream, i), m)
}

func (f format) toss32(x float32, u16, u32 uint32, m kernels.Mode) uint32 {
	if x != x {
		return f.narrow32(math.Float32bits(x), m)
	}
	return f.round(float64(x), m, f.chance32(float64(x), u16, u32))
}

func (f format) dice64(x float64, i int64, m kernels.Mode) uint32 {
	if x != x {
		return f.nan(math.Float64bits(x))
	}
	return f.round(x, m, chance64(draw64(m.Stream, i)))
}

const pinnedStream kernels.Stream = 0x0123456789abcdef

// pinnedValues are rounded by the elements from pinnedFirst on, which lie on
// both sides of a new key.
var pinnedValues = [16]float64{1.0 / 3, -math.Pi, 0x1.00fp0, -0x1.0001p-3, 0.1, -1e-5, 3e-7, 0x1.8p-25,
	-0x1p-30, 65519, 70000, -3.39e38, 1e-40, 1e4 / 7, -0x1.fffp-15, 0x1.fffffep-1}

const pinnedFirst = 3<<20 - 8

var pinned = map[string]string{
	"F32 F16":  "[3555 c248 3c04 b000 2e66 80a8 0005 0000 8000 7bff 7c00 fc00 0000 6595 8400 3c00]",
	"F32 BF16": "[3eaa c049 3f81 be00 3dcd b728 34a1 3340 b080 4780 4788 ff80 0001 44b3 b880 3f80]",
	"F64 F16":  "[3555 c248 3c04 b000 2e66 80a8 0005 0000 8000 7c00 7c00 fc00 0000 6595 8400 3c00]",
	"F64 BF16": "[3eaa c049 3f81 be00 3dcd b728 34a1 3340 b080 4780 4789 ff7f 0001 44b3 b880 3f80]",
	"F64 F32": "[3eaaaaaa c0490fdb 3f807800 be000080 3dcccccd b727c5ad 34a10fb0 33400000 b0800000 477fef00 " +
		"4788b800 ff7f0906 116c3 44b29249 b87ff800 3f7fffff]",
	"stream": "8932c885a3fe960e c2667d3e95629d52 a1b579a1b7aabd3d",
}

func pinnedResults() map[string]string {
	m := kernels.Mode{Rounding: kernels.Stochastic, Stream: pinnedStream, First: pinnedFirst}
	src64 := pinnedValues[:]
	src32 := make([]float32, len(src64))
	for i, v := range src64 {
		src32[i] = float32(v)
	}
	got := map[string]string{}
	for _, k := range kernels16 {
		dst := make([]uint16, len(src32))
		k.narrow(dst, src32, m)
		got["F32 "+k.name] = fmt.Sprintf("%04x", dst)
	}
	for _, k := range kernels64 {
		got["F64 "+k.name] = fmt.Sprintf("%04x", k.narrow(src64, m))
	}
	got["stream"] = fmt.Sprintf("%x %x %x", uint64(kernels.NewStream(0, "")), uint64(kernels.NewStream(42, "model.layers.0.mlp.up_proj.weight")),
		uint64(kernels.NewStream(1<<63, "blk.0.ffn_up.weight")))
	return got
}

// TestStochasticPinned: the results of a stream are what they were.
func TestStochasticPinned(t *testing.T) {
	onEveryTier(t, func(t *testing.T) {
		for name, got := range pinnedResults() {
			if got != pinned[name] {
				t.Errorf("%q: %q,", name, got)
			}
		}
	})
}

// TestNewStream compares with the definition.
func TestNewStream(t *testing.T) {
	for _, name := range []string{"", "a", "model.layers.0.mlp.up_proj.weight", "é"} {
		h := fnv.New64a()
		h.Write([]byte(name))
		for _, seed := range []uint64{0, 1, 1 << 63} {
			want := finish(seed ^ finish(h.Sum64()))
			if got := kernels.NewStream(seed, name); uint64(got) != want {
				t.Errorf("%d, %q: %x, want %x", seed, name, uint64(got), want)
			}
		}
	}
}

// TestStochasticDefinition compares with the definition: values of all kinds,
// at first elements around the places where something turns over.
func TestStochasticDefinition(t *testing.T) {
	n := 3000
	src := make([]float32, n)
	for i := range src {
		switch i % 3 {
		case 0:
			src[i] = math.Float32frombits(uint32(i) * 2654435761)
		case 1:
			src[i] = float32(math.Exp2(float64(i)/100 - 26)) // to around 16
		case 2:
			src[i] = -float32(math.Exp2(float64(i)/70 - 27)) // to -2^16
		}
	}
	for _, k := range kernels16 {
		for _, first := range []int64{0, 1, 15, 16, 17, 31, 33, 1<<20 - 1500, 1<<20 - 1, 5<<20 + 77, 1 << 40, 1<<62 + 1<<20 - 31} {
			for i := range 4 {
				m := kernels.Mode{Rounding: kernels.Stochastic, Stream: pinnedStream + kernels.Stream(first), First: first, Saturate: i&1 != 0, Flush: i&2 != 0}
				want := make([]uint16, n)
				for j, x := range src {
					want[j] = uint16(k.dice32(x, first+int64(j), m))
				}
				onEveryTier(t, func(t *testing.T) {
					got := make([]uint16, n)
					k.narrow(got, src, m)
					for j := range got {
						if got[j] != want[j] {
							t.Fatalf("%s %s, element %d, %#08x: %#04x, want %#04x", k.name, modeName(m), first+int64(j), math.Float32bits(src[j]), got[j], want[j])
						}
					}
				})
			}
		}
	}
}

func TestStochasticDefinition64(t *testing.T) {
	for _, k := range kernels64 {
		src := k.edges(max(k.stride(), 97))
		for _, saturate := range []bool{false, true} {
			m := kernels.Mode{Rounding: kernels.Stochastic, Stream: pinnedStream, First: 1<<20 - 1000, Saturate: saturate}
			for i, got := range k.narrow(src, m) {
				if want := k.dice64(src[i], m.First+int64(i), m); got != want {
					t.Fatalf("%s, element %d, %x: %#x, want %#x", k.name, i, src[i], got, want)
				}
			}
		}
	}
}

// special32 are the values that a kernel may get wrong at one draw in many.
func (f format) special32() []float32 {
	inf := float32(math.Inf(1))
	l := float32(f.largest())
	after := func(x float32) float32 { return math.Nextafter32(x, inf) }
	vs := []float32{0, inf, math.Float32frombits(0x7f800001), math.Float32frombits(0x7fc00000), math.Float32frombits(0x7fffffff),
		l, after(l), math.Nextafter32(l, 0), math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, 0x1.fffffcp-127,
		0x1p-14, math.Nextafter32(0x1p-14, 0), 0x1.ff8p-15, 0x1.fffp-15, 0x1p-24, 0x1.8p-24, 0x1p-25, 0x1p-40, 1, after(1), 0x1.fffffep0}
	if f == fp16 {
		vs = append(vs, 65519, 65520, 65535, math.Nextafter32(65536, 0), 65536, 1e5)
	} else {
		vs = append(vs, 0x1p-133, 0x1.8p-133, 0x1.fep-127)
	}
	for _, v := range vs {
		vs = append(vs, -v)
	}
	return vs
}

// TestStochasticSpecials gives each special value every draw of 16 bits.
func TestStochasticSpecials(t *testing.T) {
	n := 1 << 20
	if short() {
		n = 1 << 14
	}
	m := kernels.Mode{Rounding: kernels.Stochastic, Stream: pinnedStream}
	u16, u32 := make([]uint32, n), make([]uint32, n)
	seen := map[uint32]bool{}
	for i := range u16 {
		u16[i], u32[i] = draw16(m.Stream, int64(i)), draw32(m.Stream, int64(i))
		seen[u16[i]] = true
	}
	if !short() && len(seen) != 1<<16 {
		t.Fatalf("the stream has only %d draws", len(seen))
	}
	src, want, got := make([]float32, n), make([]uint16, n), make([]uint16, n)
	for _, k := range kernels16 {
		for i, x := range k.special32() {
			m.Saturate = i%2 == 1
			for i := range src {
				src[i], want[i] = x, uint16(k.toss32(x, u16[i], u32[i], m))
			}
			onEveryTier(t, func(t *testing.T) {
				k.narrow(got, src, m)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%s %#08x, draw %#04x: %#04x, want %#04x", k.name, math.Float32bits(x), u16[i], got[i], want[i])
					}
				}
			})
		}
	}
}

// TestStochasticOverflow: between the largest value and where the next one
// would be, the draw decides; from there on it is overflow.
func TestStochasticOverflow(t *testing.T) {
	for _, k := range kernels64 {
		step := k.step(k.largest())
		for _, c := range []struct {
			steps    float64
			want     string
			saturate bool
		}{
			{0, "largest", false}, {0.5, "both", false}, {0.5, "largest", true}, {0.999, "both", false},
			{1, "inf", false}, {1, "largest", true}, {1e3, "inf", false}, {1e3, "largest", true},
		} {
			src := make([]float64, 1<<14)
			for i := range src {
				src[i] = k.largest() + c.steps*step
			}
			m := kernels.Mode{Rounding: kernels.Stochastic, Stream: 7, Saturate: c.saturate}
			infs := 0
			for _, b := range k.narrow(src, m) {
				switch b {
				case k.inf():
					infs++
				case k.inf() - 1:
				default:
					t.Fatalf("%s: %#x", k.name, b)
				}
			}
			got := map[bool]string{true: "both"}[infs > 0 && infs < len(src)]
			switch infs {
			case 0:
				got = "largest"
			case len(src):
				got = "inf"
			}
			if got != c.want {
				t.Errorf("%s, %v steps, saturate=%v: %s, want %s", k.name, c.steps, c.saturate, got, c.want)
			}
		}
	}
}

// representative are values with the probability, of 2^16, that the neighbour
// farther from zero is taken. They include subnormal results and the largest.
func (f format) representative() map[float64]float64 {
	tiny := math.Ldexp(1, f.emin-f.mant)
	ps := map[float64]float64{}
	for _, p := range []float64{0x1p-13, 0.125, 1.0 / 4, 0.5, 0x1.4p-1, 0x1.ffp-1} {
		if f == bf16 && p == 0x1p-13 {
			p = 0x1p-12
		}
		for _, v := range []float64{1, -math.Ldexp(1, 3), math.Ldexp(1.5, f.emax), 5 * tiny} {
			ps[v+math.Copysign(p*f.step(v), v)] = p
		}
	}
	return ps
}

const stochasticDraws = 1e7

// flips rounds x so many times and returns, for each, whether the result lies
// farther from zero.
func (k kernel16) flips(x float64, n int, m kernels.Mode) []bool {
	if float64(float32(x)) != x {
		panic(fmt.Sprintf("%x is not FP32", x))
	}
	src, dst, ups := make([]float32, 1<<16), make([]uint16, 1<<16), make([]bool, 0, n)
	for i := range src {
		src[i] = float32(x)
	}
	toZero := uint16(k.narrow64(x, kernels.Mode{Rounding: kernels.TowardZero}))
	for len(ups) < n {
		dst := dst[:min(len(dst), n-len(ups))]
		m.First = int64(len(ups))
		k.narrow(dst, src[:len(dst)], m)
		for _, h := range dst {
			if h != toZero && h != toZero+1 {
				panic(fmt.Sprintf("%s %x became %#04x", k.name, x, h))
			}
			ups = append(ups, h != toZero)
		}
	}
	return ups
}

// TestStochasticFair makes 10^7 draws for each representative value. Their
// mean error must be within 4 sigma of zero; their number in the two cells,
// and in the 16 cells of four draws that follow one another, must pass the
// chi-square test at 1e-4 (the seed is fixed, so it always does).
func TestStochasticFair(t *testing.T) {
	n := int(stochasticDraws)
	if short() {
		n /= 100
	}
	for _, k := range kernels16 {
		for x, p := range k.representative() {
			ups := k.flips(x, n, kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.NewStream(1, "fair")})
			var sum float64
			var cells [16]float64
			for i := 0; i+4 <= n; i += 4 {
				c := 0
				for _, up := range ups[i : i+4] {
					c *= 2
					if up {
						sum++
						c++
					}
				}
				cells[c]++
			}
			sigma := math.Sqrt(float64(n) * p * (1 - p))
			if off := (sum - float64(n)*p) / sigma; math.Abs(off) > 4 {
				t.Errorf("%s %x: %v of %d went up, %.1f sigma from %v", k.name, x, sum, n, off, p)
			}
			if chi := chiSquare(cells[:], p, float64(n/4)); chi > 44.3 { // 15 degrees of freedom, 1e-4
				t.Errorf("%s %x: chi-square %.1f", k.name, x, chi)
			}
		}
	}
}

// chiSquare of the outcomes of four draws, by their bits. Cells of which less
// than ten are expected are put together.
func chiSquare(cells []float64, p, n float64) float64 {
	var chi, rest, restWant float64
	for c, got := range cells {
		want := n
		for b := range 4 {
			if c>>b&1 == 1 {
				want *= p
			} else {
				want *= 1 - p
			}
		}
		if want < 10 {
			rest, restWant = rest+got, restWant+want
			continue
		}
		chi += (got - want) * (got - want) / want
	}
	if restWant > 0 {
		chi += (rest - restWant) * (rest - restWant) / max(restWant, 1)
	}
	return chi
}

// TestStochasticFair64 does the same for FP64, whose probabilities have 64
// bits, with fewer draws.
func TestStochasticFair64(t *testing.T) {
	const n = 1 << 18
	for _, k := range kernels64 {
		for _, v := range []float64{1, math.Ldexp(1.5, k.emax), math.Ldexp(5, k.emin-k.mant)} {
			for _, p := range []float64{0x1p-8, 1.0 / 3, 0.5, 0.9} {
				src := make([]float64, n)
				for i := range src {
					src[i] = v + p*k.step(v)
				}
				low, ups := k.encode(v), 0.0
				for _, b := range k.narrow(src, kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.NewStream(1, "fair")}) {
					ups += float64(b - low)
				}
				if off := (ups - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(off) > 4 {
					t.Errorf("%s %x: %.1f sigma", k.name, src[0], off)
				}
			}
		}
	}
}

// TestStochasticTiling cuts a source anywhere.
func TestStochasticTiling(t *testing.T) {
	src := make([]float32, 2000)
	for i := range src {
		src[i] = float32(math.Exp2(float64(i)/60 - 26))
	}
	defer cpu.Limit("")
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kernels16).Draw(t, "kernel")
		first := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(1<<20-2000, 1<<20), rapid.Int64Range(0, 1<<62)).Draw(t, "first")
		m := kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.Stream(rapid.Uint64().Draw(t, "stream")), First: first}
		setTier(t)
		want := make([]uint16, len(src))
		k.narrow(want, src, m)
		setTier(t)
		got := make([]uint16, len(src))
		for i := 0; i < len(src); {
			n := rapid.IntRange(1, len(src)-i).Draw(t, "piece")
			m.First = first + int64(i)
			k.narrow(got[i:i+n], src[i:i+n], m)
			i += n
		}
		if !slices.Equal(got, want) {
			t.Fatal("the pieces differ from the whole")
		}
	})
}

func setTier(t *rapid.T) {
	if err := cpu.Limit(rapid.SampledFrom(cpu.Tiers()).Draw(t, "tier")); err != nil {
		t.Fatal(err)
	}
}

// TestStochasticTiling16 cuts at the pieces of 16-bit sources and of FP64.
func TestStochasticTiling16(t *testing.T) {
	all := every16()
	m := kernels.Mode{Rounding: kernels.Stochastic, Stream: 5, First: 1<<20 - 1<<15}
	for _, k := range []struct {
		to      kernel16
		convert func(dst, src []uint16, m kernels.Mode)
		widen   func([]float32, []uint16)
	}{{kernels16[1], kernels.F16ToBF16, kernels.F16ToF32}, {kernels16[0], kernels.BF16ToF16, kernels.BF16ToF32}} {
		onEveryTier(t, func(t *testing.T) {
			wide, want, got := make([]float32, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16)
			k.widen(wide, all)
			k.to.narrow(want, wide, m)
			k.convert(got, all, m)
			if !slices.Equal(got, want) {
				t.Errorf("to %s: differs from the way over FP32", k.to.name)
			}
		})
	}
}
