package verify

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"

	"github.com/go-json-experiment/json"

	"github.com/demi-weights/demi/tensor"
)

// Limits say what a conversion may cost a tensor. The zero value allows
// everything; a pointer that is nil sets no limit. Each limit on an error but
// MaxBiasULP also forbids that a value which is not finite is lost or made, for
// no error can be told then.
type Limits struct {
	MaxAbs      *float64 `json:"max_abs,omitzero"`      // of |y-x|
	MaxRel      *float64 `json:"max_rel,omitzero"`      // of |y-x|/|x|; needs Options.Detail
	MinSNR      *float64 `json:"min_snr_db,omitzero"`   // in dB
	MaxBiasULP  *float64 `json:"max_bias_ulp,omitzero"` // of both mean errors, beyond what chance gives: see biasChance
	NoOverflow  bool     `json:"no_overflow,omitzero"`  // no finite value beyond the range of the new type
	NoUnderflow bool     `json:"no_underflow,omitzero"` // no value that becomes zero
	Exact       bool     `json:"exact,omitzero"`        // no value that changes
}

// A Rule is the limits of the tensors whose names match.
type Rule struct {
	Match *regexp.Regexp
	Limits
}

// LimitSet is the limits of a checkpoint: those of the first rule that matches
// the name of a tensor, else Default.
type LimitSet struct {
	Rules   []Rule
	Default Limits
}

// A Violation is a limit that a tensor breaks.
type Violation struct {
	Tensor string `json:"tensor"`
	Limit  string `json:"limit"` // as in the JSON of Limits
	Text   string `json:"text"`
}

