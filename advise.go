package demi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi/internal/crc"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// An Advice says what the 16-bit types would cost a checkpoint, measured on all
// of its values, and which the program would choose.
type Advice struct {
	// Targets are Exact, F16, BF16 and Auto: what conversions to them with the
	// same options make of the whole.
	Targets []TargetCost `json:"targets"`
	// Choice is the target to take, and OneType that of a single 16-bit type,
	// for programs that want the same in all tensors.
	Choice  Advised `json:"choice"`
	OneType Advised `json:"one_type"`
	// Tensors are those that have values of F64, F32, F16 or BF16, in the order
	// of the checkpoint.
	Tensors []TensorAdvice `json:"tensors"`
}

// An Advised is a target and why.
type Advised struct {
	Target Target `json:"dtype"`
	Reason string `json:"reason"`
}

// A TargetCost is what a conversion of the whole checkpoint would report.
type TargetCost struct {
	Target  Target          `json:"dtype"`
	Refused string          `json:"refused,omitempty"` // why there is no such conversion: a target size
	Summary *verify.Summary `json:"summary"`
	Figures *verify.Figures `json:"figures"`
}

// A TensorAdvice is what types would cost one tensor, and what Auto makes of it.
type TensorAdvice struct {
	ScanRow
	Trials []Trial      `json:"trials"`
	To     tensor.DType `json:"to"` // by Auto, with the rules, the preset and the cast table
	Reason string       `json:"reason"`
}

// Trial returns what a type would cost; nil for one that has not been tried.
func (t *TensorAdvice) Trial(d tensor.DType) *Trial {
	for k := range t.Trials {
		if t.Trials[k].Type == d {
			return &t.Trials[k]
		}
	}
	return nil
}

// Advise reads all floating-point tensors once, tries the types on them, and
// says which to take. The options are those of a conversion, of which Target
// does not matter, and neither do policies that keep a tensor or refuse a
// conversion: the figures say where there are overflow and NaN. Nothing in the
// advice depends on the number of workers. The errors are those of NewPlan and
// Scan.
func Advise(ctx context.Context, c *Checkpoint, o Options, run *RunOptions) (*Advice, error) {
	a, err := newAdviser(c, o)
	if err != nil {
		return nil, err
	}
	if err := a.survey(ctx, run.withDefaults(c)); err != nil {
		return nil, err
	}
	return a.advice()
}

// An adviser is one run of Advise.
type adviser struct {
	src   tensor.Source
	plans []*Plan // of adviceTargets
	read  []int   // the tensors of the source that the rows are of
	tries []trials
	rows  []TensorAdvice
	row   map[int]int // by tensor of the source
	exact decider
	open  map[int]int // by tensor of the source, the place in exact
	wide  int         // candidates for Auto
}

var adviceTargets = []Target{Exact, To(tensor.F16), To(tensor.BF16), Auto}

func newAdviser(c *Checkpoint, o Options) (*adviser, error) {
	a := &adviser{src: c.src, row: map[int]int{}, open: map[int]int{}}
	for _, target := range adviceTargets {
		p, err := NewPlan(c, adviceOptions(o, target))
		if err != nil {
			return nil, err
		}
		a.plans = append(a.plans, p)
	}
	a.wide = a.auto().Undecided()
	a.prepareExact()
	a.prepareRows()
	return a, nil
}

func (a *adviser) auto() *Plan { return a.plans[len(a.plans)-1] }

// adviceOptions are those for one target.
func adviceOptions(o Options, target Target) Options {
	o.Target, o.OnNaN, o.Mixed = target, NaNKeep, o.Mixed && target == Exact
	if o.Overflow != OverflowSaturate {
		o.Overflow = OverflowIEEE
	}
	if target != Auto {
		o.MaxRelErr, o.TargetBytes, o.TargetPercent = 0, 0, 0
	}
	return o
}

// prepareExact makes a decider of the findings that are still to come.
func (a *adviser) prepareExact() {
	p := a.plans[0]
	a.exact.plan = p
	for i := range p.Tensors {
		if p.Tensors[i].Undecided {
			a.open[p.Tensors[i].Source] = len(a.exact.open)
			a.exact.open = append(a.exact.open, i)
		}
	}
	a.exact.findings = make([]finding, len(a.exact.open))
}

// prepareRows lists the tensors to read and what to try them as: beside the
// usual types, those that the plans give them.
func (a *adviser) prepareRows() {
	types := map[int][]tensor.DType{}
	for i, in := range a.src.Tensors() {
		types[i] = trialTypes(in.DType)
	}
	for _, p := range a.plans {
		for i := range p.Tensors {
			t := &p.Tensors[i]
			if t.Converted() && !slices.Contains(types[t.Source], t.Out.DType) {
				types[t.Source] = append(types[t.Source], t.Out.DType)
			}
		}
	}
	for i, in := range a.src.Tensors() {
		if in.DType.IsFloat() {
			a.row[i] = len(a.rows)
			a.read = append(a.read, i)
			a.tries = append(a.tries, trials{types[i], a.auto().Options.mode(in.Name)})
			a.rows = append(a.rows, TensorAdvice{ScanRow: newScanRow(in)})
		}
	}
}

