package demi

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi/tensor"
)

// LoadPlan reads the document of a plan for c, and makes that plan again: with
// the same options, types and order. If it was decided, it is so again, and
// Convert fails with tensor.ErrChanged where the values are not those that it
// was decided for.
//
// Files that are not those of the plan are tensor.ErrChanged, in a
// *tensor.FileError; they are compared by name, size and header, not by time.
// Tensors and types that do not follow from the options are tensor.ErrFormat, and
// a Checkpoint that was opened with another OpenOptions.Dequantize is
// tensor.ErrUnsupported.
// Other errors are those of ReadPlan and NewPlan.
func LoadPlan(c *Checkpoint, r io.Reader) (*Plan, error) {
	d, err := readPlan(r, c.Len(), tensor.ErrFormat) // more do not fit
	if err != nil {
		return nil, err
	}
	return d.Plan(c)
}

// Plan makes the plan of the document for c: see LoadPlan.
func (d *PlanDocument) Plan(c *Checkpoint) (*Plan, error) {
	o, err := d.Options.Options()
	if err != nil {
		return nil, fmt.Errorf("plan: options: %w: %w", tensor.ErrFormat, err)
	}
	if err := d.checkFiles(c); err != nil {
		return nil, err
	}
	if err := d.checkWay(c); err != nil {
		return nil, err
	}
	p, err := NewPlan(c, o)
	if err != nil {
		return nil, err
	}
	if err := d.settle(p); err != nil {
		return nil, fmt.Errorf("plan: %w: %w", tensor.ErrFormat, err)
	}
	return p, nil
}

func (d *PlanDocument) checkFiles(c *Checkpoint) error {
	files, err := c.pins()
	if err != nil {
		return err
	}
	for i, f := range files {
		if i >= len(d.Files) {
			return changedFile(c.layout[i].File, "the plan is for %s, the source has %d", english.Plural(len(d.Files), "file", ""), len(files))
		}
		if want := d.Files[i]; f.Name != want.Name {
			return changedFile(c.layout[i].File, "the plan is for %q in its place", want.Name)
		} else if f.Size != want.Size {
			return changedFile(c.layout[i].File, "it has %d bytes, and %d in the plan", f.Size, want.Size)
		} else if f.Header != want.Header {
			return changedFile(c.layout[i].File, "its header has the hash %s, and %s in the plan", f.Header, want.Header)
		}
	}
	if len(d.Files) > len(files) {
		return changedFile(d.Files[len(files)].Name, "it is a file of the plan, which has %d; there are %d", len(d.Files), len(files))
	}
	return nil
}

// checkWay compares how quantised tensors are read.
func (d *PlanDocument) checkWay(c *Checkpoint) error {
	want, err := ParseDequantize(d.Options.Dequantize)
	if have := cmp.Or(c.way, DequantizeNone); err == nil && want != have {
		return fmt.Errorf("plan: %w: it was made with --dequantize=%s, the checkpoint is open with %s", tensor.ErrUnsupported, want, have)
	}
	return err
}

// settle gives the tensors of p, which is new, the types of the document.
func (d *PlanDocument) settle(p *Plan) error {
	tied, err := d.checkDropped(p)
	if err != nil {
		return err
	}
	if n := len(d.Tensors) + len(tied); n != len(p.Tensors) {
		return fmt.Errorf("it has %s, the checkpoint %d", english.Plural(n, "tensor", ""), len(p.Tensors))
	}
	byName := make(map[string]*Choice, len(p.Tensors))
	for i := range p.Tensors {
		byName[p.Tensors[i].In.Name] = &p.Tensors[i]
	}
	open := slices.ContainsFunc(d.Tensors, func(x PlannedTensor) bool { return x.Undecided })
	var half tensor.DType
	for i := range d.Tensors {
		x := &d.Tensors[i]
		t := byName[x.Name]
		if t == nil {
			return fmt.Errorf("the checkpoint has no tensor %q, or the plan has it twice", x.Name)
		}
		delete(byName, x.Name)
		if err := p.settle(t, x, open, &half); err != nil {
			return fmt.Errorf("tensor %q: %w", x.Name, err)
		}
	}
	if err := p.settleTied(tied, byName); err != nil {
		return err
	}
	p.arrange()
	p.setFileType()
	left := slices.DeleteFunc(slices.Clone(p.Tensors), func(t Choice) bool { return tied[t.In.Name] != "" })
	for i := range d.Tensors {
		if got := left[i].In.Name; got != d.Tensors[i].Name {
			return fmt.Errorf("its tensors are not in the order of the output: %q comes in place %d, where the plan has %q", got, i, d.Tensors[i].Name)
		}
	}
	return nil
}

