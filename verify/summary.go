package verify

import (
	"cmp"
	"slices"

	"github.com/demi-weights/demi/tensor"
)

// Totals add up records.
type Totals struct {
	Tensors  int          `json:"tensors"`
	Measured int          `json:"measured"` // tensors with Stats
	BytesIn  int64        `json:"bytes_in"`
	BytesOut int64        `json:"bytes_out"`
	Stats    tensor.Stats `json:"stats"`  // of all measured tensors; the index of the largest error is within Largest
	Largest  string       `json:"max_in"` // the tensor that has the largest error; "" if nothing differs
}

func noTotals() Totals { return Totals{Stats: tensor.Stats{MaxIndex: -1}} }

// add adds one record. The sums depend on the order.
func (t *Totals) add(r *tensor.Record) {
	t.Tensors++
	t.BytesIn += r.SizeIn
	t.BytesOut += r.SizeOut
	if r.Stats == nil {
		return
	}
	t.Measured++
	if r.Stats.MaxIndex >= 0 && r.Stats.MaxAbs > t.Stats.MaxAbs {
		t.Largest = r.Name
	}
	t.Stats.Merge(r.Stats)
	if t.Largest == r.Name {
		t.Stats.MaxIndex = r.Stats.MaxIndex
	}
}

// A Summary adds up the records of a checkpoint.
type Summary struct {
	Totals
	Types []TypeCount `json:"types"` // in the order in which they first come
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
	s := &Summary{Totals: noTotals(), Types: []TypeCount{}}
	known := map[[3]string]int{}
	for i := range records {
		s.add(&records[i])
		s.count(known, &records[i])
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
	return worst(records, n, func(r *tensor.Record) *tensor.Stats { return r.Stats })
}

func worst[T any](list []T, n int, stats func(*T) *tensor.Stats) []T {
	var changed []T
	for i := range list {
		if s := stats(&list[i]); s != nil && s.Changed > 0 {
			changed = append(changed, list[i])
		}
	}
	slices.SortStableFunc(changed, func(a, b T) int {
		x, y := stats(&a), stats(&b)
		return cmp.Or(
			cmp.Compare(y.NaNLost+y.NaNMade, x.NaNLost+x.NaNMade),
			cmp.Compare(y.Overflowed, x.Overflowed),
			cmp.Compare(x.SNR(), y.SNR()),
		)
	})
	return changed[:min(n, len(changed))]
}
