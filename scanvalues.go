package demi

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A scanWorker is the memory of one goroutine.
type scanWorker struct {
	in     tile.Reader
	wide   []byte
	seen   []byte // by pattern of 16 bits
	known  distinct
	caster worker // casts what is tried
}

// look finds out about the values of p, which are of type d and in the byte
// order of the machine. If full is set, distinct values are not wanted.
func (w *scanWorker) look(t *scanTile, d tensor.DType, p []byte, full bool) {
	switch d.Bits() {
	case 64:
		t.look64(tile.Float64s(p))
		w.distinct(t, p, 8, full)
	case 32:
		t.look32(tile.Float32s(p))
		w.distinct(t, p, 4, full)
	case 16:
		w.look16(t, d, p)
	default:
		t.look8(d, p)
	}
}

func (t *scanTile) look64(x []float64) {
	t.F64(x)
	if t.NaN+t.Inf == 0 && len(x) > 0 {
		lo, hi := x[0], x[0]
		for _, f := range x {
			lo, hi = min(lo, f), max(hi, f)
		}
		t.extend(lo, hi)
		return
	}
	for i, f := range x {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			t.special(tensor.F64, i, math.Float64bits(f))
		} else {
			t.extend(f, f)
		}
	}
}

func (t *scanTile) look32(x []float32) {
	t.F32(x)
	if t.NaN+t.Inf == 0 && len(x) > 0 {
		lo, hi := range32(x)
		t.extend(float64(lo), float64(hi))
		return
	}
	for i, f := range x {
		if b := math.Float32bits(f); b&0x7f800000 == 0x7f800000 {
			t.special(tensor.F32, i, uint64(b))
		} else {
			t.extend(float64(f), float64(f))
		}
	}
}

// range32 returns the smallest and the largest of finite values. As integers
// that sort like the values they are compared several times as fast.
func range32(x []float32) (lo, hi float32) {
	key := func(f float32) int32 {
		b := int32(math.Float32bits(f))
		return b ^ b>>31&math.MaxInt32
	}
	l, h := key(x[0]), key(x[0])
	l2, h2 := l, h
	for ; len(x) >= 2; x = x[2:] {
		a, b := key(x[0]), key(x[1])
		l, h = min(l, a), max(h, a)
		l2, h2 = min(l2, b), max(h2, b)
	}
	if len(x) > 0 {
		l, h = min(l, key(x[0])), max(h, key(x[0]))
	}
	l, h = min(l, l2), max(h, h2)
	value := func(k int32) float32 { return math.Float32frombits(uint32(k ^ k>>31&math.MaxInt32)) }
	return value(l), value(h)
}

// distinct gathers the distinct patterns of numbers of size bytes.
func (w *scanWorker) distinct(t *scanTile, p []byte, size int, full bool) {
	if full {
		t.more = true
		return
	}
	w.known.reset()
	if size == 4 {
		for _, f := range tile.Float32s(p) {
			if !w.known.add(uint64(math.Float32bits(f))) {
				t.more = true
				return
			}
		}
	} else {
		for _, f := range tile.Float64s(p) {
			if !w.known.add(math.Float64bits(f)) {
				t.more = true
				return
			}
		}
	}
	t.list = append(t.list, w.known.list...)
}

// look16 counts by way of F32 and remembers which patterns there are: range and
// distinct values follow from those of the whole tensor.
func (w *scanWorker) look16(t *scanTile, d tensor.DType, p []byte) {
	h := tile.Uint16s(p)
	wide := tile.Float32s(grow(&w.wide, int64(len(h))*4))
	verify.Widen(wide, d, p)
	t.F32(wide)
	if d == tensor.F16 {
		t.Subnormal = 0 // those are normal as F32
		for _, n := range t.Exponents[1 : 127-14] {
			t.Subnormal += n
		}
	}
	w.mark(&t.seen, h)
	if t.NaN+t.Inf > 0 {
		for i, v := range h {
			if isSpecial(d, uint64(v)) {
				t.special(d, i, uint64(v))
			}
		}
	}
}

// A patternSet has a bit for each pattern of 16 bits.
type patternSet [1 << 16 / 64]uint64

