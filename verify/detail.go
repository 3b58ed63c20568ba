package verify

import (
	"math"
	"math/bits"
	"slices"

	"github.com/demi-weights/demi/tensor"
)

// A Detail has the figures of one tensor that cost more than those of
// tensor.Stats, which they add to. Like those they are the same to the bit
// whatever the processor and the number of workers: values are compared in
// float64, which holds all of them, an error y-x is rounded once to float64,
// and sums are taken in the order of the elements of a tile, tile by tile.
type Detail struct {
	// The largest |y-x|/|x| of the pairs in which both are finite: +Inf where
	// x is zero and y is not. MaxRelIndex is the first element that has it, -1
	// if no such pair differs.
	MaxRel, MaxRelRef, MaxRelGot float64
	MaxRelIndex                  int64

	// ULPs counts the finite pairs by |y-x| in ULP of the new type at x, as
	// tensor.Stats measures them: ULPs[0] those that are equal, ULPs[1] those up
	// to 1/2, ULPs[k] those up to 2^(k-2), the last also all that are larger.
	ULPs [ULPBuckets]int64
	// ULPSum2 is the sum of the squares of these errors, each limited to 2^31-1.
	ULPSum2 float64

	// Saturated counts the x beyond the range of the new type, Inf too, whose y
	// is the largest finite value.
	Saturated int64

	// Exponents counts the finite x that are not zero by their exponent: |x| in
	// [2^(k-127), 2^(k-126)) is counted in Exponents[k]; the first also has all
	// that is smaller, the last (of F64 alone) all that is larger.
	Exponents [256]int64
	// Binades is the number of exponents that the y which are normal in their
	// type have, BinadesAll that of the type.
	Binades, BinadesAll int

	// The distinct values among DistinctOf elements, before and after: all
	// elements of a tensor of up to 65,536, of a larger one those whose index is
	// a multiple of the same step, at least 16,384 and at most 32,768 of them.
	// Values are told apart by their bits.
	DistinctRef, DistinctGot, DistinctOf int64

	// Top is how many of the TopK largest x have a y that is among the TopK
	// largest y; of equal ones the first are taken, and NaN never. TopK is 0 but
	// for tensors of one dimension with 16 to 65,536 elements.
	Top, TopK int

	binades [32]uint64 // bit set of the biased exponents of y in float64
	sample  pairBits
}

// ULPBuckets is the number of buckets of Detail.ULPs.
const ULPBuckets = 34

// topK is the number of largest elements that are compared: as many experts as
// large routers choose.
const topK = 8

// pairBits are the values of some elements, before and after, as bits.
type pairBits struct{ ref, got []uint64 }

// merge adds the figures of the tile that follows; at is the number of
// elements before it.
func (d *Detail) merge(t *Detail, at int64) {
	if t.MaxRelIndex >= 0 && (d.MaxRelIndex < 0 || t.MaxRel > d.MaxRel) {
		d.MaxRel, d.MaxRelRef, d.MaxRelGot, d.MaxRelIndex = t.MaxRel, t.MaxRelRef, t.MaxRelGot, at+t.MaxRelIndex
	}
	for i, n := range t.ULPs {
		d.ULPs[i] += n
	}
	d.ULPSum2 += t.ULPSum2
	d.Saturated += t.Saturated
	for i, n := range t.Exponents {
		d.Exponents[i] += n
	}
	for i, set := range t.binades {
		d.binades[i] |= set
	}
	d.sample.ref = append(d.sample.ref, t.sample.ref...)
	d.sample.got = append(d.sample.got, t.sample.got...)
	if t.DistinctOf > 0 {
		d.DistinctRef, d.DistinctGot, d.DistinctOf = t.DistinctRef, t.DistinctGot, t.DistinctOf
	}
	if t.TopK > 0 {
		d.Top, d.TopK = t.Top, t.TopK
	}
}

// complete computes what only the whole tensor has.
func (d *Detail) complete(to tensor.DType) {
	if len(d.sample.ref) > 0 {
		d.distinct(&d.sample)
		d.sample = pairBits{}
	}
	p := paramsOf(to)
	d.Binades, d.BinadesAll = 0, p.emax-p.emin+1
	for e := p.emin; e <= p.emax; e++ {
		b := uint(e + 1023)
		d.Binades += int(d.binades[b/64] >> (b % 64) & 1)
	}
}

// distinct counts the different values among p, which it sorts.
func (d *Detail) distinct(p *pairBits) {
	d.DistinctOf = int64(len(p.ref))
	for _, x := range []struct {
		bits []uint64
		n    *int64
	}{{p.ref, &d.DistinctRef}, {p.got, &d.DistinctGot}} {
		slices.Sort(x.bits)
		*x.n = int64(len(slices.Compact(x.bits)))
	}
}

// StdErr returns the standard error of a mean error in ULP, BiasAway or BiasUp
// of s, the figures of the same tensor: what such a mean varies by if errors
// are independent. It is 0 for fewer than two pairs.
func (d *Detail) StdErr(s *tensor.Stats, mean float64) float64 {
	if s.Finite < 2 {
		return 0
	}
	n := float64(s.Finite)
	return math.Sqrt(max(0, d.ULPSum2/n-float64(mean*mean)) / (n - 1))
}

// OneSided says to which side values were rounded, if it was to one: "toward
// zero", which truncation does, "away from zero", "up", "down"; "" if not. To
// one side means that over 1,000 finite pairs or more the mean error is beyond
// 0.05 ULP and six standard errors, and that some error is more than half an
// ULP, which rounding to nearest has none of.
func (d *Detail) OneSided(s *tensor.Stats) string {
	var beyondHalf int64
	for _, n := range d.ULPs[2:] {
		beyondHalf += n
	}
	if s.Finite < 1000 || beyondHalf == 0 {
		return ""
	}
	return side(s, func(mean float64) bool { return math.Abs(mean) > max(biasLimit, 6*d.StdErr(s, mean)) })
}

