package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/cast"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// An Explanation says which rounding gives the values of a tensor to the bit,
// or where each one first does not. NaN explains NaN, whatever its payload.
type Explanation struct {
	// Rules that give every value, by the words of Rules; all of them for a
	// tensor in which nothing had to be rounded. Empty if none does.
	Rules []string `json:"rules"`
	// Deviation is where the rule that goes on for longest first gives another
	// value; nil if some rule gives all.
	Deviation *Deviation `json:"deviation,omitempty"`
}

// A Deviation is an element that a rule does not explain.
type Deviation struct {
	Rule  string  `json:"rule"`
	Index int64   `json:"index"`
	Ref   float64 `json:"ref"`
	Got   float64 `json:"got"`
	Want  float64 `json:"want"` // what the rule gives
}

// MarshalJSON writes values that are not finite as texts.
func (d Deviation) MarshalJSON() ([]byte, error) {
	text := fmt.Sprintf(`{"rule": %q, "index": %d, "ref": %s, "got": %s, "want": %s}`, d.Rule, d.Index, jsonValue(d.Ref), jsonValue(d.Got), jsonValue(d.Want))
	return []byte(text), nil
}

func jsonValue(f float64) string {
	if finite(f) == nil {
		return fmt.Sprintf("%q", Exact(f))
	}
	return Exact(f)
}

// A candidate is a rounding that may explain a tensor. faithful is any of the
// two neighbours, or the value itself: what stochastic rounding gives.
type candidate struct {
	name     string
	mode     kernels.Mode
	faithful bool
}

// candidates in the order in which they are told: the plain ones first.
var candidates = newCandidates()

func newCandidates() (list []candidate) {
	for _, more := range []kernels.Mode{{}, {Saturate: true}, {Flush: true}, {Saturate: true, Flush: true}} {
		for r := kernels.NearestEven; r < kernels.Stochastic; r++ {
			name := r.String()
			if more.Saturate {
				name += "+saturate"
			}
			if more.Flush {
				name += "+flush"
			}
			list = append(list, candidate{name: name, mode: kernels.Mode{Rounding: r, Saturate: more.Saturate, Flush: more.Flush}})
		}
	}
	return append(list, candidate{name: "faithful", faithful: true})
}

// Roundings returns the words of Explanation.Rules: the deterministic modes of
// the kernels, alone and with "+saturate" (finite values beyond the range
// become the largest one), "+flush" (subnormal results become zero) or both;
// and "faithful", one of the two neighbours of each value, which stochastic
// rounding gives.
func Roundings() (names []string) {
	for _, c := range candidates {
		names = append(names, c.name)
	}
	return names
}

// An explaining has what is known of one tensor while it is compared. dead has
// for each candidate the first tile, counted from 1, in which it is known to
// deviate: later tiles need not try it. It is a hint only: what is reported is
// the first deviation in order.
type explaining struct {
	dead  []atomic.Int64
	found []*Deviation // the first one of each candidate, as tiles are merged
}

func newExplaining() *explaining {
	return &explaining{make([]atomic.Int64, len(candidates)), make([]*Deviation, len(candidates))}
}

// kill notes that candidate c deviates in tile k.
func (e *explaining) kill(c int, k int64) {
	for {
		old := e.dead[c].Load()
		if old != 0 && old <= k+1 || e.dead[c].CompareAndSwap(old, k+1) {
			return
		}
	}
}

func (e *explaining) alive(c int, k int64) bool {
	dead := e.dead[c].Load()
	return dead == 0 || dead > k
}

// merge adds the deviations of the next tile, whose first element has index at.
func (e *explaining) merge(found []*Deviation, at int64) {
	for c, d := range found {
		if d != nil && e.found[c] == nil {
			d.Index += at
			e.found[c] = d
		}
	}
}

func (e *explaining) explanation() *Explanation {
	out := &Explanation{Rules: []string{}}
	for c, d := range e.found {
		switch {
		case d == nil:
			out.Rules = append(out.Rules, candidates[c].name)
		case out.Deviation == nil || d.Index > out.Deviation.Index:
			out.Deviation = d
		}
	}
	if len(out.Rules) > 0 {
		out.Deviation = nil
	}
	return out
}

// A roundingMeter tries candidates on tiles. It belongs to one goroutine.
type roundingMeter struct{ want, down, up []byte }

// roundingMemory is what a roundingMeter may hold.
const roundingMemory = 3 * tile.Elems * 8