// mark sets the patterns of a tile.
func (w *scanWorker) mark(set *patternSet, h []uint16) {
	if w.seen == nil {
		w.seen = make([]byte, 1<<16)
	}
	seen := (*[1 << 16]byte)(w.seen)
	clear(seen[:])
	for _, v := range h {
		seen[v] = 1
	}
	for k := range set {
		set[k] = pack((*[64]byte)(seen[64*k:]))
	}
}

// pack makes bits of bytes that are 0 or 1.
func pack(b *[64]byte) (w uint64) {
	for i := range 8 {
		x := uint64(b[8*i]) | uint64(b[8*i+1])<<1 | uint64(b[8*i+2])<<2 | uint64(b[8*i+3])<<3
		x |= uint64(b[8*i+4])<<4 | uint64(b[8*i+5])<<5 | uint64(b[8*i+6])<<6 | uint64(b[8*i+7])<<7
		w |= x << (8 * i)
	}
	return w
}

func (t *scanTile) look8(d tensor.DType, p []byte) {
	var counts [256]int64
	for i, v := range p {
		counts[v]++
		if counts[v] == 1 && isSpecial(d, uint64(v)) {
			t.special(d, i, uint64(v))
		}
	}
	f := smallFloats[d]
	t.Count += int64(len(p))
	for v, n := range counts {
		if n == 0 {
			continue
		}
		t.seen[v/64] |= 1 << (v % 64)
		switch x := f.value(byte(v)); {
		case math.IsNaN(x):
			t.NaN += n
		case math.IsInf(x, 0):
			t.Inf += n
		case x == 0:
			t.Zero += n
		case math.Abs(x) < math.Ldexp(1, f.least):
			t.Subnormal += n
		}
	}
}

// patterns makes the list and the range of the patterns that were seen, of a
// type of up to 16 bits.
func (t *scanTile) patterns(d tensor.DType) {
	t.list = t.list[:0]
	for k, w := range t.seen {
		for ; w != 0; w &= w - 1 {
			p := uint64(64*k + bits.TrailingZeros64(w))
			t.list = append(t.list, p)
			if !isSpecial(d, p) {
				x := valueOf(d, p)
				t.extend(x, x)
			}
		}
	}
}

// effective returns the smallest type that holds the values, which are of type
// d.
func (t *scanTile) effective(d tensor.DType) tensor.DType {
	misfits := []struct {
		d tensor.DType
		n int64
	}{{tensor.BF16, t.NotBF16}, {tensor.F16, t.NotF16}, {tensor.F32, t.NotF32}}
	for _, small := range []tensor.DType{tensor.F8E4M3, tensor.F8E5M2} {
		if d.Bits() > 8 && t.on(small, d) {
			return small
		}
	}
	for _, m := range misfits {
		if m.n == 0 && m.d.Bits() < d.Bits() {
			return m.d
		}
	}
	return d
}

// on tells whether all values, of type d, are on the grid of a float of 8 bits.
func (t *scanTile) on(small, d tensor.DType) bool {
	if t.more || len(t.list) > 256 {
		return false
	}
	f := smallFloats[small]
	for _, p := range t.list {
		if isNaN(d, p) {
			if p&^(1<<(d.Bits()-1)) != quietNaN(d) {
				return false
			}
		} else if !f.holds(valueOf(d, p)) {
			return false
		}
	}
	return true
}

// A smallFloat describes a float of 8 bits.
type smallFloat struct {
	mantissa uint    // bits
	bias     int     // of the exponent
	least    int     // exponent of the smallest normal number
	largest  float64 // finite
	inf      bool
	nan      func(p byte) bool
}

// smallFloats are OCP's FP8 (OFP8 1.0), those of AMD and Graphcore without -0
// ("FNUZ"), and the power of two that scales a block of OCP's MX formats.
var smallFloats = map[tensor.DType]*smallFloat{
	tensor.F8E4M3:     {3, 7, -6, 448, false, func(p byte) bool { return p&0x7f == 0x7f }},
	tensor.F8E5M2:     {2, 15, -14, 57344, true, func(p byte) bool { return p&0x7f > 0x7c }},
	tensor.F8E4M3FNUZ: {3, 8, -7, 240, false, func(p byte) bool { return p == 0x80 }},
	tensor.F8E5M2FNUZ: {2, 16, -15, 57344, false, func(p byte) bool { return p == 0x80 }},
	tensor.F8E8M0:     {0, 127, -127, math.MaxFloat64, false, func(p byte) bool { return p == 0xff }},
}

