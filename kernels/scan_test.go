package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/kernels"
)

// fits64 tells whether x, given by its bits as FP64, comes back from f.
func (f format) fits64(bits uint64) bool {
	x := math.Float64frombits(bits)
	if x != x {
		return bits&(1<<51) != 0 && bits&(1<<(52-f.mant)-1) == 0
	}
	return math.Float64bits(f.value(f.narrow64(x, kernels.Mode{}))) == bits
}

// naiveScan looks at values of a type, given by their bits as FP64.
func naiveScan(bits []uint64, f format) kernels.Scan {
	s := kernels.Scan{Count: int64(len(bits))}
	for _, b := range bits {
		add := func(n *int64, yes bool) {
			if yes {
				*n++
			}
		}
		x := math.Abs(math.Float64frombits(b))
		inf := math.IsInf(x, 0)
		add(&s.NotF16, !fp16.fits64(b))
		add(&s.NotBF16, !bf16.fits64(b))
		add(&s.NotF32, f == fp64 && !fp32.fits64(b))
		add(&s.NaN, x != x)
		add(&s.Inf, inf)
		add(&s.Zero, x == 0)
		add(&s.Subnormal, x > 0 && x < math.Ldexp(1, f.emin))
		if x > 0 && !inf {
			s.Largest = max(s.Largest, x)
			if s.Smallest == 0 || x < s.Smallest {
				s.Smallest = x
			}
		}
		switch {
		case x != x || inf:
			s.Exponents[255]++
		default:
			s.Exponents[min(max(exponent(x), -127)+127, 255)]++
		}
	}
	return s
}

// signal64 widens bits of FP32 without making NaNs quiet.
func signal64(b uint32) uint64 {
	if b&0x7fffffff > 0x7f800000 {
		return uint64(b>>31)<<63 | 0x7ff<<52 | uint64(b&0x7fffff)<<29
	}
	return math.Float64bits(fp32.value(b))
}

func TestScanF32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tiles := tiles32(r, 5000)
	for _, k := range kernels16 {
		wide := make([]float32, 1<<16)
		k.widen(wide, every16())
		tiles["all of "+k.name] = wide
		off := make([]float32, 1<<16)
		for i, x := range wide {
			off[i] = math.Float32frombits(math.Float32bits(x) ^ 1<<r.IntN(32))
		}
		tiles["around "+k.name] = off
	}
	for name, xs := range tiles {
		bits := make([]uint64, len(xs))
		for i, x := range xs {
			bits[i] = signal64(math.Float32bits(x))
		}
		want := naiveScan(bits, fp32)
		for _, tier := range cpu.Tiers() {
			limit(t, tier)
			var got, merged kernels.Scan
			got.F32(xs)
			for i := 0; i < len(xs); i += 1001 {
				var s kernels.Scan
				s.F32(xs[i:min(i+1001, len(xs))])
				merged.Merge(&s)
			}
			if got != want || merged != want {
				t.Errorf("%s, %s:\n got %+v\nmerged %+v\n  want %+v", name, tier, got, merged, want)
			}
		}
	}
}

func TestScanF64(t *testing.T) {
	for name, xs := range tiles64(rand.New(rand.NewPCG(5, 6)), 3000) {
		bits := make([]uint64, len(xs))
		for i, x := range xs {
			bits[i] = math.Float64bits(x)
		}
		var got kernels.Scan
		got.F64(xs)
		if want := naiveScan(bits, fp64); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// TestScanFits: what fits comes back from the kernels themselves, and nothing
// else does.
func TestScanFits(t *testing.T) {
	xs := tiles32(rand.New(rand.NewPCG(9, 9)), 3000)["bits"]
	for _, h := range every16() {
		xs = append(xs, math.Float32frombits(fp16.widen32(uint32(h))), math.Float32frombits(uint32(h)<<16))
	}
	y, back := make([]uint16, len(xs)), make([]float32, len(xs))
	var s kernels.Scan
	s.F32(xs)
	for i, k := range kernels16 {
		k.narrow(y, xs, kernels.Mode{})
		k.widen(back, y)
		n := int64(0)
		for i := range xs {
			if math.Float32bits(xs[i]) != math.Float32bits(back[i]) {
				n++
			}
		}
		if got := []int64{s.NotF16, s.NotBF16}[i]; got != n {
			t.Errorf("%s: %d do not fit, %d do not come back", k.name, got, n)
		}
	}
}
