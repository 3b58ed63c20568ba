package verify

import (
	"cmp"
	"slices"

	"github.com/demi-weights/demi/tensor"
)

// A Summary adds up the records of a checkpoint.
type Summary struct {
	Tensors  int          `json:"tensors"`
	Measured int          `json:"measured"` // tensors with Stats
	BytesIn  int64        `json:"bytes_in"`
	BytesOut int64        `json:"bytes_out"`
	Stats    tensor.Stats `json:"stats"`  // of all measured tensors; the index of the largest error is within Largest
	Largest  string       `json:"max_in"` // the tensor that has the largest error; "" if nothing differs
	Types    []TypeCount  `json:"types"`  // in the order in which they first come
}

// A TypeCount says how many tensors went from one type to another.
type TypeCount struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Rounding string `json:"rounding,omitempty"`
	Tensors  int    `json:"tensors"`
	BytesIn  int64  `json:"bytes_in"`
	BytesOut int64  `json:"bytes_out"`
}

// Summarize adds up records. The sums are taken in order.
func Summarize(records []tensor.Record) *Summary {
	s := &Summary{Tensors: len(records), Stats: tensor.Stats{MaxIndex: -1}, Types: []TypeCount{}}
	known := map[[3]string]int{}
	for i := range records {
		r := &records[i]
		s.BytesIn += r.SizeIn
		s.BytesOut += r.SizeOut
		s.count(known, r)
		if r.Stats == nil {
			continue
		}
		s.Measured++
		if r.Stats.MaxIndex >= 0 && r.Stats.MaxAbs > s.Stats.MaxAbs {
			s.Largest = r.Name
		}
		s.Stats.Merge(r.Stats)
		if s.Largest == r.Name {
			s.Stats.MaxIndex = r.Stats.MaxIndex
		}
	}
	return s
}

// count adds r to its entry of Types, whose places known has.
func (s *Summary) count(known map[[3]string]int, r *tensor.Record) {
	key := [3]string{r.From, r.To, r.Rounding}
	i, ok := known[key]
	if !ok {
		i = len(s.Types)
		known[key] = i
		s.Types = append(s.Types, TypeCount{From: r.From, To: r.To, Rounding: r.Rounding})
	}
	t := &s.Types[i]
	t.Tensors++
	t.BytesIn += r.SizeIn
	t.BytesOut += r.SizeOut
}

// Worst returns the n records that lost most, the worst first: those in which
// NaN was lost or made, then those with overflow, then by rising SNR. Records
// in which nothing differs are not among them.
func Worst(records []tensor.Record, n int) []tensor.Record {
	var worst []tensor.Record
	for _, r := range records {
		if r.Stats != nil && r.Stats.Changed > 0 {
			worst = append(worst, r)
		}
	}
	slices.SortStableFunc(worst, func(a, b tensor.Record) int {
		x, y := a.Stats, b.Stats
		return cmp.Or(
			cmp.Compare(y.NaNLost+y.NaNMade, x.NaNLost+x.NaNMade),
			cmp.Compare(y.Overflowed, x.Overflowed),
			cmp.Compare(x.SNR(), y.SNR()),
		)
	})
	return worst[:min(n, len(worst))]
}