// checkDropped compares what p does not write with the document, and returns the
// tensors that Decide has tied.
func (d *PlanDocument) checkDropped(p *Plan) (tied map[string]string, err error) {
	want := make(map[string]bool, len(p.Dropped))
	for i := range p.Dropped {
		want[p.Dropped[i].Name] = true
	}
	for i := range d.Dropped {
		switch x := &d.Dropped[i]; {
		case x.Tied != "" && p.Options.Tie:
			if tied == nil {
				tied = map[string]string{}
			}
			tied[x.Name] = x.Tied
		case !want[x.Name]:
			return nil, fmt.Errorf("it drops %q, which does not follow from the options", x.Name)
		default:
			delete(want, x.Name)
		}
	}
	for name := range want {
		return nil, fmt.Errorf("by the options %q is dropped, and not in the plan", name)
	}
	p.wantTied = tied
	return tied, nil
}

// settleTied gives tensors that the document ties the types of those that they
// are tied to. Decide looks for them again.
func (p *Plan) settleTied(tied map[string]string, left map[string]*Choice) error {
	for name, kept := range tied {
		t := left[name]
		k := slices.IndexFunc(p.Tensors, func(t Choice) bool { return t.In.Name == kept })
		if t == nil || k < 0 || t == &p.Tensors[k] {
			return fmt.Errorf("it ties %q to %q, and one of them is no tensor to tie", name, kept)
		}
		like := &p.Tensors[k]
		t.Undecided, t.exact, t.fits, t.clean = like.Undecided, like.exact, like.fits, like.clean
		if err := t.retype(like.Out.DType, like.Reason); err != nil {
			return err
		}
	}
	return nil
}

// settle gives one tensor its type. open tells that the plan is undecided, half
// is the 16-bit type of the tensors before it that Exact has narrowed.
func (p *Plan) settle(t *Choice, x *PlannedTensor, open bool, half *tensor.DType) error {
	if x.From != t.In.TypeName() || x.In != t.In.Size || !slices.Equal(x.Shape, t.In.Shape) {
		return fmt.Errorf("it is %s %v of %d bytes, and %s %v of %d in the plan", t.In.TypeName(), t.In.Shape, t.In.Size, x.From, x.Shape, x.In)
	}
	if x.Undecided && !t.Undecided {
		return fmt.Errorf("it is undecided, and its type follows from the options: %s (%s)", t.Out.TypeName(), t.Reason)
	}
	if t.Undecided && !x.Undecided {
		if open {
			return fmt.Errorf("it is decided in a plan with tensors that are not")
		}
		if err := p.decideAs(t, x, half); err != nil {
			return err
		}
	}
	if x.To != t.Out.TypeName() || x.Out != t.Out.Size {
		return fmt.Errorf("it becomes %s of %d bytes by the options (%s), and %s of %d in the plan: change a plan by its options",
			t.Out.TypeName(), t.Out.Size, t.Reason, x.To, x.Out)
	}
	return nil
}

// decideAs takes the type of an undecided tensor from a plan that is decided,
// with the promises that Decide would have made.
func (p *Plan) decideAs(t *Choice, x *PlannedTensor, half *tensor.DType) error {
	t.Undecided = false
	t.Reason = x.Reason
	switch {
	case x.To == t.Out.TypeName() && !t.Converted(): // a candidate for Exact or Auto that stays
		return nil
	case x.To == t.Out.TypeName():
		t.fits = p.promisesFit(t)
	case t.Converted() && t.narrowed() && p.Options.Overflow == OverflowKeep && x.To == t.In.TypeName():
		t.Out = t.In
	case !t.Converted():
		if err := p.narrowAs(t, x, half); err != nil {
			return err
		}
	}
	t.clean = t.Converted() && p.Options.OnNaN == NaNError
	return nil
}

// narrowAs gives a candidate for Exact or Auto the narrower type of the plan.
func (p *Plan) narrowAs(t *Choice, x *PlannedTensor, half *tensor.DType) error {
	switch to := tensor.FromName(x.To); {
	case p.Options.Target == Auto && slices.Contains(trialTypes(t.In.DType), to):
		t.fits = true
		return t.retype(to, x.Reason)
	case to == tensor.F32 && t.In.DType == tensor.F64:
		t.exact = true
		return t.retype(to, x.Reason)
	case to != tensor.F16 && to != tensor.BF16:
		return nil // the caller compares the types
	case !p.Options.Mixed && *half != tensor.Invalid && *half != to:
		return fmt.Errorf("it becomes %s, and others %s, which is for the option mixed", to, *half)
	default:
		*half, t.exact = to, true
		return t.retype(to, x.Reason)
	}
}
