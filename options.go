package demi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A Target says what the floating-point tensors become.
type Target string

// The targets that are not an element type; To gives the others.
const (
	// Exact narrows a tensor only if every value comes back, to the bit, when
	// it is widened again.
	Exact Target = "exact"
	// Auto narrows each tensor to the type, F16 or BF16, that costs less, and
	// none in which either would do harm: see the precision guide.
	Auto Target = "auto"
	// Keep changes no tensor.
	Keep Target = "keep"
)

// To returns the Target that casts to one of F64, F32, F16 and BF16.
func To(d tensor.DType) Target { return Target(strings.ToLower(d.String())) }

// DType returns the element type that t casts to; ok is false for Exact, Auto,
// Keep, and what is no Target.
func (t Target) DType() (d tensor.DType, ok bool) {
	d, err := tensor.ParseDType(string(t))
	return d, err == nil && d.IsFloat()
}

// ParseTarget reads "exact", "auto", "keep", or a floating-point type in any of
// the usual spellings: "bf16", "float16", "half".
func ParseTarget(s string) (Target, error) {
	if t := Target(strings.ToLower(s)); t == Exact || t == Auto || t == Keep {
		return t, nil
	}
	d, ok := Target(s).DType()
	if !ok {
		return "", fmt.Errorf("unknown target type %q (exact, auto, keep, bf16, f16, f32, f64)", s)
	}
	return To(d), nil
}

// An Overflow says what becomes of a finite value beyond the largest finite
// value of its new type. NaN and Inf are not overflow: they pass.
type Overflow string

// The policies for overflow.
const (
	// OverflowIEEE gives Inf or the largest finite value, by the rounding.
	OverflowIEEE Overflow = "ieee"
	// OverflowSaturate gives the largest finite value.
	OverflowSaturate Overflow = "saturate"
	// OverflowError refuses the whole conversion before anything is written.
	OverflowError Overflow = "error"
	// OverflowKeep leaves a tensor in which something would overflow as it is.
	OverflowKeep Overflow = "keep"
)

// Overflows returns all policies, the default first.
func Overflows() []Overflow {
	return []Overflow{OverflowIEEE, OverflowSaturate, OverflowError, OverflowKeep}
}

// ParseOverflow reads the name of a policy.
func ParseOverflow(s string) (Overflow, error) {
	for _, o := range Overflows() {
		if strings.EqualFold(s, string(o)) {
			return o, nil
		}
	}
	return "", fmt.Errorf("unknown overflow policy %q (ieee, saturate, error, keep)", s)
}

// A NaNPolicy says what becomes of a conversion that meets NaN.
type NaNPolicy string

// The policies for NaN.
const (
	// NaNKeep lets NaN pass, with their sign and the top of their payload.
	NaNKeep NaNPolicy = "keep"
	// NaNError refuses the whole conversion, before anything is written, if a
	// tensor whose type changes has NaN. Tensors that are copied are not read
	// for it.
	NaNError NaNPolicy = "error"
)

// ParseNaNPolicy reads the name of a policy.
func ParseNaNPolicy(s string) (NaNPolicy, error) {
	for _, n := range []NaNPolicy{NaNKeep, NaNError} {
		if strings.EqualFold(s, string(n)) {
			return n, nil
		}
	}
	return "", fmt.Errorf("unknown NaN policy %q (keep, error)", s)
}

// A Rule says what becomes of the tensors whose names it matches.
type Rule struct {
	Name   *regexp.Regexp
	Target Target // Keep, or a type; not Exact or Auto
}

// ParseRule reads "regex=type". The last "=" divides; the expression may match
// any part of a name.
func ParseRule(s string) (Rule, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return Rule{}, fmt.Errorf("rule %q is not of the form regex=type", s)
	}
	re, err := regexp.Compile(s[:i])
	if err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", s, err)
	}
	t, err := ParseTarget(s[i+1:])
	if err == nil && (t == Exact || t == Auto) {
		err = fmt.Errorf("%s is for whole checkpoints", t)
	}
	if err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", s, err)
	}
	return Rule{re, t}, nil
}

// String returns the rule as ParseRule reads it.
func (r Rule) String() string { return r.Name.String() + "=" + string(r.Target) }