// ReadLimits reads the rules of a file: {"limits": [{"match": "regex", "max_abs":
// 0.001, …}, …]} with the fields of Limits. A field that is not known, a limit
// that is not a number, an expression that is not one, and a file without the
// list are errors.
func ReadLimits(r io.Reader) ([]Rule, error) {
	var file struct {
		Limits []struct {
			Match string `json:"match"`
			Limits
		} `json:"limits"`
	}
	if err := json.UnmarshalRead(r, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if file.Limits == nil {
		return nil, errors.New("limits: the list of that name is missing")
	}
	var rules []Rule
	for i, l := range file.Limits {
		match, err := regexp.Compile(l.Match)
		if err == nil {
			err = l.Limits.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("limits: entry %d: %w", i, err)
		}
		rules = append(rules, Rule{match, l.Limits})
	}
	return rules, nil
}

// Check refuses limits that nothing can meet or that are no numbers.
func (l *Limits) Check() error {
	for _, x := range []struct {
		name  string
		value *float64
	}{{"max_abs", l.MaxAbs}, {"max_rel", l.MaxRel}, {"max_bias_ulp", l.MaxBiasULP}} {
		if x.value != nil && !(*x.value >= 0) {
			return fmt.Errorf("%s: a limit of %v", x.name, *x.value)
		}
	}
	if l.MinSNR != nil && math.IsNaN(*l.MinSNR) {
		return fmt.Errorf("min_snr_db: a limit of %v", *l.MinSNR)
	}
	return nil
}

// Empty tells whether l allows everything.
func (l *Limits) Empty() bool { return *l == Limits{} }

// Empty tells whether no limit is set.
func (s *LimitSet) Empty() bool { return len(s.Rules) == 0 && s.Default.Empty() }

// NeedDetail tells whether the limits can only be checked with Options.Detail.
func (s *LimitSet) NeedDetail() bool {
	need := s.Default.MaxRel != nil
	for i := range s.Rules {
		need = need || s.Rules[i].MaxRel != nil
	}
	return need
}

// For returns the limits of a tensor.
func (s *LimitSet) For(name string) *Limits {
	for i := range s.Rules {
		if s.Rules[i].Match.MatchString(name) {
			return &s.Rules[i].Limits
		}
	}
	return &s.Default
}

// Unused returns the rules that decide for no tensor of r.
func (s *LimitSet) Unused(r *Report) (rules []Rule) {
	used := map[*Limits]bool{}
	for i := range r.Records {
		used[s.For(r.Records[i].Name)] = true
	}
	for i := range s.Rules {
		if !used[&s.Rules[i].Limits] {
			rules = append(rules, s.Rules[i])
		}
	}
	return rules
}

// Check returns the limits that the tensors of r break, in their order.
// Tensors without figures break none: that their bytes differ is a problem of
// its own.
func (s *LimitSet) Check(r *Report) []Violation {
	var found []Violation
	for i := range r.Records {
		x := &r.Records[i]
		if x.Stats == nil {
			continue
		}
		c := limitCheck{record: x}
		if i < len(r.Details) {
			c.detail = r.Details[i]
		}
		c.all(s.For(x.Name))
		found = append(found, c.found...)
	}
	return found
}

// A limitCheck gathers the violations of one tensor.
type limitCheck struct {
	record *tensor.Record
	detail *Detail
	found  []Violation
}

func (c *limitCheck) add(bad bool, limit, format string, args ...any) {
	if bad {
		c.found = append(c.found, Violation{c.record.Name, limit, fmt.Sprintf(format, args...)})
	}
}

func (c *limitCheck) all(l *Limits) {
	s := c.record.Stats
	c.add(l.Exact && s.Changed > 0, "exact", "%d of %d values changed", s.Changed, s.Count)
	if l.MaxAbs != nil {
		c.add(s.MaxIndex >= 0 && !(s.MaxAbs <= *l.MaxAbs), "max_abs", "error %s at [%d] (%s became %s), the limit is %s",
			Short(s.MaxAbs), s.MaxIndex, Exact(s.MaxRef), Exact(s.MaxGot), Short(*l.MaxAbs))
	}
	if d := c.detail; l.MaxRel != nil && d != nil {
		c.add(d.MaxRelIndex >= 0 && !(d.MaxRel <= *l.MaxRel), "max_rel", "relative error %s at [%d] (%s became %s), the limit is %s",
			Short(d.MaxRel), d.MaxRelIndex, Exact(d.MaxRelRef), Exact(d.MaxRelGot), Short(*l.MaxRel))
	}
	if l.MinSNR != nil {
		c.add(!(s.SNR() >= *l.MinSNR), "min_snr_db", "SNR %s dB, the limit is %s dB", Short(s.SNR()), Short(*l.MinSNR))
	}
	if n := unmatched(s); l.MaxAbs != nil || l.MaxRel != nil || l.MinSNR != nil {
		c.add(n > 0, "finite", "%d values that are not finite were lost or made", n)
	}
	c.bias(l)
	c.add(l.NoOverflow && s.Overflowed > 0, "no_overflow", "%d values overflowed", s.Overflowed)
	c.add(l.NoUnderflow && s.Flushed > 0, "no_underflow", "%d values became zero", s.Flushed)
}

func (c *limitCheck) bias(l *Limits) {
	if l.MaxBiasULP == nil {
		return
	}
	s := c.record.Stats
	for _, b := range []struct {
		mean float64
		text string
	}{{s.BiasAway(), "away from zero"}, {s.BiasUp(), "upward"}} {
		c.add(math.Abs(b.mean) > *l.MaxBiasULP+biasChance(s.Finite), "max_bias_ulp", "mean error %+.4f ULP %s, the limit is %s",
			b.mean, b.text, Short(*l.MaxBiasULP))
	}
}

// biasChance is how far the mean of n errors may be from 0 by chance, in ULP:
// six standard errors of errors that are spread evenly over one ULP.
func biasChance(n int64) float64 { return 6 / math.Sqrt(12*float64(max(n, 1))) }

// unmatched returns the number of values that are not finite and became
// something else, or came to be. Inf that changed its sign is not among them,
// and of those that were NaN before or after no more than these can be told.
func unmatched(s *tensor.Stats) int64 {
	lost := s.NaNLost + s.NaNMade
	if lost > 0 {
		return lost
	}
	pairs := s.Count - s.Finite - s.NaNIn // in which there is Inf
	return 2*pairs - s.InfIn - s.InfOut
}
