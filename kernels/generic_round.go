package kernels

import "math/bits"

// The generic code narrows integers, not numbers: the magnitude of a binary
// float is ordered as its bits are, and dropping the low bits of the
// significand, after adding something below them, rounds it; a carry goes to
// the next exponent, and from the last exponent to infinity.

// A toward says which way a magnitude is rounded.
type toward uint8

const (
	inward  toward = iota // down: toward zero
	outward               // up: away from zero
	even                  // to nearest, ties to even
	away                  // to nearest, ties up
	dice                  // by random bits
)

// towards returns how a mode rounds positive and negative magnitudes.
func (r Rounding) towards() [2]toward {
	switch r {
	case NearestEven:
		return [2]toward{even, even}
	case NearestAway:
		return [2]toward{away, away}
	case TowardZero:
		return [2]toward{inward, inward}
	case Up:
		return [2]toward{outward, inward}
	case Down:
		return [2]toward{inward, outward}
	case Stochastic:
		return [2]toward{dice, dice}
	}
	panic("kernels: unknown " + r.String())
}

// bias returns what is added to a magnitude before its low bits go. To
// nearest even, the lowest bit that stays is added as well.
func (t toward) bias(low uint) uint64 {
	switch t {
	case outward:
		return 1<<low - 1
	case even:
		return 1<<low>>1 - 1
	case away:
		return 1 << low >> 1
	}
	return 0
}

// odd returns 1 if the lowest bit that stays is added too.
func (t toward) odd() uint64 {
	if t == even {
		return 1
	}
	return 0
}

// shift returns m, which is not zero, without its low bits, rounded. u are
// random bits, to be compared with the first 64 bits of the fraction that is
// lost.
func (t toward) shift(m uint64, low uint, u uint64) uint64 {
	switch {
	case t == dice && u < m<<(64-low)|m>>(low-64): // shifts by 64 and more, also "negative" ones, give 0
		return m>>low + 1
	case t == dice:
		return m >> low
	case low <= 55:
		return (m + t.bias(low) + m>>low&t.odd()) >> low
	case t == outward:
		return 1
	}
	return 0 // less than half, as no significand has 55 bits
}

// A step is the way from one format to a narrower one, all in bits of
// magnitudes: those of the source are 64-bit integers here, whatever its
// width.
type step struct {
	srcMant uint   // bits of the significand that are stored, in the source
	srcInf  uint64 // +Inf in the source
	low     uint   // stored bits of the significand that a normal result loses
	rebase  uint64 // what the exponents differ by, in place in the source
	normal  uint64 // the smallest normal value of the target, as the source has it
	safe    uint64 // above this, as the source has it, something may overflow: the largest of the target
	inf     uint64 // +Inf in the target
	tiny    uint64 // the smallest normal value of the target
}

// newStep describes the way between two formats of IEEE 754: mant stored bits
// of the significand and exp of the exponent.
func newStep(srcMant, srcExp, mant, exp uint) step {
	s := step{srcMant: srcMant, low: srcMant - mant, inf: (1<<exp - 1) << mant, tiny: 1 << mant}
	s.srcInf = (1<<srcExp - 1) << srcMant
	s.rebase = (1<<(srcExp-1) - 1<<(exp-1)) << srcMant
	s.normal = s.rebase + 1<<srcMant
	s.safe = s.rebase + (s.inf-1)<<s.low
	return s
}

// A narrower is a step under a mode.
type narrower struct {
	step
	toward [2]toward // by sign
	mode   Mode
}

// magnitude rounds the finite magnitude a, which is not zero, of a value with
// that sign bit. It may return Inf and more. u as for shift.
func (n *narrower) magnitude(a, sign, u uint64) uint64 {
	t := n.toward[sign]
	if a >= n.normal {
		return t.shift(a-n.rebase, n.low, u)
	}
	// The result counts the smallest subnormals of the target. A source that
	// is subnormal itself where the target's exponents are the same is right
	// either way.
	e := max(a>>n.srcMant, 1)
	m := a - (e-1)<<n.srcMant // with the leading bit, unless subnormal
	low := n.low + uint(n.normal>>n.srcMant-e)
	return t.shift(m, low, u)
}

// narrow returns the magnitude of the target for a, of a value with that sign
// bit; u as for shift.
func (n *narrower) narrow(a, sign, u uint64) uint64 {
	switch {
	case a > n.srcInf:
		return n.inf | n.tiny>>1 | (a&^n.srcInf)>>n.low
	case a == n.srcInf:
		return n.inf
	case a == 0:
		return 0
	}
	r := n.magnitude(a, sign, u)
	if r >= n.inf {
		r = n.inf
		if n.mode.Saturate || n.toward[sign] == inward {
			r--
		}
	}
	if n.mode.Flush && r < n.tiny {
		r = 0
	}
	return r
}

// fast returns the range of magnitudes whose results the loops may compute
// without looking further: from lo, span of them.
func (n *narrower) fast() (lo, span uint64) {
	lo = n.normal
	if n.rebase == 0 && !n.mode.Flush {
		lo = 0 // the grids are the same below, too
	}
	return lo, n.safe - lo + 1
}

func (s step) under(m Mode) narrower { return narrower{s, m.Rounding.towards(), m} }

const sign32, sign64 = 1 << 31, 1 << 63

func f32ToF16(m Mode) narrower  { return newStep(23, 8, 10, 5).under(m) }
func f32ToBF16(m Mode) narrower { return newStep(23, 8, 7, 8).under(m) }
func f64ToF16(m Mode) narrower  { return newStep(52, 11, 10, 5).under(m) }
func f64ToBF16(m Mode) narrower { return newStep(52, 11, 7, 8).under(m) }
func f64ToF32(m Mode) narrower  { return newStep(52, 11, 23, 8).under(m) }

// width returns the bits of the target.
func (n *narrower) width() int { return bits.Len64(n.inf) + 1 }
