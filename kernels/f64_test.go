package kernels_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/demi-weights/demi/kernels"
	"pgregory.net/rapid"
)

// A kernel64 narrows FP64; the results come as their bits.
type kernel64 struct {
	format
	narrow func(src []float64, m kernels.Mode) []uint32
}

var kernels64 = []kernel64{
	{fp16, func(src []float64, m kernels.Mode) []uint32 { return narrow64To16(kernels.F64ToF16, src, m) }},
	{bf16, func(src []float64, m kernels.Mode) []uint32 { return narrow64To16(kernels.F64ToBF16, src, m) }},
	{fp32, func(src []float64, m kernels.Mode) []uint32 {
		dst := make([]float32, len(src))
		kernels.F64ToF32(dst, src, m)
		return bits32(dst)
	}},
}

func narrow64To16(f func([]uint16, []float64, kernels.Mode), src []float64, m kernels.Mode) []uint32 {
	dst := make([]uint16, len(src))
	f(dst, src, m)
	bits := make([]uint32, len(src))
	for i, h := range dst {
		bits[i] = uint32(h)
	}
	return bits
}

// near appends v and its neighbours, of both signs.
func near(vs []float64, v float64) []float64 {
	b := math.Float64bits(math.Abs(v))
	for _, n := range []uint64{b - 1, b, b + 1} {
		vs = append(vs, math.Float64frombits(n), math.Float64frombits(n|1<<63))
	}
	return vs
}

// edges returns what results turn on: values of f, each stride-th of them, and
// the midpoints above them, with their neighbours, and all kinds of others.
func (f format) edges(stride uint32) []float64 {
	var vs []float64
	for b := uint32(0); b < f.inf(); b += stride {
		v := f.value(b)
		vs = near(near(vs, v), v+f.step(v)/2)
	}
	for _, v := range []float64{f.largest(), f.largest() + f.step(f.largest())/2, math.Ldexp(1, f.emax+1),
		math.Ldexp(1, f.emin), math.Ldexp(1, f.emin-f.mant), math.Ldexp(1, f.emin-f.mant-1),
		0x1p-1022, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1)} {
		vs = near(vs, v)
	}
	for e := range uint64(2048) {
		vs = append(vs, math.Float64frombits(e<<52), math.Float64frombits(e<<52|0x5555555555555), math.Float64frombits((e+1)<<52-1))
	}
	for i := range 52 {
		nan := math.Float64frombits(0x7ff<<52 | 1<<i)
		vs = append(vs, nan, math.Copysign(nan, -1))
	}
	return vs
}

func (k kernel64) stride() uint32 {
	switch {
	case k.format == fp32:
		return 100003
	case short():
		return 17
	}
	return 1
}

// TestF64Edges takes every value of the 16-bit types and every midpoint.
func TestF64Edges(t *testing.T) {
	for _, k := range kernels64 {
		src := k.edges(k.stride())
		for _, m := range policies() {
			for i, b := range k.narrow(src, m) {
				if want := k.narrow64(src[i], m); b != want {
					t.Fatalf("%s %s %x: %#x, want %#x", k.name, modeName(m), src[i], b, want)
				}
			}
		}
	}
}

// narrowBig rounds with math/big, which knows nothing of exponents that end.
func (f format) narrowBig(v float64, m kernels.Mode) float64 {
	x := new(big.Float).SetMode(bigModes[m.Rounding])
	prec := f.mant + 1 - max(0, f.emin-exponent(v))
	if prec < 1 { // of which math/big has no number
		return f.narrowTiny(v, m)
	}
	r, _ := x.SetPrec(uint(prec)).SetFloat64(v).Float64()
	switch {
	case math.Abs(r) > f.largest():
		return math.Copysign(f.overflow(v < 0, m), v)
	case m.Flush && math.Abs(r) < math.Ldexp(1, f.emin):
		return math.Copysign(0, v)
	}
	return r
}

// narrowTiny rounds what is below the smallest value of f.
func (f format) narrowTiny(v float64, m kernels.Mode) float64 {
	smallest := new(big.Float).SetMantExp(big.NewFloat(1), f.emin-f.mant)
	abs := new(big.Float).SetFloat64(math.Abs(v))
	twice := new(big.Float).Add(abs, abs)
	up := false
	switch m.Rounding {
	case kernels.NearestEven:
		up = twice.Cmp(smallest) > 0
	case kernels.NearestAway:
		up = twice.Cmp(smallest) >= 0
	case kernels.Up:
		up = v > 0
	case kernels.Down:
		up = v < 0
	}
	r := 0.0
	if up && !m.Flush {
		r, _ = smallest.Float64()
	}
	return math.Copysign(r, v)
}

var bigModes = map[kernels.Rounding]big.RoundingMode{
	kernels.NearestEven: big.ToNearestEven,
	kernels.NearestAway: big.ToNearestAway,
	kernels.TowardZero:  big.ToZero,
	kernels.Up:          big.ToPositiveInf,
	kernels.Down:        big.ToNegativeInf,
}

func drawMode(t *rapid.T) kernels.Mode {
	return kernels.Mode{
		Rounding: rapid.SampledFrom(deterministic).Draw(t, "rounding"),
		Saturate: rapid.Bool().Draw(t, "saturate"),
		Flush:    rapid.Bool().Draw(t, "flush"),
	}
}

// draw64 draws a value around those that f has: few bits of the significand
// make ties likely.
func (f format) draw64(t *rapid.T) float64 {
	e := rapid.IntRange(f.emin-f.mant-3, f.emax+2).Draw(t, "exponent")
	bits := rapid.IntRange(0, 52).Draw(t, "bits")
	m := rapid.Uint64Range(0, 1<<bits-1).Draw(t, "significand")
	v := math.Ldexp(1+math.Ldexp(float64(m), -bits), e)
	if rapid.Bool().Draw(t, "negative") {
		v = -v
	}
	return v
}

// TestF64Big compares with math/big.
func TestF64Big(t *testing.T) {
	for _, k := range kernels64 {
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) {
			v, m := k.draw64(t), drawMode(t)
			got, want := k.narrow([]float64{v}, m)[0], k.narrowBig(v, m)
			if got != k.encode(want) {
				t.Fatalf("%s %x: %#x, want %x", modeName(m), v, got, want)
			}
		}))
	}
}

// TestF64OfF32 narrows values of FP32 by both ways.
func TestF64OfF32(t *testing.T) {
	var bits []uint32
	for b := uint64(0); b < 1<<32; b += 65521 {
		bits = append(bits, uint32(b))
	}
	src := floats32(bits)
	wide := make([]float64, len(src))
	kernels.F32ToF64(wide, src)
	direct := make([]uint16, len(src))
	for i, k := range kernels16 {
		for _, m := range policies() {
			k.narrow(direct, src, m)
			for j, b := range kernels64[i].narrow(wide, m) {
				if b != uint32(direct[j]) {
					t.Fatalf("%s %s %#08x: %#04x, from FP32 %#04x", k.name, modeName(m), bits[j], b, direct[j])
				}
			}
		}
	}
}