// survey reads the tensors and fills the rows.
func (a *adviser) survey(ctx context.Context, o RunOptions) error {
	s, err := newSurvey(a.src, a.read, a.tries, o)
	if err != nil {
		return err
	}
	s.sums = crc.New(a.src, a.read)
	s.complete = func(k int, sum *scanTile) {
		in, t := a.src.Tensors()[a.read[k]], &a.rows[k]
		t.Values = sum.values(in.DType)
		o := &a.auto().Options
		t.Trials = o.judged(in, t.Values, sum.trialsOf(in, a.tries[k].types, *o))
		if n, ok := a.open[a.read[k]]; ok {
			a.exact.findings[n].scan = sum.Scan
		}
	}
	return s.run(ctx)
}

// settle decides the plans by the rows.
func (a *adviser) settle() (refused error, err error) {
	p := a.auto()
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Undecided {
			row := &a.rows[a.row[t.Source]]
			if err := p.settleAuto(t, row.Values, row.Trials); err != nil {
				return nil, err
			}
		}
	}
	refused = p.budget()
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if k, ok := a.row[t.Source]; ok {
			a.rows[k].To, a.rows[k].Reason = t.Out.DType, t.Reason
		}
	}
	if err := a.exact.settleExact(); err != nil {
		return nil, err
	}
	for _, p := range a.plans {
		p.arrange()
	}
	return refused, nil
}

func (a *adviser) advice() (*Advice, error) {
	refused, err := a.settle()
	if err != nil {
		return nil, err
	}
	v := &Advice{Tensors: a.rows}
	for k, p := range a.plans {
		s := verify.Summarize(a.records(p))
		v.Targets = append(v.Targets, TargetCost{Target: adviceTargets[k], Summary: s, Figures: verify.NewFigures(&s.Stats)})
	}
	if refused != nil {
		v.Targets[len(v.Targets)-1].Refused = refused.Error()
	}
	v.Choice, v.OneType = a.choice(v), a.oneType(v)
	return v, nil
}

// records returns what a conversion by p would report.
func (a *adviser) records(p *Plan) (list []tensor.Record) {
	for i := range p.Tensors {
		t := &p.Tensors[i]
		r := p.record(t)
		if t.Converted() {
			r.Stats = &a.rows[a.row[t.Source]].Trial(t.Out.DType).Stats
		}
		list = append(list, r)
	}
	return list
}

// choice returns the target that costs least.
func (a *adviser) choice(v *Advice) Advised {
	exact, auto := &v.Targets[0], &v.Targets[len(v.Targets)-1]
	switch {
	case a.wide == 0:
		return Advised{Exact, "no tensor that may be narrowed has more than 16 bits"}
	case auto.Refused != "":
		return Advised{Exact, auto.Refused}
	case auto.Summary.BytesOut >= exact.Summary.BytesOut && exact.Summary.BytesOut < exact.Summary.BytesIn:
		return Advised{Exact, "every value comes back, nothing is lost"}
	case auto.Summary.BytesOut == auto.Summary.BytesIn:
		return Advised{Exact, "no tensor can be narrowed within the limits"}
	}
	var parts []string
	for _, t := range auto.Summary.Types {
		if verb := " becomes "; t.From != t.To {
			if t.Tensors != 1 {
				verb = " become "
			}
			parts = append(parts, fmt.Sprint(t.Tensors, " ", t.From, verb, t.To))
		}
	}
	return Advised{Auto, strings.Join(parts, ", ")}
}

// oneType returns the single 16-bit type that costs less, by what a conversion
// to F16 would do.
func (a *adviser) oneType(v *Advice) Advised {
	f16, bf16 := v.Targets[1].Summary, v.Targets[2].Summary
	var bad []string
	p := a.plans[1]
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if !t.Converted() || t.Out.DType != tensor.F16 {
			continue
		}
		row := &a.rows[a.row[t.Source]]
		h, b := row.Trial(tensor.F16), row.Trial(tensor.BF16)
		text := h.unfit(row.Values.Count)
		if text == "" && b != nil && h.Stats.SumErr2 > b.Stats.SumErr2 {
			text = fmt.Sprintf("error %s, in BF16 %s,", brief(relativeError(&h.Stats)), brief(relativeError(&b.Stats)))
		}
		if text != "" {
			bad = append(bad, text+" in "+t.In.Name)
		}
	}
	switch {
	case len(bad) == 1:
		return Advised{To(tensor.BF16), "F16: " + bad[0]}
	case len(bad) > 1:
		return Advised{To(tensor.BF16), fmt.Sprintf("F16: %s, the first: %s", english.Plural(len(bad), "tensor suffers", "tensors suffer"), bad[0])}
	case bf16.Stats.SumErr2 <= f16.Stats.SumErr2:
		return Advised{To(tensor.BF16), "its error is not larger: " + snrs(bf16, f16)}
	}
	return Advised{To(tensor.F16), "nothing leaves its range, and its error is smaller: " + snrs(f16, bf16)}
}

func snrs(a, b *verify.Summary) string {
	if a.Stats.SumErr2 == 0 {
		return "nothing is lost"
	}
	return fmt.Sprintf("SNR %s dB, not %s", verify.Decibel(a.Stats.SNR()), verify.Decibel(b.Stats.SNR()))
}