// biasLimit is the mean error in ULP that is told, and biasCount the number of
// values from which on it cannot be by chance: 17 standard errors of rounding
// to nearest.
const (
	biasLimit = 0.05
	biasCount = 10_000
)

// Biased says to which side the errors of 10,000 finite values or more lean:
// as Detail.OneSided, but from s alone: the mean error is beyond 0.05 ULP.
// Errors that lean may come from rounding to one side, or from values that all
// lie on one side of those that the type holds.
func Biased(s *tensor.Stats) string {
	if s.Finite < biasCount {
		return ""
	}
	return side(s, func(mean float64) bool { return math.Abs(mean) > biasLimit })
}

// side returns the direction of the larger one of the two mean errors, "" if it
// is not large. What goes toward zero also goes up or down if all values have
// one sign.
func side(s *tensor.Stats, large func(mean float64) bool) string {
	away, up := s.BiasAway(), s.BiasUp()
	switch {
	case math.Abs(away) >= math.Abs(up) && large(away):
		return direction(away, "away from zero", "toward zero")
	case large(up):
		return direction(up, "up", "down")
	}
	return ""
}

func direction(mean float64, positive, negative string) string {
	if mean > 0 {
		return positive
	}
	return negative
}

// params are the parameters of a type: of the exponents of normal values, and
// the stored bits of the significand.
type params struct{ mant, emin, emax int }

func paramsOf(d tensor.DType) params {
	switch d {
	case tensor.F16:
		return params{10, -14, 15}
	case tensor.BF16:
		return params{7, -126, 127}
	case tensor.F32:
		return params{23, -126, 127}
	}
	return params{52, -1022, 1023}
}

// largest returns the largest finite value.
func (p params) largest() float64 {
	return math.Ldexp(float64(uint64(1)<<(p.mant+1)-1), p.emax-p.mant)
}

// ulps returns e in steps of the type at a value with the biased exponent of
// float64 that is given.
func (p params) ulps(e float64, biased int) float64 {
	shift := p.mant - max(biased-1023, p.emin)
	if uint(shift+1022) >= 2046 {
		return math.Ldexp(e, shift)
	}
	return e * math.Float64frombits(uint64(shift+1023)<<52)
}

// ulpBucket returns the place in Detail.ULPs of an error u > 0.
func ulpBucket(u float64) int {
	if u <= 0.5 {
		return 1
	}
	ceil := int((math.Float64bits(u)+1<<52-1)>>52) - 1023 // of the logarithm
	return min(ceil+2, ULPBuckets-1)
}

// pairs measures the pairs of x and y, the first of which has index at within
// its tile.
func (d *Detail) pairs(p params, x, y []float64, at int64) {
	largest := p.largest()
	equal, sum2 := int64(0), d.ULPSum2
	for i, a := range x {
		b := y[i]
		ea, eb := exponent(a), exponent(b)
		if math.Abs(a) > largest && math.Abs(b) == largest {
			d.Saturated++
		}
		if eb < 2047 && b != 0 {
			d.binades[eb/64] |= 1 << (eb % 64)
		}
		if ea == 2047 {
			continue
		}
		if a != 0 {
			d.Exponents[min(max(ea-896, 0), 255)]++ // 896 = 1023 - 127
		}
		if eb == 2047 {
			continue
		}
		e := b - a
		if e == 0 {
			equal++
			continue
		}
		u := math.Abs(p.ulps(e, ea))
		d.ULPs[ulpBucket(u)]++
		u = min(u, 1<<31-1)
		sum2 += float64(u * u) // the conversion keeps a compiler from fusing the two
		if math.Abs(e) >= d.MaxRel*math.Abs(a)*(1-0x1p-50) {
			d.relative(a, b, e, at+int64(i))
		}
	}
	d.ULPs[0] += equal
	d.ULPSum2 = sum2
}

func exponent(f float64) int { return int(math.Float64bits(f) >> 52 & 2047) }

// relative notes an error e = b-a that is not zero, if its quotient with a is
// the largest so far.
func (d *Detail) relative(a, b, e float64, index int64) {
	if rel := math.Abs(e) / math.Abs(a); rel > d.MaxRel || d.MaxRelIndex < 0 {
		d.MaxRel, d.MaxRelRef, d.MaxRelGot, d.MaxRelIndex = rel, a, b, index
	}
}

// top counts how many of the largest elements of ref are among those of got,
// which has as many.
func (d *Detail) top(ref, got []uint64) {
	a, b := largest(ref), largest(got)
	d.TopK = len(a)
	for _, i := range a {
		if slices.Contains(b, i) {
			d.Top++
		}
	}
}

// largest returns the indexes of the topK largest values, of equal ones the
// first.
func largest(values []uint64) []int {
	var found []int
	at := func(i int) float64 { return math.Float64frombits(values[i]) }
	for i := range values {
		v := at(i)
		if v != v || len(found) == topK && !(v > at(found[topK-1])) {
			continue
		}
		k := len(found)
		for k > 0 && v > at(found[k-1]) {
			k--
		}
		found = slices.Insert(found, k, i)
		found = found[:min(len(found), topK)]
	}
	return found
}

// sampleStep returns the distance of the elements of a tensor of n that are
// looked at for distinct values: a power of two.
func sampleStep(n int64) int64 {
	return 1 << max(0, bits.Len64(uint64(n-1))-15) // at most 2^15 elements, more than half of that
}
