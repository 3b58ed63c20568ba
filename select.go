package demi

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// An EMAPolicy says what becomes of running averages of weights, such as those
// under "model_ema." in checkpoints of diffusion models.
type EMAPolicy string

// The policies for averages.
const (
	// EMAKeep copies or converts them as any tensor.
	EMAKeep EMAPolicy = "keep"
	// EMAUse gives each average the name of the weights that it is of, and
	// leaves those out. Weights without an average stay.
	EMAUse EMAPolicy = "use"
	// EMADrop leaves them out.
	EMADrop EMAPolicy = "drop"
)

// EMAPolicies returns all policies, the default first.
func EMAPolicies() []EMAPolicy { return []EMAPolicy{EMAKeep, EMAUse, EMADrop} }

// ParseEMAPolicy reads the name of a policy.
func ParseEMAPolicy(s string) (EMAPolicy, error) {
	for _, e := range EMAPolicies() {
		if strings.EqualFold(s, string(e)) {
			return e, nil
		}
	}
	return "", fmt.Errorf("unknown policy %q for averages (keep, use, drop)", s)
}

// A Dropped is a name of the source that is no tensor of the output.
type Dropped struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"`
	Size   int64   `json:"bytes"` // 0 for an alias, which has none of its own
	Class  string  `json:"class"` // "weights", "ema", "optimizer" or "training", as pytorch.ClassOf says by the name
	Reason string  `json:"reason"`
	// Tied is the tensor of the output whose metadata say that Name is an alias
	// of it; "" if nothing of Name is left.
	Tied string `json:"tied,omitempty"`
}

func newDropped(in tensor.Info, reason string) Dropped {
	return Dropped{Name: in.Name, Type: in.TypeName(), Shape: append([]int64{}, in.Shape...), Size: in.Size, Class: pytorch.ClassOf(in.Name).String(), Reason: reason}
}

// A ClassSum says how many tensors of a class there are.
type ClassSum struct {
	Class   string `json:"class"` // see Dropped
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
	// Drop is an expression for Options.Drop that matches these tensors and no
	// others; "" for weights, and where there is no simple one.
	Drop string `json:"drop,omitempty"`
}

// Classes sums up what the tensors of c are for: the weights of the model, or
// what training leaves beside them.
func (c *Checkpoint) Classes() []ClassSum {
	sums := make([]ClassSum, 4)
	first := make([]map[string]bool, len(sums)) // the beginnings of the names
	for i := range sums {
		sums[i].Class, first[i] = pytorch.Class(i).String(), map[string]bool{}
	}
	for _, in := range c.src.Tensors() {
		k := pytorch.ClassOf(in.Name)
		sums[k].Tensors++
		sums[k].Bytes += in.Size
		first[k][beginning(in.Name)] = true
	}
	for k := range sums {
		sums[k].Drop = dropExpression(pytorch.Class(k), first)
	}
	return slices.DeleteFunc(sums, func(s ClassSum) bool { return s.Tensors == 0 })
}

// beginning returns a name up to its first dot, or its second behind
// "state_dict.".
func beginning(name string) string {
	rest, ok := strings.CutPrefix(name, "state_dict.")
	first, _, _ := strings.Cut(rest, ".")
	if ok {
		return "state_dict." + first
	}
	return first
}

func dropExpression(k pytorch.Class, first []map[string]bool) string {
	if k == pytorch.Weights {
		return ""
	}
	var parts []string
	for p := range first[k] {
		for other := range first {
			if pytorch.Class(other) != k && first[other][p] {
				return ""
			}
		}
		parts = append(parts, regexp.QuoteMeta(p))
	}
	slices.Sort(parts)
	return `^(` + strings.Join(parts, "|") + `)(\.|$)`
}

// A chosen is a tensor of the source that the output is to have.
type chosen struct {
	source int
	in     tensor.Info // with the name that it gets
	from   string      // its name in the source if that is another
}

func (p *chosen) sourceName() string {
	if p.from != "" {
		return p.from
	}
	return p.in.Name
}

// A selection finds out which tensors the output has, before their types.
type selection struct {
	c       *Checkpoint
	options Options
	aliases map[string]string
	picks   []chosen
	dropped []Dropped
	used    []bool // Options.Drop that match a name
}

