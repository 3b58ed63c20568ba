package demi

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A Plan says what becomes of each tensor, in the order of the output. It is a
// value: nothing has been read or written but headers, until Decide.
type Plan struct {
	Options Options
	Tensors []Choice
	Dropped []Dropped       // what is in the source and no tensor of the output
	Meta    tensor.Metadata // of the output

	pipeline  bool              // the tensors are those of several components
	container Format            // of the source, that a store is to remember; "" if that is not known
	from      Format            // whose metadata the source has
	meta      tensor.Metadata   // of the source, as far as it stays
	aliases   map[string]string // of the source
	tieOpen   bool              // Options.Tie waits for Decide
	wantTied  map[string]string // what it has to find, by a document; nil without one
	unused    []*regexp.Regexp  // Options.Drop that match nothing
}

// A Choice is the plan for one tensor.
type Choice struct {
	Source    int         // its number in the source
	In        tensor.Info // as it is in the source, with the name that it will have
	Renamed   string      // its name in the source, if that is another
	Out       tensor.Info // as it will be
	Reason    string
	Undecided bool // Decide has to look at the values first; Out is that of In until then

	file int    // of the source
	from string // the type that In was decoded from, "" if it was not

	exact bool // Decide saw that every value comes back
	fits  bool // Decide saw that no value overflows
	clean bool // Decide saw that no value is NaN

	trial *tensor.Stats // what Auto saw that the conversion costs; nil if it did not look

	scan *kernels.Scan // what Decide saw of a candidate for Exact; nil if it did not look
}

// Converted reports whether the type changes.
func (c *Choice) Converted() bool { return c.In.DType != c.Out.DType }

// narrowed reports whether the type gets another that cannot hold all of its
// values.
func (c *Choice) narrowed() bool {
	return c.Converted() && (c.Out.DType.Bits() < c.In.DType.Bits() || c.Out.DType.Bits() == 16)
}

func (c *Choice) retype(d tensor.DType, reason string) error {
	size, err := tensor.ByteSize(d, c.In.Elements())
	if err != nil {
		return err
	}
	c.Out = c.In
	c.Out.DType, c.Out.Size = d, size
	c.because(reason)
	return nil
}

// because gives the reason of the type.
func (c *Choice) because(reason string) {
	if from := "was " + c.from + "; "; c.from != "" && !strings.HasPrefix(reason, from) {
		reason = from + reason
	}
	c.Reason = reason
}

// NewPlan fixes the type of each tensor by the cast table (see Options and
// the precision guide), and their order. It reads no values: where they have
// to decide, the Choice is undecided until Decide has been called.
func NewPlan(c *Checkpoint, o Options) (*Plan, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults(c.format)
	from := c.ecosystem()
	if o.Format != Demi && o.Format != from && !o.ContainerOnly {
		return nil, fmt.Errorf("%w: %s to %s changes the container alone: tensor names, layouts and metadata stay those of the one ecosystem, and programs of the other will not find a model in it (allow it with container-only)",
			tensor.ErrUnsupported, from, o.Format)
	}
	if err := o.checkTie(c, from); err != nil {
		return nil, err
	}
	s, err := newSelection(c, o)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		pipeline: len(c.components) > 0, container: c.container(), Options: o, Dropped: s.dropped, unused: s.unused(), from: from,
		meta: s.meta(), aliases: s.aliases, tieOpen: o.Tie,
	}
	infos := s.infos()
	table := newCaster(infos, o, o.Format == GGUF || o.Format == Demi && from == GGUF)
	for i, in := range infos {
		if c.origin(s.picks[i].sourceName()) != "" {
			table.quantise(in.Name)
		}
	}
	choices := make([]Choice, len(infos))
	fileOf := c.fileOf()
	for i, in := range infos {
		to, reason, candidate := table.cast(in)
		choices[i] = Choice{Source: s.picks[i].source, Renamed: s.picks[i].from, In: in, Out: in, Reason: reason}
		name := choices[i].sourceName()
		choices[i].file, choices[i].from = fileOf(name), c.origin(name)
		choices[i].because(reason)
		if to != in.DType {
			if err := choices[i].retype(to, reason); err != nil {
				return nil, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err}
			}
		}
		choices[i].Undecided = candidate || choices[i].narrowed() && p.overflowDecides() ||
			choices[i].Converted() && o.OnNaN == NaNError
	}
	p.Tensors = choices
	p.arrange()
	return p, p.setMeta()
}

func (p *Plan) overflowDecides() bool {
	return p.Options.Overflow == OverflowError || p.Options.Overflow == OverflowKeep
}

// arrange puts the tensors in the order that the output format likes.
func (p *Plan) arrange() {
	order := p.order(p.Infos())
	if p.Options.KeepSplit {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Tensors[a].file, p.Tensors[b].file) })
	}
	if p.pipeline {
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(p.component(a), p.component(b)) })
	}
	sorted := make([]Choice, len(order))
	for k, i := range order {
		sorted[k] = p.Tensors[i]
	}
	p.Tensors = sorted
}

