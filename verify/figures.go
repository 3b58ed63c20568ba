package verify

import (
	"math"

	"github.com/demi-weights/demi/tensor"
)

// A Row is a record for machines: with the figures that follow from its Stats.
type Row struct {
	tensor.Record
	Figures *Figures `json:"figures,omitempty"` // nil without Stats
}

// Figures are what Stats imply. A pointer is nil where the figure is not a
// finite number: the SNR where nothing differs, the cosine of a zero vector.
type Figures struct {
	RMSE     *float64 `json:"rmse"`
	SNR      *float64 `json:"snr_db"`
	Cosine   *float64 `json:"cosine"`
	BiasUp   float64  `json:"bias_up_ulp"`
	BiasAway float64  `json:"bias_away_ulp"`
}

// NewFigures computes them; nil for nil.
func NewFigures(s *tensor.Stats) *Figures {
	if s == nil {
		return nil
	}
	return &Figures{finite(s.RMSE()), finite(s.SNR()), finite(s.Cosine()), s.BiasUp(), s.BiasAway()}
}

// Rows returns the rows of records.
func Rows(records []tensor.Record) []Row {
	rows := make([]Row, len(records))
	for i, r := range records {
		rows[i] = Row{r, NewFigures(r.Stats)}
	}
	return rows
}

func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}
