//go:build !purego

package kernels

import (
	"math"

	"github.com/demi-weights/demi/internal/cpu"
)

// inspectRun is the number of elements after which the driver looks for a new
// largest error, and the size of the buffer of the AVX2 kernels.
const inspectRun = 1024

// An inspection is what the kernels of Diff count: lanes of 32 bits hold a
// whole tile. v and the units are those of diff_amd64.h.
type inspection struct {
	away      [16]int32   // sum of v
	below     [16]int32   // sum of v where x is negative
	ups       [16]int32   // sum of u of subnormal FP16
	belows    [16]int32   // the same where x is negative
	largest   [16]float32 // largest |y-x|
	changed   int64
	flushed   int64
	subnormal int64
}

// The kernels return how many elements they did before a block that is out of
// the ordinary: of 32 elements with AVX-512, of 16 with AVX2.

//go:noescape
func diffF16x512(c *inspection, err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int) int

//go:noescape
func diffBF16x512(c *inspection, err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int) int

//go:noescape
func diffF16x256(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int

//go:noescape
func diffBF16x256(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int

//go:noescape
func diffSumsx256(err2, ref2, refEr *[16]float64, ref *float32, buf *[inspectRun]float32, n int)

// The finders return the first element with |y-x| = abs; there must be one.

//go:noescape
func findF16x512(ref *float32, got *uint16, abs float32) int

//go:noescape
func findBF16x512(ref *float32, got *uint16, abs float32) int

//go:noescape
func findF16x256(ref *float32, got *uint16, abs float32) int

//go:noescape
func findBF16x256(ref *float32, got *uint16, abs float32) int

// add adds the figures of n ordinary pairs. v << shift is in 2^-16 ULP.
func (d *diff) add(c *inspection, n int, shift uint) {
	var away, below, ups, belows int64
	for i := range c.away {
		away += int64(c.away[i])
		below += int64(c.below[i])
		ups += int64(c.ups[i])
		belows += int64(c.belows[i])
	}
	d.Count += int64(n)
	d.Finite += int64(n)
	d.Changed += c.changed
	d.Flushed += c.flushed
	d.Subnormal += c.subnormal
	d.ULPAway += away<<shift + ups - 2*belows
	d.ULPUp += (away-2*below)<<shift + ups
}

// A peak remembers in which run the largest error so far is: only that of the
// last one is worth a search.
type peak struct {
	abs   float64
	at, n int
}

// see looks for a new largest error after n pairs from index at on.
func (p *peak) see(d *diff, c *inspection, at, n int) {
	abs := c.largest[0]
	for _, v := range c.largest[1:] {
		abs = max(abs, v)
	}
	if float64(abs) > d.MaxAbs {
		d.MaxAbs = float64(abs)
		*p = peak{d.MaxAbs, at, n}
	}
}

// settle finds the pair, unless a larger error came after it.
func (p *peak) settle(d *diff, ref []float32, got []uint16, bf16 bool) {
	if p.n == 0 || d.MaxAbs != p.abs {
		return
	}
	i := p.at + find(&ref[p.at], &got[p.at], float32(p.abs), bf16)
	y := widenF16(got[i])
	if bf16 {
		y = widenBF16(got[i])
	}
	d.MaxIndex, d.MaxRef, d.MaxGot = int64(i), float64(ref[i]), float64(math.Float32frombits(y))
}

func find(ref *float32, got *uint16, abs float32, bf16 bool) int {
	switch {
	case cpu.HasAVX512 && bf16:
		return findBF16x512(ref, got, abs)
	case cpu.HasAVX512:
		return findF16x512(ref, got, abs)
	case bf16:
		return findBF16x256(ref, got, abs)
	}
	return findF16x256(ref, got, abs)
}

// f16 inspects n pairs and adds to the sums those before the first block that
// is out of the ordinary. buf is for AVX2.
func (d *diff) f16(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int {
	if cpu.HasAVX512 {
		return diffF16x512(c, &d.err2, &d.ref2, &d.refEr, ref, got, n)
	}
	n = diffF16x256(c, buf, ref, got, n)
	if n > 0 {
		diffSumsx256(&d.err2, &d.ref2, &d.refEr, ref, buf, n)
	}
	return n
}

func (d *diff) bf16(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int {
	if cpu.HasAVX512 {
		return diffBF16x512(c, &d.err2, &d.ref2, &d.refEr, ref, got, n)
	}
	n = diffBF16x256(c, buf, ref, got, n)
	if n > 0 {
		diffSumsx256(&d.err2, &d.ref2, &d.refEr, ref, buf, n)
	}
	return n
}

// diffBlock is the number of pairs that a kernel does or leaves at once.
func diffBlock() int {
	if cpu.HasAVX512 {
		return 32
	}
	return 16
}

// oddBlocks returns how many pairs the generic code does after a kernel that
// did so many: more and more where the kernel gets nowhere.
func oddBlocks(last, block, done int) int {
	if done > 0 {
		return block
	}
	return min(2*last, 512)
}

func diffF16Arch(d *diff, ref []float32, got []uint16) int {
	if !cpu.HasAVX2 {
		return 0
	}
	var c inspection
	var p peak
	var buf [inspectRun]float32
	block := diffBlock()
	n, ordinary := len(ref)&^(block-1), 0
	odd := block
	for i := 0; i < n; {
		run := min(n-i, inspectRun)
		done := d.f16(&c, &buf, &ref[i], &got[i], run)
		p.see(d, &c, i, done)
		ordinary += done
		i += done
		if done < run {
			odd = oddBlocks(odd, block, done)
			end := min(i+odd, n)
			diffF16Generic(d, ref, got, i, end)
			i = end
		}
	}
	d.add(&c, ordinary, 3)
	p.settle(d, ref, got, false)
	return n
}

func diffBF16Arch(d *diff, ref []float32, got []uint16) int {
	if !cpu.HasAVX2 {
		return 0
	}
	var c inspection
	var p peak
	var buf [inspectRun]float32
	block := diffBlock()
	n, ordinary := len(ref)&^(block-1), 0
	odd := block
	for i := 0; i < n; {
		run := min(n-i, inspectRun)
		done := d.bf16(&c, &buf, &ref[i], &got[i], run)
		p.see(d, &c, i, done)
		ordinary += done
		i += done
		if done < run {
			odd = oddBlocks(odd, block, done)
			end := min(i+odd, n)
			diffBF16Generic(d, ref, got, i, end)
			i = end
		}
	}
	d.add(&c, ordinary, 0)
	p.settle(d, ref, got, true)
	return n
}
