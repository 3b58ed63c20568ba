package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/kernels"
)

// A format is a binary format of IEEE 754 as the standard describes it. What
// follows is written from its rules with exact arithmetic of float64, and owes
// nothing to the kernels.
type format struct {
	name             string
	mant, emin, emax int // stored bits of the significand; exponents of normal values
}

var (
	fp16 = format{"F16", 10, -14, 15}
	bf16 = format{"BF16", 7, -126, 127}
	fp32 = format{"F32", 23, -126, 127}
)

func (f format) largest() float64 {
	return math.Ldexp(2-math.Ldexp(1, -f.mant), f.emax)
}

// inf returns the magnitude of Inf as bits.
func (f format) inf() uint32 { return uint32(f.emax-f.emin+2) << f.mant }

func (f format) signBit() uint32 { return (f.inf() + 1<<f.mant) }

// step returns the distance of the values of f around v.
func (f format) step(v float64) float64 {
	return math.Ldexp(1, max(exponent(v), f.emin)-f.mant)
}

// exponent returns the largest e with 2^e <= |v|, a very small one for zero.
func exponent(v float64) int {
	if v == 0 {
		return -1 << 20
	}
	return math.Ilogb(v)
}

// value returns the value of bits that are not those of a NaN.
func (f format) value(b uint32) float64 {
	a := b &^ f.signBit()
	e, m := int(a>>f.mant), float64(a&(1<<f.mant-1))
	v := math.Ldexp(m, f.emin-f.mant)
	switch {
	case a == f.inf():
		v = math.Inf(1)
	case e > 0:
		v = math.Ldexp(m+math.Ldexp(1, f.mant), e-1+f.emin-f.mant)
	}
	if a != b {
		v = -v
	}
	return v
}

// encode returns the bits of a value of f.
func (f format) encode(v float64) uint32 {
	var sign uint32
	if math.Signbit(v) {
		sign, v = f.signBit(), -v
	}
	switch e := exponent(v); {
	case math.IsInf(v, 0):
		return sign | f.inf()
	case e < f.emin:
		return sign | uint32(math.Ldexp(v, f.mant-f.emin))
	default:
		m := math.Ldexp(v, f.mant-e) - math.Ldexp(1, f.mant)
		return sign | uint32(e-f.emin+1)<<f.mant | uint32(m)
	}
}

// integer rounds t >= 0, the magnitude of a value with that sign, to an
// integer. chance decides whether a fraction that is lost counts as one in
// stochastic rounding.
func integer(t float64, negative bool, r kernels.Rounding, chance func(lost float64) bool) float64 {
	floor := math.Floor(t)
	lost := t - floor
	var up bool
	switch r {
	case kernels.NearestEven:
		up = lost > 0.5 || lost == 0.5 && math.Mod(floor, 2) == 1
	case kernels.NearestAway:
		up = lost >= 0.5
	case kernels.Up:
		up = lost > 0 && !negative
	case kernels.Down:
		up = lost > 0 && negative
	case kernels.Stochastic:
		up = chance(lost)
	}
	if up {
		floor++
	}
	return floor
}

// round returns the bits of v, which is not a NaN, rounded to f.
func (f format) round(v float64, m kernels.Mode, chance func(lost float64) bool) uint32 {
	if v == 0 || math.IsInf(v, 0) {
		return f.encode(v)
	}
	negative, step := v < 0, f.step(v)
	r := integer(math.Abs(v)/step, negative, m.Rounding, chance) * step
	switch {
	case r > f.largest():
		r = f.overflow(negative, m)
	case m.Flush && r < math.Ldexp(1, f.emin):
		r = 0
	}
	if negative {
		r = -r
	}
	return f.encode(r)
}

// overflow returns the magnitude that stands for one that is too large.
func (f format) overflow(negative bool, m kernels.Mode) float64 {
	switch {
	case m.Saturate, m.Rounding == kernels.TowardZero,
		m.Rounding == kernels.Up && negative, m.Rounding == kernels.Down && !negative:
		return f.largest()
	}
	return math.Inf(1)
}

// nan returns the bits of the NaN that one of FP64, as bits, becomes.
func (f format) nan(b uint64) uint32 {
	payload := uint32(b & (1<<52 - 1) >> (52 - f.mant))
	return uint32(b>>63)*f.signBit() | f.inf() | 1<<(f.mant-1) | payload
}

