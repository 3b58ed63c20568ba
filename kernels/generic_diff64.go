package kernels

import "math"

// A target64 is what the figures of a tile of FP64 depend on, of the type that
// the values became.
type target64 struct {
	over    [2]uint64 // from here on a magnitude overflows, by sign of x: Inf if none does
	minimum uint64    // the biased exponent, in FP64, of the smallest normal value
	unit    float64   // units of ULP in a value of exponent 0
}

func newTarget64(mant, emin int, over [2]uint64) target64 {
	return target64{over, uint64(emin + 1023), math.Ldexp(1, mant+16)}
}

// under returns the least magnitudes of the source that overflow, by sign.
func (n narrower) overs() [2]uint64 {
	return [2]uint64{n.over(n.toward[0]), n.over(n.toward[1])}
}

func diffF64F16Generic(d *diff, ref []float64, got []uint16, m Mode) {
	t := newTarget64(10, -14, f64ToF16(m).overs())
	var y [chunk]float64
	for i := 0; i < len(ref); i += chunk {
		n := min(chunk, len(ref)-i)
		F16ToF64(y[:n], got[i:i+n])
		d.pairs64(&t, ref[i:i+n], y[:n], i)
	}
}

func diffF64BF16Generic(d *diff, ref []float64, got []uint16, m Mode) {
	t := newTarget64(7, -126, f64ToBF16(m).overs())
	var y [chunk]float64
	for i := 0; i < len(ref); i += chunk {
		n := min(chunk, len(ref)-i)
		BF16ToF64(y[:n], got[i:i+n])
		d.pairs64(&t, ref[i:i+n], y[:n], i)
	}
}

func diffF64F32Generic(d *diff, ref []float64, got []float32, m Mode) {
	t := newTarget64(23, -126, f64ToF32(m).overs())
	var y [chunk]float64
	for i := 0; i < len(ref); i += chunk {
		n := min(chunk, len(ref)-i)
		F32ToF64(y[:n], got[i:i+n])
		d.pairs64(&t, ref[i:i+n], y[:n], i)
	}
}

func diffF64Generic(d *diff, ref, got []float64) {
	t := newTarget64(52, -1022, [2]uint64{inf64, inf64})
	d.pairs64(&t, ref, got, 0)
}

const (
	inf64    = 0x7ff << 52
	normal64 = 1 << 52
)

// pairs64 measures the pairs of x and y, the first of which has index at. It
// forbids the compiler to fuse products and additions.
func (d *diff) pairs64(t *target64, x, y []float64, at int) {
	y = y[:len(x)]
	d.Count += int64(len(x))
	for i, xf := range x {
		yf := y[i]
		xb, yb := math.Float64bits(xf), math.Float64bits(yf)
		xa, ya := xb&^sign64, yb&^sign64
		count(&d.Changed, xb != yb)
		d.small64(t, xa, ya)
		if over := t.over[xb>>63]; (xa >= over || ya >= inf64) && d.odd64(xa, ya, over) {
			continue
		}
		d.Finite++
		e := yf - xf
		if math.Abs(e) > d.MaxAbs {
			d.MaxAbs, d.MaxIndex, d.MaxRef, d.MaxGot = math.Abs(e), int64(at+i), xf, yf
		}
		lane := uint(i) % lanes
		d.err2[lane] += float64(e * e)
		d.ref2[lane] += float64(xf * xf)
		d.refEr[lane] += float64(xf * e)
		u := units(e * inverse(max(xa>>52, t.minimum)) * t.unit)
		s := int64(xb) >> 63
		d.ULPUp += u
		d.ULPAway += (u ^ s) - s
	}
}

// inverse returns one over the power of two that has the biased exponent e.
func inverse(e uint64) float64 {
	if e == 2046 {
		return 0x1p-1023
	}
	return math.Float64frombits((2046 - e) << 52)
}

// small64 counts a pair of magnitudes whose y is zero or subnormal.
func (d *diff) small64(t *target64, x, y uint64) {
	switch {
	case y>>52 >= t.minimum || x == 0 || x > inf64:
	case y == 0:
		d.Flushed++
	case x >= normal64 && x < inf64:
		d.Subnormal++
	}
}

// odd64 is odd for FP64.
func (d *diff) odd64(x, y, over uint64) bool {
	if x < inf64 && (x >= over || y == inf64) {
		d.Overflowed++
	}
	d.class(x > inf64, y > inf64, x == inf64, y == inf64)
	return x >= inf64 || y >= inf64
}