// Options say what a conversion does. The zero value changes no value: Exact,
// in the format of the source.
type Options struct {
	Target   Target           // "" means Exact
	Rounding kernels.Rounding // when values are narrowed
	Overflow Overflow         // "" means OverflowIEEE
	OnNaN    NaNPolicy        // "" means NaNKeep
	Flush    bool             // results that are subnormal in the new type become zero
	Seed     uint64           // for stochastic rounding
	Rules    []Rule           // the first that matches a name wins over everything else
	Preset   string           // name of a Preset, whose rules come after Rules; "" means none
	Pure     bool             // Target casts every floating-point tensor, without exceptions
	Mixed    bool             // Exact takes the 16-bit type that holds its values for each tensor, not one for all
	Format   Format           // of the output; "" means that of the source, and Safetensors for PyTorch

	// Drop has expressions for names: tensors that one of them matches are left
	// out. EMA says what becomes of running averages of weights; "" means
	// EMAKeep.
	Drop []*regexp.Regexp
	EMA  EMAPolicy

	// Tie writes one of equal tensors, and the others as aliases in the metadata
	// (see Checkpoint.Aliases): Decide has to read those that may be equal. Untie
	// makes tensors of the aliases of the source.
	Tie, Untie bool

	// MaxRelErr is the largest root of the sum of squared errors over that of
	// squared values that Auto accepts in a tensor; 0 means DefaultMaxRelErr.
	MaxRelErr float64
	// TargetBytes lets Auto narrow tensors only until all of them together have
	// so many bytes in the output; TargetPercent is the same as a percentage of
	// what they have in the source. 0 means that all are narrowed that may be.
	TargetBytes   int64
	TargetPercent float64

	// Canonical lays safetensors out as the reference implementation does,
	// instead of with as many tensors on cache lines as the format allows.
	Canonical bool

	// NoFormat leaves out the "format": "pt" that safetensors get in their
	// metadata where there is no such key: loaders refuse metadata without it.
	NoFormat bool

	// KeepSplit keeps the tensors of one file of the source together, and
	// apart from those of others: each file with tensors becomes a file of the
	// set that is written, in the same order.
	KeepSplit bool

	// Lenient writes tensors of element types that are not known, which a
	// lenient Open has let pass, to the format that they come from.
	Lenient bool

	// ContainerOnly allows a conversion between safetensors and GGUF, which
	// moves tensors and metadata to the other container and does not make a
	// model of one ecosystem a model of the other: names and layouts stay.
	ContainerOnly bool
}

func (o Options) withDefaults(source Format) Options {
	if o.Target == "" {
		o.Target = Exact
	}
	if o.Overflow == "" {
		o.Overflow = OverflowIEEE
	}
	if o.OnNaN == "" {
		o.OnNaN = NaNKeep
	}
	if o.EMA == "" {
		o.EMA = EMAKeep
	}
	if o.Preset == "" {
		o.Preset = NoPreset
	}
	if o.Format == "" {
		o.Format = source.output()
	}
	if o.Target == Auto && o.MaxRelErr == 0 {
		o.MaxRelErr = DefaultMaxRelErr
	}
	return o
}

// Validate reports what in the options is unknown or contradicts itself. It
// needs no checkpoint; NewPlan calls it.
func (o Options) Validate() error {
	o = o.withDefaults(Safetensors)
	_, errTarget := ParseTarget(string(o.Target))
	_, errRounding := kernels.ParseRounding(o.Rounding.String())
	_, errOverflow := ParseOverflow(string(o.Overflow))
	_, errNaN := ParseNaNPolicy(string(o.OnNaN))
	_, errPreset := ParsePreset(o.Preset)
	_, errFormat := ParseFormat(string(o.Format))
	_, errEMA := ParseEMAPolicy(string(o.EMA))
	errs := []error{errTarget, errRounding, errOverflow, errNaN, errPreset, errFormat, errEMA}
	if o.Tie && o.Untie {
		errs = append(errs, errors.New("tie and untie do not go together"))
	}
	if slices.Contains(o.Drop, nil) {
		errs = append(errs, errors.New("a rule to drop has no expression for names"))
	}
	if o.Mixed && o.Target != Exact {
		errs = append(errs, fmt.Errorf("mixed is for the target exact, which is %s here", o.Target))
	}
	errs = append(errs, o.validateAuto())
	for _, r := range o.Rules {
		if r.Name == nil {
			errs = append(errs, errors.New("a rule has no expression for names"))
		} else if _, err := ParseRule(r.String()); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// validateAuto looks at the options that are for Auto alone.
func (o Options) validateAuto() error {
	limited := o.MaxRelErr != 0 || o.TargetBytes != 0 || o.TargetPercent != 0
	switch {
	case limited && o.Target != Auto:
		return fmt.Errorf("a largest relative error and a target size are for the target auto, which is %s here", o.Target)
	case !limited:
		return nil
	case !(o.MaxRelErr >= 0 && o.MaxRelErr <= 1): // also NaN
		return fmt.Errorf("a largest relative error of %g is not between 0 and 1", o.MaxRelErr)
	case o.TargetBytes < 0 || !(o.TargetPercent >= 0 && o.TargetPercent <= 100):
		return fmt.Errorf("a target size of %d bytes or %g %% is none", o.TargetBytes, o.TargetPercent)
	case o.TargetBytes > 0 && o.TargetPercent > 0:
		return fmt.Errorf("a target size of %d bytes and of %g %% contradict each other", o.TargetBytes, o.TargetPercent)
	}
	return nil
}

// mode returns how the values of the tensor of that name are narrowed.
func (o Options) mode(name string) kernels.Mode {
	m := kernels.Mode{Rounding: o.Rounding, Saturate: o.Overflow == OverflowSaturate, Flush: o.Flush}
	if o.Rounding == kernels.Stochastic {
		m.Stream = kernels.NewStream(o.Seed, name)
	}
	return m
}
