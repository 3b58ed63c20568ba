package verify

import (
	"math"

	"github.com/demi-weights/demi/tensor"
)

// A Row is a record for machines: with the figures that follow from its Stats.
type Row struct {
	tensor.Record
	Figures *Figures `json:"figures,omitempty"` // nil without Stats
	Detail  *Details `json:"detail,omitempty"`  // nil if not measured
	// Explanation is nil if not asked for.
	Explanation *Explanation `json:"explanation,omitempty"`
}

// Figures are what Stats imply. A pointer is nil where the figure is not a
// finite number: the SNR where nothing differs, the cosine of a zero vector.
type Figures struct {
	RMSE     *float64 `json:"rmse"`
	SNR      *float64 `json:"snr_db"`
	Cosine   *float64 `json:"cosine"`
	BiasUp   float64  `json:"bias_up_ulp"`
	BiasAway float64  `json:"bias_away_ulp"`
	Equal    int64    `json:"equal"`            // values that did not change
	NaNKept  int64    `json:"nan_kept"`         // NaN that is NaN again
	Biased   string   `json:"biased,omitempty"` // see Biased
}

// NewFigures computes them; nil for nil.
func NewFigures(s *tensor.Stats) *Figures {
	if s == nil {
		return nil
	}
	return &Figures{finite(s.RMSE()), finite(s.SNR()), finite(s.Cosine()), s.BiasUp(), s.BiasAway(),
		s.Count - s.Changed, s.NaNIn - s.NaNLost, Biased(s)}
}

// Rows returns the rows of records.
func Rows(records []tensor.Record) []Row {
	rows := make([]Row, len(records))
	for i, r := range records {
		rows[i] = Row{Record: r, Figures: NewFigures(r.Stats)}
	}
	return rows
}

// Rows returns the rows of the records, with their details and explanations.
func (r *Report) Rows() []Row {
	rows := Rows(r.Records)
	for i, d := range r.Details {
		rows[i].Detail = newDetails(d, r.Records[i].Stats)
	}
	for i, e := range r.Explanations {
		rows[i].Explanation = e
	}
	return rows
}

// Details are a Detail for machines. A pointer is nil where the figure is no
// finite number.
type Details struct {
	MaxRel      *float64   `json:"max_rel"` // null with an index: x is zero there, and y is not
	MaxRelIndex int64      `json:"max_rel_index"`
	MaxRelRef   float64    `json:"max_rel_ref"`
	MaxRelGot   float64    `json:"max_rel_got"`
	StdErrUp    float64    `json:"bias_up_stderr"`
	StdErrAway  float64    `json:"bias_away_stderr"`
	OneSided    string     `json:"one_sided,omitempty"`
	ULPs        []ULPCount `json:"ulps"`
	Saturated   int64      `json:"saturated"`
	DistinctRef int64      `json:"distinct_ref"`
	DistinctGot int64      `json:"distinct_got"`
	DistinctOf  int64      `json:"distinct_of"`
	Top         int        `json:"top,omitempty"`
	TopK        int        `json:"top_k,omitempty"`
	Binades     int        `json:"binades"`
	BinadesAll  int        `json:"binades_of_type"`
	Exponents   []ExpCount `json:"exponents"`
}

// A ULPCount is the number of errors up to UpTo ULP that are larger than those
// of the entry before; UpTo is nil for the largest ones.
type ULPCount struct {
	UpTo  *float64 `json:"up_to"`
	Count int64    `json:"count"`
}

// An ExpCount is the number of values of the reference with 2^Exponent <= |x|
// < 2^(Exponent+1).
type ExpCount struct {
	Exponent int   `json:"exponent"`
	Count    int64 `json:"count"`
}

func newDetails(d *Detail, s *tensor.Stats) *Details {
	if d == nil {
		return nil
	}
	out := &Details{
		finite(d.MaxRel), d.MaxRelIndex, d.MaxRelRef, d.MaxRelGot, d.StdErr(s, s.BiasUp()), d.StdErr(s, s.BiasAway()), d.OneSided(s),
		[]ULPCount{}, d.Saturated, d.DistinctRef, d.DistinctGot, d.DistinctOf, d.Top, d.TopK, d.Binades, d.BinadesAll, []ExpCount{},
	}
	for i, n := range d.ULPs {
		if n > 0 {
			out.ULPs = append(out.ULPs, ULPCount{bucketEnd(i), n})
		}
	}
	for i, n := range d.Exponents {
		if n > 0 {
			out.Exponents = append(out.Exponents, ExpCount{i - 127, n})
		}
	}
	return out
}

// bucketEnd returns the largest error of a bucket of Detail.ULPs.
func bucketEnd(i int) *float64 {
	var end float64
	switch {
	case i == ULPBuckets-1:
		return nil
	case i > 0:
		end = math.Ldexp(1, i-2)
	}
	return &end
}

func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}