func newSelection(c *Checkpoint, o Options) (*selection, error) {
	s := &selection{c: c, options: o, aliases: c.aliases, used: make([]bool, len(o.Drop))}
	averages, err := s.averages()
	if err != nil {
		return nil, err
	}
	for i, in := range c.src.Tensors() {
		s.pick(i, in, averages)
	}
	if err := s.pickAliases(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// rule returns why a rule of Options.Drop leaves a name out, or "".
func (s *selection) rule(name string) string {
	for i, re := range s.options.Drop {
		if re.MatchString(name) {
			s.used[i] = true
			return "rule " + re.String()
		}
	}
	return ""
}

// pick takes or drops tensor i of the source.
func (s *selection) pick(i int, in tensor.Info, a *averages) {
	reason := s.rule(in.Name)
	to := a.of[in.Name]
	isEMA := pytorch.ClassOf(in.Name) == pytorch.EMA
	switch {
	case reason != "":
	case isEMA && s.options.EMA == EMADrop:
		reason = "averages are dropped"
	case isEMA && s.options.EMA == EMAUse && to == "":
		reason = "state of the averages"
	case isEMA && s.options.EMA == EMAUse:
		if reason = s.rule(to); reason == "" {
			from := in.Name
			in.Name = to
			s.picks = append(s.picks, chosen{i, in, from})
			return
		}
	case a.replaced[in.Name] != "":
		reason = "its average is used: " + a.replaced[in.Name]
	default:
		s.picks = append(s.picks, chosen{source: i, in: in})
		return
	}
	s.dropped = append(s.dropped, newDropped(in, reason))
}

// pickAliases drops aliases, or makes tensors of them under Untie. One whose
// tensor is dropped would be lost.
func (s *selection) pickAliases() error {
	numbers := make(map[string]int, len(s.picks))
	for k := range s.picks {
		numbers[s.picks[k].in.Name] = k
	}
	for _, alias := range sortedKeys(s.aliases) {
		kept := s.aliases[alias]
		if reason := s.rule(alias); reason != "" {
			s.dropped = append(s.dropped, Dropped{Name: alias, Shape: []int64{}, Class: pytorch.ClassOf(alias).String(), Reason: reason + ", an alias of " + kept})
			continue
		}
		k, ok := numbers[kept]
		switch {
		case s.options.Untie:
			i := s.c.byName[kept]
			in := s.c.src.Tensors()[i]
			p := chosen{i, in, kept}
			if ok {
				p = s.picks[k]
				if p.from == "" {
					p.from = kept
				}
			}
			p.in.Name = alias
			s.picks = append(s.picks, p)
		case !ok:
			return fmt.Errorf("%w: tensor %q is dropped, and %q is an alias of it by the metadata: drop both, or untie them", tensor.ErrUnsupported, kept, alias)
		}
	}
	return nil
}

// check refuses an output without tensors, or a pipeline with a component
// without them.
func (s *selection) check() error {
	left := map[string]int{}
	for k := range s.picks {
		name, _ := componentOf(s.picks[k].in.Name)
		left[name]++
	}
	var errs []error
	for _, p := range s.c.components {
		if left[p.name] == 0 && p.c.Len() > 0 {
			errs = append(errs, fmt.Errorf("%w: all tensors of the component %s would be dropped", tensor.ErrUnsupported, p.name))
		}
	}
	if len(s.picks) == 0 && len(s.dropped) > 0 {
		errs = append(errs, fmt.Errorf("%w: every tensor would be dropped, %d in all", tensor.ErrUnsupported, len(s.dropped)))
	}
	return errors.Join(errs...)
}

// unused returns the expressions of Options.Drop that have matched no name.
func (s *selection) unused() (list []*regexp.Regexp) {
	for i, used := range s.used {
		if !used {
			list = append(list, s.options.Drop[i])
		}
	}
	return list
}

func (s *selection) infos() []tensor.Info {
	infos := make([]tensor.Info, len(s.picks))
	for k := range s.picks {
		infos[k] = s.picks[k].in
	}
	return infos
}

// meta returns the metadata of the source with all aliases that are left, also
// those of the index of a set.
func (s *selection) meta() tensor.Metadata {
	var meta tensor.Metadata
	for _, e := range s.c.Meta() {
		if _, alias := s.aliases[e.Key]; !alias {
			meta = append(meta, e)
		}
	}
	if s.options.Untie {
		return meta
	}
	for _, alias := range sortedKeys(s.aliases) {
		if !slices.ContainsFunc(s.dropped, func(d Dropped) bool { return d.Name == alias }) {
			meta = append(meta, tensor.Entry{Key: alias, Value: s.aliases[alias]})
		}
	}
	return meta
}

// Averages say which tensors are averages of which. Both maps are empty but
// under EMAUse.
type averages struct {
	of       map[string]string // weights, by their average
	replaced map[string]string // average, by its weights
}

// averages finds the weights of each average, by name: those whose name, without
// "model." and the like, is the rest of the average's, with its dots or, as the
// LitEma of latent diffusion writes them, without.
func (s *selection) averages() (*averages, error) {
	a := &averages{map[string]string{}, map[string]string{}}
	if s.options.EMA != EMAUse {
		return a, nil
	}
	weights := newWeightNames(s.c.src.Tensors())
	found := 0
	for _, in := range s.c.src.Tensors() {
		if pytorch.ClassOf(in.Name) != pytorch.EMA {
			continue
		}
		found++
		w, err := weights.of(in)
		if err != nil {
			return nil, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err}
		}
		if w == "" {
			continue
		}
		if first := a.replaced[w]; first != "" {
			return nil, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: fmt.Errorf("%w: it is an average of %q, and so is %q", tensor.ErrUnsupported, w, first)}
		}
		a.of[in.Name], a.replaced[w] = w, in.Name
	}
	if found == 0 {
		return nil, fmt.Errorf("%w: there are no averages to use: no tensor has a name such as model_ema.x", tensor.ErrUnsupported)
	}
	return a, nil
}

