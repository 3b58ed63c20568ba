package demi

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/demi-weights/demi/kernels"
)

// PlanVersion is the version of the plan documents that are written and read.
const PlanVersion = 1

// A PlanDocument is a plan as JSON: what becomes of the tensors of certain
// files, and why. Document makes one of a Plan, ReadPlan reads one, and
// LoadPlan makes the Plan again. The metadata of the output are not in it:
// they follow from the source.
type PlanDocument struct {
	Version int             `json:"version"` // PlanVersion
	Command string          `json:"command"` // "plan"
	Options PlanOptions     `json:"options"`
	Files   []FileIdentity  `json:"files"` // of the source, without their times
	In      int64           `json:"bytes_in"`
	Out     int64           `json:"bytes_out"`               // undecided tensors count as they are now
	Least   *int64          `json:"bytes_out_min,omitempty"` // nil if all is decided
	Most    *int64          `json:"bytes_out_max,omitempty"`
	Tensors []PlannedTensor `json:"tensors"`           // in the order of the output
	Dropped []Dropped       `json:"dropped,omitempty"` // what the output does not hold
}

// PlanOptions are Options as text.
type PlanOptions struct {
	Target        string   `json:"dtype"`
	Rounding      string   `json:"round"`
	Overflow      string   `json:"on_overflow"`
	OnNaN         string   `json:"on_nan"`
	Subnormals    string   `json:"subnormals"` // "keep" or "flush"
	Seed          uint64   `json:"seed"`
	Rules         []string `json:"keep,omitempty"`
	Preset        string   `json:"preset"`
	Drop          []string `json:"drop,omitempty"`
	EMA           string   `json:"ema"`
	Tie           bool     `json:"tie,omitempty"`
	Untie         bool     `json:"untie,omitempty"`
	Pure          bool     `json:"pure"`
	Mixed         bool     `json:"mixed"`
	Format        string   `json:"to"`
	Canonical     bool     `json:"canonical,omitempty"`
	NoFormat      bool     `json:"no_format,omitempty"`
	KeepSplit     bool     `json:"keep_split,omitempty"`
	Lenient       bool     `json:"lenient,omitempty"`
	ContainerOnly bool     `json:"container_only,omitempty"`
	MaxRelErr     float64  `json:"max_rel_err,omitempty"`    // of Auto
	TargetBytes   int64    `json:"target_bytes,omitempty"`   // of Auto
	TargetPercent float64  `json:"target_percent,omitempty"` // of Auto
	// Dequantize is that of OpenOptions, by which the source is opened, and no
	// option of a plan; "" for DequantizeNone.
	Dequantize string `json:"dequantize,omitempty"`
}

// A PlannedTensor is a Choice in a PlanDocument. Types are those of TypeName.
type PlannedTensor struct {
	Name      string  `json:"name"`
	Source    string  `json:"source,omitempty"` // its name in the source, if that is another
	From      string  `json:"from"`
	To        string  `json:"to"`
	Shape     []int64 `json:"shape"`
	In        int64   `json:"bytes_in"`
	Out       int64   `json:"bytes_out"`
	Reason    string  `json:"reason"`
	Undecided bool    `json:"undecided,omitempty"`
	Least     *int64  `json:"bytes_out_min,omitempty"` // of an undecided tensor
	Most      *int64  `json:"bytes_out_max,omitempty"`
}

// Text returns the options as text. What is "" there is so here.
func (o Options) Text() PlanOptions {
	t := PlanOptions{
		Target: string(o.Target), Rounding: o.Rounding.String(), Overflow: string(o.Overflow), OnNaN: string(o.OnNaN),
		Subnormals: "keep", Seed: o.Seed, Preset: o.Preset, Pure: o.Pure, Mixed: o.Mixed, Format: string(o.Format),
		Canonical: o.Canonical, NoFormat: o.NoFormat, KeepSplit: o.KeepSplit, Lenient: o.Lenient, ContainerOnly: o.ContainerOnly,
		MaxRelErr: o.MaxRelErr, TargetBytes: o.TargetBytes, TargetPercent: o.TargetPercent,
	}
	if o.Flush {
		t.Subnormals = "flush"
	}
	t.EMA, t.Tie, t.Untie = string(o.EMA), o.Tie, o.Untie
	for _, re := range o.Drop {
		t.Drop = append(t.Drop, re.String())
	}
	for _, r := range o.Rules {
		t.Rules = append(t.Rules, r.String())
	}
	return t
}

// Options reads the options again; "" means a default, as in Options. Dequantize
// is none of them.
func (t *PlanOptions) Options() (o Options, err error) {
	o = Options{
		Target: Target(t.Target), Overflow: Overflow(t.Overflow), OnNaN: NaNPolicy(t.OnNaN), Flush: t.Subnormals == "flush",
		Seed: t.Seed, Preset: t.Preset, Pure: t.Pure, Mixed: t.Mixed, Format: Format(t.Format),
		Canonical: t.Canonical, NoFormat: t.NoFormat, KeepSplit: t.KeepSplit, Lenient: t.Lenient, ContainerOnly: t.ContainerOnly,
		MaxRelErr: t.MaxRelErr, TargetBytes: t.TargetBytes, TargetPercent: t.TargetPercent,
	}
	if t.Rounding != "" {
		if o.Rounding, err = kernels.ParseRounding(t.Rounding); err != nil {
			return o, err
		}
	}
	if !slices.Contains([]string{"", "keep", "flush"}, t.Subnormals) {
		return o, fmt.Errorf("unknown subnormals %q (keep, flush)", t.Subnormals)
	}
	if _, err = ParseDequantize(t.Dequantize); err != nil {
		return o, err
	}
	o.EMA, o.Tie, o.Untie = EMAPolicy(t.EMA), t.Tie, t.Untie
	for _, text := range t.Drop {
		re, err := regexp.Compile(text)
		if err != nil {
			return o, err
		}
		o.Drop = append(o.Drop, re)
	}
	for _, text := range t.Rules {
		r, err := ParseRule(text)
		if err != nil {
			return o, err
		}
		o.Rules = append(o.Rules, r)
	}
	return o, o.Validate()
}

// Document returns the plan as a document that pins the files of c.
func (p *Plan) Document(c *Checkpoint) (*PlanDocument, error) {
	files, err := c.pins()
	if err != nil {
		return nil, err
	}
	d := &PlanDocument{Version: PlanVersion, Command: "plan", Options: p.Options.Text(), Files: append([]FileIdentity{}, files...)}
	d.Options.Dequantize = string(c.way)
	d.Dropped = slices.Clone(p.Dropped)
	d.In, d.Out = p.Bytes()
	d.Tensors = make([]PlannedTensor, len(p.Tensors))
	for i := range p.Tensors {
		d.Tensors[i] = p.planned(&p.Tensors[i])
	}
	if p.Undecided() > 0 {
		least, most := p.Bounds()
		d.Least, d.Most = &least, &most
	}
	return d, nil
}

func (p *Plan) planned(t *Choice) PlannedTensor {
	x := PlannedTensor{
		Name: t.In.Name, Source: t.Renamed, From: t.In.TypeName(), To: t.Out.TypeName(), Shape: t.In.Shape,
		In: t.In.Size, Out: t.Out.Size, Reason: t.Reason, Undecided: t.Undecided,
	}
	if x.Shape == nil {
		x.Shape = []int64{}
	}
	if t.Undecided {
		least, most := p.bounds(t)
		x.Least, x.Most = &least, &most
	}
	return x
}