// tile returns the first deviation of each candidate from tile k of a tensor,
// nil where there is none or the candidate is known to deviate before. x and y
// are as Meter.Tile takes them.
func (m *roundingMeter) tile(e *explaining, k int64, from tensor.DType, x []byte, to tensor.DType, y []byte) []*Deviation {
	found := make([]*Deviation, len(candidates))
	if m.want == nil {
		m.want, m.down, m.up = tile.NewBuffer(tile.Elems*8), tile.NewBuffer(tile.Elems*8), tile.NewBuffer(tile.Elems*8)
	}
	plain := ordinary(to, y)
	for i := range candidates {
		if !e.alive(i, k) || plain && m.implied(e, i, k) {
			continue
		}
		at, want := m.try(&candidates[i], from, x, to, y)
		if at < 0 {
			continue
		}
		found[i] = &Deviation{candidates[i].name, int64(at), valueAt(from, x, at), valueAt(to, y, at), valueAt(to, want, at)}
		e.kill(i, k)
	}
	return found
}

// implied tells whether a candidate explains an ordinary tile because one that
// was tried before does: the same rounding without additions, or for faithful
// any rounding without flush.
func (m *roundingMeter) implied(e *explaining, i int, k int64) bool {
	if candidates[i].faithful {
		for c := range int(kernels.Stochastic) {
			if e.alive(c, k+1) {
				return true
			}
		}
		return false
	}
	base := int(candidates[i].mode.Rounding) // the plain ones come first
	return i != base && e.alive(base, k+1)
}

// ordinary tells whether no value of y can come from an overflow or be
// subnormal, so that neither saturate nor flush matters.
func ordinary(d tensor.DType, y []byte) bool {
	if d.Bits() != 16 {
		return false
	}
	inf := uint16(0x7c00)
	low := uint16(0x0400)
	if d == tensor.BF16 {
		inf, low = 0x7f80, 0x0080
	}
	for _, v := range tile.Uint16s(y) {
		if a := v & 0x7fff; a-low >= inf-1-low && a != 0 && a <= inf {
			return false // a is subnormal, the largest value, or Inf
		}
	}
	return true
}

// try returns the first element that c does not explain, -1 if it explains
// all, and the values that it gives.
func (m *roundingMeter) try(c *candidate, from tensor.DType, x []byte, to tensor.DType, y []byte) (at int, want []byte) {
	if c.faithful {
		down := convert(m.down[:len(y)], from, x, to, kernels.Mode{Rounding: kernels.Down})
		up := convert(m.up[:len(y)], from, x, to, kernels.Mode{Rounding: kernels.Up})
		return deviates(to, y, down, up), down
	}
	want = convert(m.want[:len(y)], from, x, to, c.mode)
	return deviates(to, y, want, want), want
}

func convert(dst []byte, from tensor.DType, x []byte, to tensor.DType, m kernels.Mode) []byte {
	if from == to {
		return x
	}
	cast.Values(to, dst, from, x, m)
	return dst
}

// deviates returns the first element in which y is neither a nor b.
func deviates(d tensor.DType, y, a, b []byte) int {
	if bytes.Equal(y, a) || bytes.Equal(y, b) {
		return -1
	}
	w := d.Bits() / 8
	for i := 0; i < len(y); i += w {
		v := y[i : i+w]
		if bytes.Equal(v, a[i:i+w]) || bytes.Equal(v, b[i:i+w]) {
			continue
		}
		if got, want := valueAt(d, y, i/w), valueAt(d, a, i/w); got == got || want == want {
			return i / w
		}
	}
	return -1
}

// valueAt returns one element.
func valueAt(d tensor.DType, b []byte, i int) float64 {
	w := d.Bits() / 8
	var v [1]float64
	widen64(v[:], d, b[i*w:(i+1)*w])
	return v[0]
}

// Explained says which rules explain all tensors of r, in the order of
// Roundings, or, if none does, the name of the first tensor that no rule
// explains, "" if each has one of its own.
func (r *Report) Explained() (rules []string, first string) {
	for _, c := range candidates {
		all := !slices.ContainsFunc(r.Explanations, func(e *Explanation) bool { return e != nil && !slices.Contains(e.Rules, c.name) })
		if all {
			rules = append(rules, c.name)
		}
	}
	for i, e := range r.Explanations {
		if e != nil && len(e.Rules) == 0 {
			return nil, r.Records[i].Name
		}
	}
	return rules, ""
}

// Simplest returns the rules of a list that need none of the additions: those
// with "+saturate" or "+flush" and "faithful" are left out where a plain one is
// there.
func Simplest(rules []string) []string {
	plain := slices.DeleteFunc(slices.Clone(rules), func(s string) bool { return s == "faithful" || strings.Contains(s, "+") })
	switch {
	case len(plain) > 0:
		return plain
	case len(rules) > 1:
		return slices.DeleteFunc(slices.Clone(rules), func(s string) bool { return s == "faithful" })
	}
	return rules
}