// weightNames finds weights by what their names are without their beginnings.
type weightNames struct {
	dotted, bare map[string][]int
	infos        []tensor.Info
}

// weightBeginnings are what stands before the names of the weights in
// checkpoints of training frameworks.
var weightBeginnings = []string{"", "model.", "state_dict.", "state_dict.model.", "model_state_dict."}

func newWeightNames(infos []tensor.Info) *weightNames {
	n := &weightNames{map[string][]int{}, map[string][]int{}, infos}
	for i, in := range infos {
		if pytorch.ClassOf(in.Name) != pytorch.Weights {
			continue
		}
		for _, b := range weightBeginnings {
			if rest, ok := strings.CutPrefix(in.Name, b); ok {
				n.dotted[rest] = append(n.dotted[rest], i)
				bare := strings.ReplaceAll(rest, ".", "")
				n.bare[bare] = append(n.bare[bare], i)
			}
		}
	}
	return n
}

// of returns the name of the weights that in is an average of; "" for a scalar
// that is of none, such as its decay.
func (n *weightNames) of(in tensor.Info) (string, error) {
	_, rest, _ := strings.Cut(strings.TrimPrefix(in.Name, "state_dict."), ".")
	list := n.dotted[rest]
	if len(list) == 0 && !strings.Contains(rest, ".") {
		list = n.bare[rest]
	}
	switch {
	case len(list) == 0 && in.Elements() == 1:
		return "", nil
	case len(list) == 0:
		return "", fmt.Errorf("%w: an average of no tensor that is there", tensor.ErrUnsupported)
	case len(list) > 1:
		return "", fmt.Errorf("%w: an average of %q or of %q", tensor.ErrUnsupported, n.infos[list[0]].Name, n.infos[list[1]].Name)
	}
	w := n.infos[list[0]]
	if !slices.Equal(w.Shape, in.Shape) {
		return "", fmt.Errorf("%w: an average of shape %v of %q, which has shape %v", tensor.ErrUnsupported, in.Shape, w.Name, w.Shape)
	}
	return w.Name, nil
}

// A picked is some tensors of a Source, under names that may be others.
type picked struct {
	tensor.Source
	of    []int
	infos []tensor.Info
}

func (p *picked) add(i int, name string) {
	in := p.Source.Tensors()[i]
	in.Name = name
	p.of, p.infos = append(p.of, i), append(p.infos, in)
}

func (p *picked) Tensors() []tensor.Info      { return p.infos }
func (p *picked) Data(i int) io.ReaderAt      { return p.Source.Data(p.of[i]) }
func (p *picked) Place(i int) (string, int64) { return p.Source.Place(p.of[i]) }
func (p *picked) Sums(i int) ([]tensor.Sum, bool) {
	return tensor.Sums(p.Source, p.of[i])
}
func (p *picked) OtherSums() []tensor.Sum { return tensor.OtherSums(p.Source) }
