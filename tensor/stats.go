package tensor

import (
	"encoding/json"
	"math"
)

// ULPScale is the unit of the sums of errors in ULP: they count 2^-16 ULP.
const ULPScale = 1 << 16

// Stats says what happened to the elements of one tensor, or of one tile of
// it, when values x became values y of a narrower type. Every field is a count
// or a sum that is defined to the bit (kernels says how), so that figures do
// not depend on the CPU, the number of workers, or the split of the work.
type Stats struct {
	Count      int64 `json:"count"`      // elements
	Changed    int64 `json:"changed"`    // elements whose bits do not come back by widening y again
	Overflowed int64 `json:"overflowed"` // finite x that rounds beyond the largest finite value, whatever y became
	Flushed    int64 `json:"flushed"`    // x not zero, y zero
	Subnormal  int64 `json:"subnormal"`  // x normal in its type, y subnormal in its type
	NaNIn      int64 `json:"nan_in"`     // x NaN
	NaNOut     int64 `json:"nan_out"`    // y NaN
	NaNLost    int64 `json:"nan_lost"`   // x NaN, y a number or Inf
	NaNMade    int64 `json:"nan_made"`   // x a number or Inf, y NaN
	InfIn      int64 `json:"inf_in"`     // x ±Inf
	InfOut     int64 `json:"inf_out"`    // y ±Inf

	// The sums below are over the pairs in which x and y are finite.

	Finite   int64   `json:"finite"`     // number of such pairs
	SumErr2  float64 `json:"sum_err2"`   // sum of (y-x)^2
	SumRef2  float64 `json:"sum_ref2"`   // sum of x^2
	SumRefEr float64 `json:"sum_ref_er"` // sum of x*(y-x)
	ULPUp    int64   `json:"ulp_up"`     // sum of (y-x)/ulp in 2^-16 ULP: positive is toward +Inf
	ULPAway  int64   `json:"ulp_away"`   // the same with the sign of x: positive is away from zero

	MaxAbs   float64 `json:"max_abs"`   // largest |y-x| of such pairs
	MaxIndex int64   `json:"max_index"` // first element that has it; -1 if no pair differs
	MaxRef   float64 `json:"max_ref"`   // its x
	MaxGot   float64 `json:"max_got"`   // its y
}

// MarshalJSON writes sums and values that are not finite, as the squares of
// large FP64 are, as null.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		plain
		SumErr2  number `json:"sum_err2"`
		SumRef2  number `json:"sum_ref2"`
		SumRefEr number `json:"sum_ref_er"`
		MaxAbs   number `json:"max_abs"`
		MaxRef   number `json:"max_ref"`
		MaxGot   number `json:"max_got"`
	}{plain(s), number(s.SumErr2), number(s.SumRef2), number(s.SumRefEr), number(s.MaxAbs), number(s.MaxRef), number(s.MaxGot)})
}

// A number is a float64 that JSON may have no number for.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Merge adds the figures of the elements that follow those of s: t counts its
// indexes from 0, as a tile does. Tiles are merged in order, for the sums of
// float64 depend on it.
func (s *Stats) Merge(t *Stats) {
	if t.MaxIndex >= 0 && t.Count > 0 && (s.Count == 0 || s.MaxIndex < 0 || t.MaxAbs > s.MaxAbs) {
		s.MaxAbs, s.MaxRef, s.MaxGot = t.MaxAbs, t.MaxRef, t.MaxGot
		s.MaxIndex = s.Count + t.MaxIndex
	} else if s.Count == 0 {
		s.MaxIndex = -1
	}
	s.Count += t.Count
	s.Changed += t.Changed
	s.Overflowed += t.Overflowed
	s.Flushed += t.Flushed
	s.Subnormal += t.Subnormal
	s.NaNIn += t.NaNIn
	s.NaNOut += t.NaNOut
	s.NaNLost += t.NaNLost
	s.NaNMade += t.NaNMade
	s.InfIn += t.InfIn
	s.InfOut += t.InfOut
	s.Finite += t.Finite
	s.SumErr2 += t.SumErr2
	s.SumRef2 += t.SumRef2
	s.SumRefEr += t.SumRefEr
	s.ULPUp += t.ULPUp
	s.ULPAway += t.ULPAway
}

// RMSE returns the root of the mean squared error, 0 without finite pairs.
func (s *Stats) RMSE() float64 {
	if s.Finite == 0 {
		return 0
	}
	return math.Sqrt(s.SumErr2 / float64(s.Finite))
}

// SNR returns the signal-to-noise ratio in dB: +Inf where nothing differs.
func (s *Stats) SNR() float64 {
	if s.SumErr2 == 0 {
		return math.Inf(1)
	}
	return 10 * math.Log10(s.SumRef2/s.SumErr2)
}

// Cosine returns the cosine of the angle between x and y: 1 where nothing
// differs, NaN where one of them is all zeros and the other is not.
func (s *Stats) Cosine() float64 {
	if s.SumErr2 == 0 {
		return 1
	}
	dot := s.SumRef2 + s.SumRefEr
	got2 := dot + s.SumRefEr + s.SumErr2
	return dot / (math.Sqrt(s.SumRef2) * math.Sqrt(got2))
}

// BiasUp returns the mean signed error in ULP of the target type, positive
// toward +Inf.
func (s *Stats) BiasUp() float64 { return meanULP(s.ULPUp, s.Finite) }

// BiasAway returns the mean signed error in ULP of the target type, positive
// away from zero: truncation shows as about -0.5.
func (s *Stats) BiasAway() float64 { return meanULP(s.ULPAway, s.Finite) }

func meanULP(sum, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / ULPScale / float64(n)
}