// component returns the component of a pipeline that tensor i is of.
func (p *Plan) component(i int) string {
	name, _ := componentOf(p.Tensors[i].In.Name)
	return name
}

func (p *Plan) order(infos []tensor.Info) []int {
	switch p.Options.Format {
	case GGUF:
		return gguf.Order(infos, nil)
	case Demi:
		return sourceOrder(p.Tensors)
	}
	return safetensors.Order(infos, p.safetensors())
}

// sourceOrder returns the order in which the tensors come in the source, so
// that a store is read and written front to back.
func sourceOrder(tensors []Choice) []int {
	order := make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tensors[a].Source, tensors[b].Source) })
	return order
}

// Infos returns the tensors as they will be, in the order of the output.
func (p *Plan) Infos() []tensor.Info {
	infos := make([]tensor.Info, len(p.Tensors))
	for i := range p.Tensors {
		infos[i] = p.Tensors[i].Out
	}
	return infos
}

// Undecided returns the number of tensors for which Decide has to look at the
// values.
func (p *Plan) Undecided() (n int) {
	for i := range p.Tensors {
		if p.Tensors[i].Undecided {
			n++
		}
	}
	return n
}

// UnusedRules returns the rules that match no name: a misspelt one protects
// nothing.
func (p *Plan) UnusedRules() (unused []Rule) {
	for _, r := range p.Options.Rules {
		if !slices.ContainsFunc(p.Tensors, func(t Choice) bool { return r.Name.MatchString(t.In.Name) }) {
			unused = append(unused, r)
		}
	}
	return unused
}

// UnusedDrops returns the expressions of Options.Drop that match no name.
func (p *Plan) UnusedDrops() []*regexp.Regexp { return p.unused }

// sourceName returns the name that the tensor has in the source.
func (c *Choice) sourceName() string {
	if c.Renamed != "" {
		return c.Renamed
	}
	return c.In.Name
}

// faithful reports whether the output has all tensors of the source, under
// their names, and none has changed its type.
func (p *Plan) faithful() bool {
	return len(p.Dropped) == 0 && !slices.ContainsFunc(p.Tensors, func(t Choice) bool { return t.Converted() || t.Renamed != "" })
}

// Bytes returns the bytes of all tensors in the source and in the output;
// undecided ones count as they are now.
func (p *Plan) Bytes() (in, out int64) {
	for i := range p.Tensors {
		in += p.Tensors[i].In.Size
		out += p.Tensors[i].Out.Size
	}
	return in, out
}

// Bounds returns the least and the most bytes that all tensors can have in the
// output: the same once the plan is decided.
func (p *Plan) Bounds() (least, most int64) {
	for i := range p.Tensors {
		lo, hi := p.bounds(&p.Tensors[i])
		least, most = least+lo, most+hi
	}
	return least, most
}

func (p *Plan) bounds(t *Choice) (least, most int64) {
	switch {
	case !t.Undecided, t.Converted() && p.Options.Overflow != OverflowKeep, t.Converted() && !t.narrowed():
		return t.Out.Size, t.Out.Size
	case t.Converted():
		return min(t.In.Size, t.Out.Size), max(t.In.Size, t.Out.Size)
	}
	return 2 * t.In.Elements(), t.In.Size // a candidate for Exact or Auto: a 16-bit type, or none
}

// fileType is the key in which GGUF says of what type a model mostly is.
const fileType = "general.file_type"

// setMeta translates the metadata to the output format, and corrects the key
// that names the type.
func (p *Plan) setMeta() (err error) {
	meta := p.meta
	switch {
	case p.Options.Format == p.from || p.Options.Format == Demi:
		p.Meta = append(tensor.Metadata(nil), meta...)
	case p.Options.Format == GGUF:
		p.Meta, err = gguf.StringsToMetadata(meta)
	default:
		p.Meta, err = gguf.MetadataToStrings(meta)
	}
	if err == nil {
		p.setFileType()
	}
	return err
}

func (p *Plan) setFileType() {
	for i := range p.Meta {
		if _, number := p.Meta[i].Value.(uint32); p.Meta[i].Key != fileType || !number {
			continue
		}
		before, after := make([]tensor.Info, len(p.Tensors)), p.Infos()
		for k := range p.Tensors {
			before[k] = p.Tensors[k].In
			if from := p.Tensors[k].from; from != "" {
				before[k].DType, before[k].Foreign.Name = tensor.Opaque, from
			}
		}
		was, is := gguf.MajorityType(before), gguf.MajorityType(after)
		if n, ok := gguf.FileType(is); ok && was != is {
			p.Meta[i].Value = n
		}
	}
}

// errUndecided is what Convert says of a plan that has not been decided.
var errUndecided = errors.New("demi: the plan has undecided tensors: call Decide first")
