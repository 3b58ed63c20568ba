package dequant

import (
	"math"

	"github.com/demi-weights/demi/tensor"
)

// float8 returns the value of a float of 8 bits without its sign, all of whose
// codes are numbers: b has the exponent above the mantissa.
func float8(b byte, exponentBits, bias int) float32 {
	mantissaBits := 7 - exponentBits
	man, exp := float64(b&(1<<mantissaBits-1)), int(b&0x7f)>>mantissaBits
	if exp == 0 {
		return float32(math.Ldexp(man, 1-bias-mantissaBits))
	}
	return float32(math.Ldexp(man+float64(int(1)<<mantissaBits), exp-bias-mantissaBits))
}

// values are the 256 values of each 8-bit float. All are FP32 exactly; NaN has
// the sign of its code. E4M3 and E5M2 are those of the OCP 8-bit floating point
// specification, the FNUZ those of Graphcore and AMD (finite, NaN in place of
// -0, a bias one higher), E8M0 that of the OCP microscaling formats.
var values = map[tensor.DType]*[256]float32{
	tensor.F8E4M3:     table(func(b byte) float32 { return unless(b == 0x7f, float8(b, 4, 7)) }),
	tensor.F8E5M2:     table(e5m2),
	tensor.F8E4M3FNUZ: fnuz(4, 8),
	tensor.F8E5M2FNUZ: fnuz(5, 16),
	tensor.F8E8M0:     e8m0(),
}

var nan = math.Float32frombits(0x7fc00000)

func unless(isNaN bool, v float32) float32 {
	if isNaN {
		return nan
	}
	return v
}

func e5m2(b byte) float32 {
	if b == 0x7c {
		return math.Float32frombits(0x7f800000)
	}
	return unless(b > 0x7c, float8(b, 5, 15))
}

// table makes both halves of a table from the values without sign.
func table(f func(b byte) float32) *[256]float32 {
	var t [256]float32
	for i := range 128 {
		v := f(byte(i))
		t[i], t[i+128] = v, math.Float32frombits(math.Float32bits(v)|1<<31)
	}
	return &t
}

func fnuz(exponentBits, bias int) *[256]float32 {
	t := table(func(b byte) float32 { return float8(b, exponentBits, bias) })
	t[0x80] = nan
	return t
}

func e8m0() *[256]float32 {
	var t [256]float32
	for i := range t {
		t[i] = float32(math.Ldexp(1, i-127))
	}
	t[255] = nan
	return &t
}