// narrow64 returns the bits of x rounded to f by a deterministic mode.
func (f format) narrow64(x float64, m kernels.Mode) uint32 {
	if x != x {
		return f.nan(math.Float64bits(x))
	}
	return f.round(x, m, nil)
}

// narrow32 returns the bits of the float32 with the bits b, rounded to f.
func (f format) narrow32(b uint32, m kernels.Mode) uint32 {
	if b&0x7fffffff > 0x7f800000 {
		return f.nan(uint64(b)>>31<<63 | uint64(b&0x7fffffff)<<29)
	}
	return f.round(fp32.value(b), m, nil)
}

// widen32 returns the bits as FP32 of a value of f, given by its bits.
func (f format) widen32(b uint32) uint32 {
	if a := b &^ f.signBit(); a > f.inf() {
		return b/f.signBit()<<31 | 0x7fc00000 | a<<(23-f.mant)&0x7fffff
	}
	return fp32.encode(f.value(b))
}

// A kernel16 narrows FP32 to 16 bits.
type kernel16 struct {
	format
	narrow func(dst []uint16, src []float32, m kernels.Mode)
	widen  func(dst []float32, src []uint16)
}

var kernels16 = []kernel16{
	{fp16, kernels.F32ToF16, kernels.F16ToF32},
	{bf16, kernels.F32ToBF16, kernels.BF16ToF32},
}

var deterministic = []kernels.Rounding{kernels.NearestEven, kernels.NearestAway, kernels.TowardZero, kernels.Up, kernels.Down}

// policies returns every mode but the stochastic ones.
func policies() []kernels.Mode {
	var ms []kernels.Mode
	for _, r := range deterministic {
		for i := range 4 {
			ms = append(ms, kernels.Mode{Rounding: r, Saturate: i&1 != 0, Flush: i&2 != 0})
		}
	}
	return ms
}

// onEveryTier runs f under each implementation that this processor can run.
func onEveryTier(t *testing.T, f func(t *testing.T)) {
	for _, tier := range cpu.Tiers() {
		t.Run(tier, func(t *testing.T) {
			limit(t, tier)
			f(t)
		})
	}
}

// limit turns the tiers above the named one off until the test ends.
func limit(tb testing.TB, tier string) {
	tb.Helper()
	if err := cpu.Limit(tier); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cpu.Limit(""); err != nil {
			tb.Fatal(err)
		}
	})
}

// every16 returns all values of 16 bits.
func every16() []uint16 {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	return all
}

func floats32(bits []uint32) []float32 {
	xs := make([]float32, len(bits))
	for i, b := range bits {
		xs[i] = math.Float32frombits(b)
	}
	return xs
}

func bits32(xs []float32) []uint32 {
	bits := make([]uint32, len(xs))
	for i, x := range xs {
		bits[i] = math.Float32bits(x)
	}
	return bits
}

func modeName(m kernels.Mode) string {
	s := "round=" + m.Rounding.String()
	if m.Saturate {
		s += ",saturate"
	}
	if m.Flush {
		s += ",flush"
	}
	return s
}

// TestReference makes sure that the reference knows the formats.
func TestReference(t *testing.T) {
	for _, f := range []format{fp16, bf16} {
		for b := range f.signBit() * 2 {
			if b&^f.signBit() > f.inf() {
				continue
			}
			if got := f.encode(f.value(b)); got != b {
				t.Fatalf("%s %#04x: came back as %#04x", f.name, b, got)
			}
		}
	}
	for _, v := range []float64{65504, 0x1p-24, 0x1p-14, 1, 0x1.ffcp15} {
		if got := fp16.value(fp16.encode(v)); got != v {
			t.Errorf("F16 %v: %v", v, got)
		}
	}
	for _, c := range []struct {
		f       format
		largest float64
		inf     uint32
	}{{fp16, 65504, 0x7c00}, {bf16, 0x1.fep127, 0x7f80}, {fp32, math.MaxFloat32, 0x7f800000}} {
		if c.f.largest() != c.largest || c.f.inf() != c.inf {
			t.Errorf("%s: %v, %#x", c.f.name, c.f.largest(), c.f.inf())
		}
	}
	if got := fmt.Sprintf("%x", fp16.narrow64(65519.999, kernels.Mode{})); got != "7bff" {
		t.Errorf("65519.999: %s", got)
	}
}

// short tells whether the tests that take long are to take samples.
func short() bool { return testing.Short() || raceEnabled }
