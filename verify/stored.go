package verify

import "github.com/demi-weights/demi/tensor"

// SameFigures compares what a conversion has reported of a tensor, nil if it
// was copied, with what is found later. What counts as overflow depends on the
// random bits of a stochastic rounding, which are not known later.
func SameFigures(reported, found *tensor.Stats) bool {
	if reported == nil || found == nil {
		return reported == nil && (found == nil || found.Changed == 0)
	}
	a, b := *reported, *found
	a.Overflowed, b.Overflowed = 0, 0
	return a == b
}

// CheckStored compares the figures of r with those that a store carries of the
// tensors of got, and returns a problem for each tensor whose differ: the store
// was made from something else, or its figures are not true. Tensors that have
// no stored record are passed over. checked is how many have one.
func (r *Report) CheckStored(stored []tensor.Record) (checked int, problems []Problem) {
	byName := make(map[string]*tensor.Record, len(stored))
	for i := range stored {
		if stored[i].From != "" {
			byName[stored[i].Name] = &stored[i]
		}
	}
	for i := range r.Records {
		found := &r.Records[i]
		s := byName[found.Name]
		if s == nil || s.From != found.From {
			continue
		}
		checked++
		if !SameFigures(s.Stats, found.Stats) {
			problems = append(problems, Problem{found.Name, "its values do not give the figures that the store carries"})
		}
	}
	return checked, problems
}
