package demi

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A Survey is what the values of the undecided tensors of a plan say: what
// Decide reads before it decides. Surveys of several processes, each of some
// tensors, decide a plan together, as one does.
type Survey struct{ rows map[string]*surveyed }

// surveyed is what the values of one tensor say. Of a candidate for Auto there
// are trials, of others findings.
type surveyed struct {
	Name          string
	Scan          kernels.Scan
	Stats         tensor.Stats
	NaN, FirstNaN int64
	Count         int64 // of values, for Auto
	Distinct      int64
	MoreDistinct  bool
	Trials        []surveyedTrial
}

type surveyedTrial struct {
	Type     tensor.DType
	Faint    int64
	Distinct int64 // -1 for a type of more than 16 bits
	Stats    tensor.Stats
}

// Survey reads the values of those undecided tensors for which want is true, or
// of all if it is nil. The errors are those of reading.
func (p *Plan) Survey(ctx context.Context, c *Checkpoint, want func(*Choice) bool, o *RunOptions) (*Survey, error) {
	s := &Survey{map[string]*surveyed{}}
	d := &decider{plan: p}
	var auto []int
	for i := range p.Tensors {
		switch t := &p.Tensors[i]; {
		case !t.Undecided || want != nil && !want(t):
		case p.forAuto(t):
			auto = append(auto, i)
		default:
			d.open = append(d.open, i)
		}
	}
	if err := d.read(ctx, c.src, o.withDefaults(c)); err != nil {
		return nil, err
	}
	for k, i := range d.open {
		f := &d.findings[k]
		s.add(&surveyed{Name: p.Tensors[i].In.Name, Scan: f.scan, Stats: f.stats, NaN: f.nan.count, FirstNaN: f.nan.first})
	}
	return s, p.surveyAuto(ctx, c, auto, s, o.withDefaults(c))
}

// forAuto tells whether Auto has the say about an undecided tensor.
func (p *Plan) forAuto(t *Choice) bool { return p.Options.Target == Auto && !t.Converted() }

func (s *Survey) add(x *surveyed) { s.rows[x.Name] = x }

// Add adds what another Survey of the same plan says.
func (s *Survey) Add(other *Survey) {
	if s.rows == nil {
		s.rows = map[string]*surveyed{}
	}
	for _, x := range other.rows {
		s.add(x)
	}
}

// Len returns the number of tensors.
func (s *Survey) Len() int { return len(s.rows) }

// MarshalBinary writes a Survey for UnmarshalBinary.
func (s *Survey) MarshalBinary() ([]byte, error) {
	list := make([]*surveyed, 0, len(s.rows))
	for _, name := range sortedKeys(s.rows) {
		list = append(list, s.rows[name])
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(list)
	return b.Bytes(), err
}

// UnmarshalBinary reads what MarshalBinary of the same version of the program
// has written. Anything else is tensor.ErrFormat.
func (s *Survey) UnmarshalBinary(text []byte) error {
	var list []*surveyed
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&list); err != nil {
		return fmt.Errorf("survey: %w: %w", tensor.ErrFormat, err)
	}
	s.rows = make(map[string]*surveyed, len(list))
	for _, x := range list {
		s.add(x)
	}
	return nil
}

// surveyAuto tries the candidates for Auto, which have the given numbers in the
// plan.
func (p *Plan) surveyAuto(ctx context.Context, c *Checkpoint, open []int, found *Survey, o RunOptions) error {
	if len(open) == 0 {
		return nil
	}
	read, tries := make([]int, len(open)), make([]trials, len(open))
	for k, i := range open {
		in := p.Tensors[i].In
		read[k] = p.Tensors[i].Source
		tries[k] = trials{trialTypes(in.DType), p.Options.mode(p.Tensors[i].sourceName())}
	}
	s, err := newSurvey(c.src, read, tries, o)
	if err != nil {
		return err
	}
	s.complete = func(k int, sum *scanTile) {
		in := p.Tensors[open[k]].In
		v := sum.values(in.DType)
		x := &surveyed{Name: in.Name, NaN: v.NaN, Count: v.Count, Distinct: v.Distinct, MoreDistinct: v.MoreDistinct}
		if v.FirstNaN != nil {
			x.FirstNaN = v.FirstNaN.Index
		}
		for _, t := range sum.trialsOf(in, tries[k].types, p.Options) {
			y := surveyedTrial{t.Type, t.Faint, -1, t.Stats}
			if t.Distinct != nil {
				y.Distinct = *t.Distinct
			}
			x.Trials = append(x.Trials, y)
		}
		found.add(x)
	}
	return s.run(ctx)
}

// tried returns what was found out about a candidate for Auto.
func (x *surveyed) tried() (v *Values, list []Trial) {
	v = &Values{Count: x.Count, NaN: x.NaN, Distinct: x.Distinct, MoreDistinct: x.MoreDistinct}
	if x.NaN > 0 {
		v.FirstNaN = &SpecialItem{Index: x.FirstNaN}
	}
	for k := range x.Trials {
		y := &x.Trials[k]
		t := Trial{Type: y.Type, Faint: y.Faint, Stats: y.Stats}
		if y.Distinct >= 0 {
			t.Distinct = &y.Distinct
		}
		list = append(list, t)
	}
	return v, list
}

// Decide reads the values of the undecided tensors, once, and completes the
// plan. Under OverflowError it fails with ErrOverflow if a value would
// overflow, and names all tensors that have some; so it does with ErrNaN under
// NaNError, with the index of the first NaN of each, and with ErrTargetSize
// where Auto cannot reach a target size.
func (p *Plan) Decide(ctx context.Context, c *Checkpoint, o *RunOptions) error {
	s, err := p.Survey(ctx, c, nil, o)
	if err != nil {
		return err
	}
	return p.DecideBy(ctx, c, s, o)
}

// DecideBy is Decide with what has been read already, which must be all. Only
// under Options.Tie it reads something: the tensors that may be equal.
func (p *Plan) DecideBy(ctx context.Context, c *Checkpoint, s *Survey, o *RunOptions) error {
	d := &decider{plan: p}
	var auto []*Choice
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if !t.Undecided {
			continue
		}
		x := s.rows[t.In.Name]
		switch {
		case x == nil:
			return fmt.Errorf("the survey lacks tensor %q", t.In.Name)
		case p.forAuto(t):
			auto = append(auto, t)
		default:
			d.open = append(d.open, i)
			d.findings = append(d.findings, finding{x.Scan, x.Stats, nanCount{x.NaN, x.FirstNaN}})
		}
	}
	for _, settle := range []func() error{
		func() error { return p.settleAutos(auto, s) }, d.settleOverflow, d.settleExact, d.settleNaN,
		func() error { return p.tie(ctx, c, o) },
	} {
		if err := settle(); err != nil {
			return err
		}
	}
	p.arrange()
	p.setFileType()
	return nil
}

// settleAutos decides the candidates for Auto.
func (p *Plan) settleAutos(open []*Choice, s *Survey) error {
	if len(open) == 0 {
		return nil
	}
	var errs []error
	for _, t := range open {
		v, list := s.rows[t.In.Name].tried()
		errs = append(errs, p.settleAuto(t, v, p.Options.judged(t.In, v, list)))
	}
	return errors.Join(append(errs, p.budget())...)
}
