package demi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// The rule of Auto, for a tensor of F32 or F64 that the cast table leaves to
// it. F16 and BF16 are tried on all of its values. Against a type speaks, in
// this order:
//
//	overflow   a finite value rounds beyond the largest finite value
//	faint      more than 1 % of the values, and more than one, are Faint: where
//	           F16 has fewer bits than BF16, its error in those is larger
//	merge      it is a vector of up to 65,536 values, and fewer of them are
//	           distinct afterwards, or one becomes zero: of a bias or a norm
//	           it is the differences that count, and it costs next to nothing.
//	           Where F16 merges values, BF16, which is coarser, is not taken
//	error      the relative error is above Options.MaxRelErr
//
// Of the types that nothing speaks against, the one with the smaller error is
// taken, BF16 where it is the same. If there is none, an F32 tensor stays, and
// an F64 tensor becomes F32 if nothing speaks against that.
//
// With a target size, only as many tensors are narrowed as it takes: see
// budget.

// DefaultMaxRelErr is the limit of the relative error for Auto unless Options
// have one: 2^-8, half a step of BF16. Nearest-even keeps every value in range
// below it.
const DefaultMaxRelErr = 1.0 / 256

const (
	maxFaint = 0.01    // share of the values
	maxSmall = 1 << 16 // elements of a small vector
)

// smallVector tells a short list: a bias, a norm, a table of scales.
func smallVector(in tensor.Info) bool {
	long := 0
	for _, d := range in.Shape {
		if d > 1 {
			long++
		}
	}
	return long <= 1 && in.Elements() <= maxSmall
}

// against says why Auto does not take the type of a trial; "" if nothing speaks
// against it. v are the values that were tried.
func (o *Options) against(in tensor.Info, v *Values, x *Trial) string {
	if text := x.unfit(v.Count); text != "" {
		return text
	}
	s := &x.Stats
	switch small := smallVector(in); {
	case small && s.Flushed > 0:
		return fmt.Sprintf("%d to zero", s.Flushed)
	case small && merges(v, x):
		return distinctLeft(v, x)
	case !(relativeError(s) <= o.MaxRelErr):
		return "error " + brief(relativeError(s))
	}
	return ""
}

// unfit says which of count values leave the range of the type; "" if none do,
// or few enough.
func (x *Trial) unfit(count int64) string {
	switch {
	case x.Stats.Overflowed > 0:
		return fmt.Sprintf("%d overflow", x.Stats.Overflowed)
	case float64(x.Faint) > max(1, maxFaint*float64(count)):
		return verify.Percent(x.Faint, count) + " faint"
	}
	return ""
}

// merges tells whether different values have become the same. More than
// MaxDistinct are not counted: they are taken to, unless all come back.
func merges(v *Values, x *Trial) bool {
	switch {
	case x.Distinct == nil || x.Stats.Changed == 0:
		return false
	case v.MoreDistinct:
		return true
	}
	return *x.Distinct < v.Distinct
}

func distinctLeft(v *Values, x *Trial) string {
	if v.MoreDistinct {
		return fmt.Sprintf("%d distinct are left", *x.Distinct)
	}
	return fmt.Sprintf("%d of %d distinct", *x.Distinct, v.Distinct)
}

// brief returns a figure with two digits.
func brief(f float64) string { return strconv.FormatFloat(f, 'g', 2, 64) }

// pick returns the type that a tensor gets, by trials of F16, BF16 and, of F64,
// F32, and the reason. The type is that of in if none of them will do.
func pick(in tensor.Info, list []Trial) (to tensor.DType, reason string) {
	f16, bf16 := &list[0], &list[1]
	better, other := bf16, f16
	if f16.Stats.SumErr2 < bf16.Stats.SumErr2 {
		better, other = f16, bf16
	}
	switch {
	case f16.Against != "" && bf16.Against != "":
		reason = fmt.Sprintf("auto: F16: %s; BF16: %s", f16.Against, bf16.Against)
		if len(list) > 2 && list[2].Against == "" {
			return tensor.F32, reason
		}
		return in.DType, reason
	case better.Against != "":
		return other.Type, fmt.Sprintf("auto: %s: %s", better.Type, better.Against)
	case better.Stats.Changed == 0:
		return better.Type, fmt.Sprintf("auto: all values fit %s", better.Type)
	case other.Against != "":
		return better.Type, fmt.Sprintf("auto: %s: %s", other.Type, other.Against)
	}
	return better.Type, fmt.Sprintf("auto: error %s, %s %s", brief(relativeError(&better.Stats)), other.Type, brief(relativeError(&other.Stats)))
}

// judged says of each trial what speaks against it.
func (o *Options) judged(in tensor.Info, v *Values, list []Trial) []Trial {
	for k := range list {
		list[k].Against = o.against(in, v, &list[k])
	}
	if len(list) > 1 && smallVector(in) && list[0].unfit(v.Count) == "" && merges(v, &list[0]) {
		list[1].Against = cmp.Or(list[1].Against, "coarser than F16")
	}
	return list
}

// settleAuto decides one tensor.
func (p *Plan) settleAuto(t *Choice, v *Values, list []Trial) error {
	t.Undecided = false
	to, reason := pick(t.In, list)
	t.Reason = reason
	if to == t.In.DType {
		return nil
	}
	for k := range list {
		if list[k].Type == to {
			t.trial = &list[k].Stats
		}
	}
	t.clean = p.Options.OnNaN == NaNError
	if t.clean && v.NaN > 0 {
		return nanError(t.In, nanCount{v.NaN, v.FirstNaN.Index})
	}
	return t.retype(to, reason)
}

// ErrTargetSize is a target size that Auto cannot reach within its limits.
var ErrTargetSize = errors.New("the target size cannot be reached")

// limit returns the bytes that all tensors may have in the output; ok is false
// without a limit.
func (p *Plan) limit() (n int64, ok bool) {
	switch o := &p.Options; {
	case o.TargetBytes > 0:
		return o.TargetBytes, true
	case o.TargetPercent > 0:
		in, _ := p.Bytes()
		return int64(float64(in) * o.TargetPercent / 100), true
	}
	return 0, false
}

// budget lets tensors that Auto has narrowed stay as they are, as far as the
// target size has room for them: those first whose squared relative error is
// largest for each byte that they save. It is ErrTargetSize if there is no room
// for what has been narrowed as far as the limits allow.
func (p *Plan) budget() error {
	limit, ok := p.limit()
	if !ok {
		return nil
	}
	_, out := p.Bytes()
	if out > limit {
		return fmt.Errorf("%w: %d bytes are wanted, and %d are the least that the limits allow", ErrTargetSize, limit, out)
	}
	var narrow []*Choice
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.trial != nil && t.trial.Changed > 0 {
			narrow = append(narrow, t)
		}
	}
	slices.SortStableFunc(narrow, func(a, b *Choice) int { return cmp.Compare(b.price(), a.price()) })
	for _, t := range narrow {
		if saved := t.In.Size - t.Out.Size; out+saved <= limit {
			out += saved
			t.Out, t.trial, t.clean = t.In, nil, false
			t.Reason = "auto: the target size has room for it"
		}
	}
	return nil
}

// price returns the squared relative error of a tensor for each byte that it
// saves.
func (t *Choice) price() float64 {
	e := relativeError(t.trial)
	return e * e / float64(t.In.Size-t.Out.Size)
}
