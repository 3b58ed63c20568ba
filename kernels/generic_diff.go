package kernels

import "math"

// A target is what the figures of a tile of FP32 depend on, of the type that
// the values became.
type target struct {
	over    [2]uint32 // from here on a magnitude overflows, by sign of x: Inf if none does
	tiny    uint32    // the smallest normal value, as float32
	scale   uint64    // plus 1023 and minus the biased exponent of x (in FP32): the exponent of the factor from an error to units of ULP
	minimum uint32    // the biased exponent, in FP32, of tiny
}

// newTarget describes the type with mant stored bits of the significand and
// the exponents from emin on.
func newTarget(mant, emin int, over [2]uint32) target {
	const unit = 16 // units of 2^-16 ULP
	e := uint32(emin + 127)
	return target{over, e << 23, uint64(1023 + mant + unit + 127), e}
}

// diffF16Generic measures elements lo to hi-1. lo is a multiple of 16.
func diffF16Generic(d *diff, ref []float32, got []uint16, lo, hi int) {
	t := newTarget(10, -14, d.overF16)
	var y [128]float32
	for ; lo < hi; lo += len(y) {
		n := min(len(y), hi-lo)
		f16ToF32Generic(y[:n], got[lo:lo+n])
		d.pairs(&t, ref[lo:lo+n], y[:n], lo)
	}
}

// diffBF16Generic measures elements lo to hi-1. lo is a multiple of 16.
func diffBF16Generic(d *diff, ref []float32, got []uint16, lo, hi int) {
	t := newTarget(7, -126, d.overBF16)
	var y [128]float32
	for ; lo < hi; lo += len(y) {
		n := min(len(y), hi-lo)
		bf16ToF32Generic(y[:n], got[lo:lo+n])
		d.pairs(&t, ref[lo:lo+n], y[:n], lo)
	}
}

func diffF32Generic(d *diff, ref, got []float32) {
	t := newTarget(23, -126, [2]uint32{inf32, inf32})
	d.pairs(&t, ref, got, 0)
}

const (
	inf32    = 0x7f800000
	normal32 = 0x00800000
)

// Adding ulpRound to a float64 below 2^51 leaves the nearest integer, of two
// the even one, in its low bits. ulpLimit is the largest error that counts.
const (
	ulpRound     = 0x1.8p52
	ulpRoundBits = 0x4338 << 48
	ulpLimit     = 1<<31 - 1
)

// pairs measures the pairs of x and y, the first of which has index at.
func (d *diff) pairs(t *target, x, y []float32, at int) {
	y = y[:len(x)]
	var changed, odd, up, away int64
	largest := math.Float32bits(float32(d.MaxAbs))
	for i, xf := range x {
		yf := y[i]
		xb, yb := math.Float32bits(xf), math.Float32bits(yf)
		xa, ya := xb&^sign32, yb&^sign32
		if xb != yb {
			changed++
		}
		if ya < t.tiny {
			d.small(xa, ya)
		}
		if over := t.over[xb>>31]; (xa >= over || ya >= inf32) && d.odd(xa, ya, over) {
			odd++
			continue
		}
		diff := yf - xf
		if a := math.Float32bits(diff) &^ sign32; a > largest {
			largest = a
			d.MaxIndex, d.MaxRef, d.MaxGot = int64(at+i), float64(xf), float64(yf)
		}
		// The products are exact: no matter whether an addition is fused to them.
		e, r := float64(diff), float64(xf)
		lane := uint(i) % lanes
		d.err2[lane] += e * e
		d.ref2[lane] += r * r
		d.refEr[lane] += r * e
		u := units(e * math.Float64frombits((t.scale-uint64(max(xa>>23, t.minimum)))<<52))
		s := int64(int32(xb) >> 31)
		up += u
		away += (u ^ s) - s
	}
	d.MaxAbs = float64(math.Float32frombits(largest))
	d.Changed += changed
	d.ULPUp += up
	d.ULPAway += away
	d.Count += int64(len(x))
	d.Finite += int64(len(x)) - odd
}

// units rounds to the nearest integer, of two to the even one, within the
// limits of an error.
func units(v float64) int64 {
	if math.Abs(v) >= ulpLimit {
		v = math.Copysign(ulpLimit, v)
	}
	return int64(math.Float64bits(v+ulpRound) - ulpRoundBits)
}

// small counts a pair of magnitudes whose y is zero or subnormal.
func (d *diff) small(x, y uint32) {
	switch {
	case x == 0 || x > inf32:
	case y == 0:
		d.Flushed++
	case x >= normal32 && x < inf32:
		d.Subnormal++
	}
}

// odd counts a pair of magnitudes of which one is not finite, or which
// overflows, and tells whether one is not finite.
func (d *diff) odd(x, y, over uint32) bool {
	if x < inf32 && (x >= over || y == inf32) {
		d.Overflowed++
	}
	d.class(x > inf32, y > inf32, x == inf32, y == inf32)
	return x >= inf32 || y >= inf32
}

// class counts what is not finite.
func (d *diff) class(xNaN, yNaN, xInf, yInf bool) {
	count(&d.NaNIn, xNaN)
	count(&d.NaNOut, yNaN)
	count(&d.NaNLost, xNaN && !yNaN)
	count(&d.NaNMade, yNaN && !xNaN)
	count(&d.InfIn, xInf)
	count(&d.InfOut, yInf)
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}
