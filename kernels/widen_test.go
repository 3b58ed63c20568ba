package kernels_test

import (
	"math"
	"slices"
	"testing"

	"github.com/demi-weights/demi/kernels"
	"github.com/x448/float16"
)

// TestWiden widens all 2^16 values of both types.
func TestWiden(t *testing.T) {
	all, wide := every16(), make([]float32, 1<<16)
	for _, k := range kernels16 {
		onEveryTier(t, func(t *testing.T) {
			k.widen(wide, all)
			for h, b := range bits32(wide) {
				if want := k.widen32(uint32(h)); b != want {
					t.Fatalf("%s %#04x: %#08x, want %#08x", k.name, h, b, want)
				}
			}
		})
	}
}

// TestWidenX448 compares numbers with x448/float16, and the NaNs.
func TestWidenX448(t *testing.T) {
	wide := make([]float32, 1<<16)
	kernels.F16ToF32(wide, every16())
	for h, b := range bits32(wide) {
		if want := math.Float32bits(float16.Frombits(uint16(h)).Float32()); b != want {
			t.Fatalf("%#04x: %#08x, x448 has %#08x", h, b, want)
		}
	}
}

// TestRoundTrip: all values come back, but signalling NaNs come back quiet.
func TestRoundTrip(t *testing.T) {
	all, wide, back := every16(), make([]float32, 1<<16), make([]uint16, 1<<16)
	for i, k := range kernels16 {
		quiet := uint16(1) << (k.mant - 1)
		onEveryTier(t, func(t *testing.T) {
			for _, m := range append(policies(), kernels.Mode{Rounding: kernels.Stochastic}) {
				if m.Flush {
					continue
				}
				k.widen(wide, all)
				k.narrow(back, wide, m)
				signalling := 0
				for h, b := range back {
					switch {
					case b == uint16(h):
					case uint32(h)&^k.signBit() > k.inf() && b == uint16(h)|quiet:
						signalling++
					default:
						t.Fatalf("%s %s %#04x: came back as %#04x", k.name, modeName(m), h, b)
					}
				}
				if want := []int{1022, 126}[i]; signalling != want {
					t.Errorf("%s: %d NaNs made quiet, want %d", k.name, signalling, want)
				}
			}
		})
	}
}

// TestWidenToF64 widens by both ways.
func TestWidenToF64(t *testing.T) {
	all, wide, want := every16(), make([]float64, 1<<16), make([]float32, 1<<16)
	for _, k := range []struct {
		format
		wide func([]float64, []uint16)
		want func([]float32, []uint16)
	}{{fp16, kernels.F16ToF64, kernels.F16ToF32}, {bf16, kernels.BF16ToF64, kernels.BF16ToF32}} {
		onEveryTier(t, func(t *testing.T) {
			k.wide(wide, all)
			k.want(want, all)
			for h, v := range wide {
				if got, want := math.Float64bits(v), widen64(math.Float32bits(want[h])); got != want {
					t.Fatalf("%s %#04x: %#016x, want %#016x", k.name, h, got, want)
				}
			}
		})
	}
}

// widen64 returns the bits as FP64 of a value of FP32, given by its bits.
func widen64(b uint32) uint64 {
	if a := b & 0x7fffffff; a > 0x7f800000 {
		return uint64(b>>31)<<63 | 0x7ff8000000000000 | uint64(a&0x7fffff)<<29
	}
	return math.Float64bits(fp32.value(b))
}

func TestF32ToF64(t *testing.T) {
	var bits []uint32
	for b := uint64(0); b < 1<<32; b += 10007 {
		bits = append(bits, uint32(b))
	}
	bits = append(bits, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff, 0xff800000, 0xff800001, 0xffffffff,
		0, 1, 0x007fffff, 0x00800000, 0x80000000, 0x80000001)
	wide := make([]float64, len(bits))
	kernels.F32ToF64(wide, floats32(bits))
	for i, b := range bits {
		if got, want := math.Float64bits(wide[i]), widen64(b); got != want {
			t.Fatalf("%#08x: %#016x, want %#016x", b, got, want)
		}
	}
}

// Test16To16 rounds all values of one 16-bit type to the other, in every mode,
// also in place.
func Test16To16(t *testing.T) {
	all := every16()
	for _, k := range []struct {
		from, to format
		convert  func(dst, src []uint16, m kernels.Mode)
	}{{fp16, bf16, kernels.F16ToBF16}, {bf16, fp16, kernels.BF16ToF16}} {
		for _, m := range policies() {
			want := make([]uint16, 1<<16)
			for h := range want {
				want[h] = uint16(k.to.narrow32(k.from.widen32(uint32(h)), m))
			}
			onEveryTier(t, func(t *testing.T) {
				got := slices.Clone(all)
				k.convert(got, got, m)
				for h := range got {
					if got[h] != want[h] {
						t.Fatalf("%s to %s, %s, %#04x: %#04x, want %#04x", k.from.name, k.to.name, modeName(m), h, got[h], want[h])
					}
				}
			})
		}
	}
}