// value returns the value of a pattern.
func (f *smallFloat) value(p byte) float64 {
	if f.nan(p) {
		return math.NaN()
	}
	if f.mantissa == 0 {
		return math.Ldexp(1, int(p)-f.bias)
	}
	e, m := int(p&0x7f)>>f.mantissa, float64(p&(1<<f.mantissa-1))
	one := float64(int(1) << f.mantissa)
	if f.inf && e == 0x7f>>f.mantissa {
		return math.Copysign(math.Inf(1), float64(int8(p|1)))
	}
	if e > 0 {
		m += one
	}
	x := math.Ldexp(m/one, max(e, 1)-f.bias)
	if p >= 0x80 {
		x = -x
	}
	return x
}

// holds tells whether there is a pattern for x, which is not NaN.
func (f *smallFloat) holds(x float64) bool {
	a := math.Abs(x)
	if math.IsInf(a, 1) {
		return f.inf
	}
	if a > f.largest {
		return false
	}
	_, e := math.Frexp(a)
	steps := math.Ldexp(a, int(f.mantissa)-max(e-1, f.least))
	return steps == math.Trunc(steps)
}

// valueOf returns the value of a pattern of type d, which is not NaN.
func valueOf(d tensor.DType, p uint64) float64 {
	var x [1]float64
	switch d {
	case tensor.F64:
		return math.Float64frombits(p)
	case tensor.F32:
		return float64(math.Float32frombits(uint32(p)))
	case tensor.BF16:
		return float64(math.Float32frombits(uint32(p) << 16))
	case tensor.F16:
		kernels.F16ToF64(x[:], []uint16{uint16(p)})
		return x[0]
	}
	return smallFloats[d].value(byte(p))
}

// infinity returns the pattern of Inf; that of types without one is larger than
// all of theirs.
func infinity(d tensor.DType) uint64 {
	switch d {
	case tensor.F64:
		return 0x7ff << 52
	case tensor.F32:
		return 0x7f800000
	case tensor.BF16:
		return 0x7f80
	case tensor.F16:
		return 0x7c00
	case tensor.F8E5M2:
		return 0x7c
	}
	return 1 << 8
}

func quietNaN(d tensor.DType) uint64 {
	inf := infinity(d)
	return inf | inf&-inf>>1
}

func isNaN(d tensor.DType, p uint64) bool {
	if d.Bits() == 8 {
		return smallFloats[d].nan(byte(p))
	}
	return p&^(1<<(d.Bits()-1)) > infinity(d)
}

// isSpecial tells whether a pattern is NaN or Inf.
func isSpecial(d tensor.DType, p uint64) bool {
	return isNaN(d, p) || p&^(1<<(d.Bits()-1)) == infinity(d)
}

// A distinct is a set of up to MaxDistinct patterns. The zero value is empty.
type distinct struct {
	slots []uint64 // of a hash table; 0 is free
	odd   uint64   // a random factor, so that no file can be made to be slow
	zero  bool     // 0 is in the set
	list  []uint64 // what is in the set
}

const distinctBits = 14 // slots for twice MaxDistinct

func (s *distinct) reset() {
	if len(s.list) > 0 {
		clear(s.slots)
	}
	s.list, s.zero = s.list[:0], false
}

// add reports whether v is in the set now.
func (s *distinct) add(v uint64) bool {
	if v == 0 {
		if s.zero {
			return true
		}
		s.zero = len(s.list) < MaxDistinct
		return s.note(v)
	}
	if s.slots == nil {
		s.slots, s.odd = make([]uint64, 1<<distinctBits), rand.Uint64()|1
	}
	k := v * s.odd >> (64 - distinctBits)
	for s.slots[k] != 0 {
		if s.slots[k] == v {
			return true
		}
		k = (k + 1) % (1 << distinctBits)
	}
	if len(s.list) < MaxDistinct {
		s.slots[k] = v
	}
	return s.note(v)
}

func (s *distinct) note(v uint64) bool {
	if len(s.list) >= MaxDistinct {
		return false
	}
	s.list = append(s.list, v)
	return true
}
