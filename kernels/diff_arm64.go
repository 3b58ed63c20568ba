//go:build !purego

package kernels

import (
	"math"

	"github.com/demi-weights/demi/internal/cpu"
)

// inspectRun is the number of elements that the int32 lanes of an inspection
// hold for certain: 64 blocks add four values below 2^22 to each.
const inspectRun = 64 * 16

// An inspection is what the inspecting kernels count, in lanes to be added up.
type inspection struct {
	equal     [4]int32 // pairs whose bits are equal
	up        [4]int32 // sum of u
	below     [4]int32 // sum of u where x is negative
	flushed   [4]int32
	subnormal [4]int32
	largest   [4]uint32 // largest bits of |d|
}

// The inspecting kernels return how many elements they did before a block of
// 16 that is out of the ordinary. n is a multiple of 16, not 0, at most
// inspectRun.

//go:noescape
func f16Inspect(c *inspection, ref *float32, got *uint16, n int) int

//go:noescape
func bf16Inspect(c *inspection, ref *float32, got *uint16, n int) int

// The sums are over n elements, a multiple of 16 that is not 0; the first
// goes to lane 0.

//go:noescape
func f16Sums(err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int)

//go:noescape
func bf16Sums(err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int)

// add adds the figures of n ordinary pairs.
func (d *diff) add(c *inspection, n int) {
	sum := func(l *[4]int32) int64 { return int64(l[0]) + int64(l[1]) + int64(l[2]) + int64(l[3]) }
	d.Count += int64(n)
	d.Finite += int64(n)
	d.Changed += int64(n) - sum(&c.equal)
	d.Flushed += sum(&c.flushed)
	d.Subnormal += sum(&c.subnormal)
	up := sum(&c.up)
	d.ULPUp += up
	d.ULPAway += up - 2*sum(&c.below)
}

// A peak remembers in which run the largest error of all pairs so far is, for
// only that of the last one is worth a search.
type peak struct {
	abs   float32
	at, n int
}

// see takes the largest error of n pairs from index at on.
func (p *peak) see(d *diff, c *inspection, at, n int) {
	abs := math.Float32frombits(max(c.largest[0], c.largest[1], c.largest[2], c.largest[3]))
	if float64(abs) > d.MaxAbs && abs > p.abs {
		*p = peak{abs, at, n}
	}
}

// settle finds the pair and makes it the largest of d.
func (p *peak) settle(d *diff, ref []float32, got []uint16, bf16 bool) {
	var y [16]float32
	for i := p.at; i < p.at+p.n; i += len(y) {
		if bf16 {
			bf16ToF32Arch(y[:], got[i:i+len(y)])
		} else {
			f16ToF32Arch(y[:], got[i:i+len(y)])
		}
		for k := range y {
			if x := ref[i+k]; float32(math.Abs(float64(y[k]-x))) == p.abs {
				d.MaxAbs, d.MaxIndex, d.MaxRef, d.MaxGot = float64(p.abs), int64(i+k), float64(x), float64(y[k])
				*p = peak{}
				return
			}
		}
	}
}

func diffF16Arch(d *diff, ref []float32, got []uint16) int {
	if !cpu.HasNEON {
		return 0
	}
	var p peak
	i, n := 0, len(ref)&^15
	for i < n {
		var c inspection
		run := min(n-i, inspectRun)
		done := f16Inspect(&c, &ref[i], &got[i], run)
		if done > 0 {
			f16Sums(&d.err2, &d.ref2, &d.refEr, &ref[i], &got[i], done)
			d.add(&c, done)
			p.see(d, &c, i, done)
			i += done
		}
		if done < run {
			p.settle(d, ref, got, false)
			diffF16Generic(d, ref, got, i, i+16)
			i += 16
		}
	}
	p.settle(d, ref, got, false)
	return n
}

func diffBF16Arch(d *diff, ref []float32, got []uint16) int {
	if !cpu.HasNEON {
		return 0
	}
	var p peak
	i, n := 0, len(ref)&^15
	for i < n {
		var c inspection
		run := min(n-i, inspectRun)
		done := bf16Inspect(&c, &ref[i], &got[i], run)
		if done > 0 {
			bf16Sums(&d.err2, &d.ref2, &d.refEr, &ref[i], &got[i], done)
			d.add(&c, done)
			p.see(d, &c, i, done)
			i += done
		}
		if done < run {
			p.settle(d, ref, got, true)
			diffBF16Generic(d, ref, got, i, i+16)
			i += 16
		}
	}
	p.settle(d, ref, got, true)
	return n
}
