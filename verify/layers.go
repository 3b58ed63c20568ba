package verify

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// By says what records are added up by.
type By string

// What a report may have a line for.
const (
	ByTensor By = "tensor"
	ByLayer  By = "layer" // such as model.layers.12, blk.12, transformer.h.3
	ByPart   By = "part"  // attention, mlp, norm, …: see Parts
	ByType   By = "type"  // such as F32 -> BF16
)

// Bys returns all of them, as texts.
func Bys() []string {
	return []string{string(ByTensor), string(ByLayer), string(ByPart), string(ByType)}
}

// ParseBy returns the By of a text.
func ParseBy(s string) (By, error) {
	if !slices.Contains(Bys(), s) {
		return "", fmt.Errorf("unknown grouping %q (%s)", s, strings.Join(Bys(), ", "))
	}
	return By(s), nil
}

// A Group adds up the records of one layer, part or type.
type Group struct {
	Name string `json:"name"`
	Totals
	Figures *Figures `json:"figures,omitempty"` // nil if nothing was measured
}

// Groups are the records of a checkpoint, added up in three ways.
type Groups struct {
	Layers []Group `json:"layers"`
	Parts  []Group `json:"parts"`
	Types  []Group `json:"types"`
}

// NewGroups adds up records by layer, part and type.
func NewGroups(records []tensor.Record) *Groups {
	return &Groups{GroupBy(records, ByLayer), GroupBy(records, ByPart), GroupBy(records, ByType)}
}

// GroupBy adds up records; the sums are taken in their order. Layers come in
// the order of their numbers, those of the stack that comes first before those
// of the next, and what is outside of layers last; parts in the order of Parts;
// types and tensors as they first come.
func GroupBy(records []tensor.Record, by By) []Group {
	groups, known, namer := []Group{}, map[string]int{}, by.namer()
	for i := range records {
		name := namer(&records[i])
		k, ok := known[name]
		if !ok {
			k = len(groups)
			known[name] = k
			groups = append(groups, Group{Name: name, Totals: noTotals()})
		}
		groups[k].add(&records[i])
	}
	for i := range groups {
		if groups[i].Measured > 0 {
			groups[i].Figures = NewFigures(&groups[i].Stats)
		}
	}
	switch by {
	case ByLayer:
		sortLayers(groups)
	case ByPart:
		slices.SortFunc(groups, func(a, b Group) int {
			return slices.Index(Parts(), a.Name) - slices.Index(Parts(), b.Name)
		})
	}
	return groups
}

// WorstGroups returns the n groups that lost most, in the order of Worst.
func WorstGroups(groups []Group, n int) []Group {
	return worst(groups, n, func(g *Group) *tensor.Stats { return &g.Stats })
}

// namer returns what names the group of a record.
func (by By) namer() func(r *tensor.Record) string {
	switch by {
	case ByLayer:
		return func(r *tensor.Record) string { return LayerOf(r.Name) }
	case ByPart:
		part := partOf()
		return func(r *tensor.Record) string { return part(r.Name) }
	case ByType:
		return typeCell
	}
	return func(r *tensor.Record) string { return r.Name }
}

// OutsideLayers is the layer of tensors that belong to none.
const OutsideLayers = "outside layers"

// layerName matches a name up to its first number: one that is a component
// alone, as in model.layers.12. and blk.12., or that ends one of the words for
// a layer, as in encoder/layer_3/.
var layerName = regexp.MustCompile(`^(?:[^./]*[./])*?(?:(?i:layers?|blocks?|h|blk)[_-]?)?[0-9]+[./]`)

// LayerOf returns the layer of a tensor by its name, such as "model.layers.12":
// the name up to its first number, so that the experts and nested blocks of a
// layer belong to it; OutsideLayers if there is none.
func LayerOf(name string) string {
	m := layerName.FindString(name)
	if m == "" {
		return OutsideLayers
	}
	return m[:len(m)-1]
}

// sortLayers sorts groups by the stack, as the stacks come, and then by number.
func sortLayers(groups []Group) {
	stack := func(g *Group) string { return strings.TrimRight(g.Name, "0123456789") }
	order := map[string]int{}
	for i := range groups {
		if s := stack(&groups[i]); order[s] == 0 && groups[i].Name != OutsideLayers {
			order[s] = i - len(groups)
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		x, y := stack(&a), stack(&b)
		if x != y {
			return order[x] - order[y]
		}
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
	})
}

// Parts returns the parts of a model that PartOf tells apart.
func Parts() []string {
	return []string{"embedding", "attention", "mlp", "router", "norm", "head", otherPart}
}

const otherPart = "other"

// partNames says what the names of a part look like, in the conventions of
// Hugging Face, GGUF, diffusers and JAX. The first that matches decides: a norm
// of attention is a norm, the output of attention is not a head.
var partNames = []struct {
	part string
	name *regexp.Regexp
}{
	{"norm", regexp.MustCompile(`(?i)norm(_[0-9a-z]+|[0-9]+)*([./](weight|bias|scale|gamma|beta))?$` +
		`|(^|[._/])(ln|bn)(_?[0-9a-z]+)?[./](weight|bias|scale|gamma|beta)$|running_(mean|var)$`)},
	{"router", regexp.MustCompile(`(?i)(^|[._/])router|ffn_gate_inp|exp_probs_b|e_score_correction_bias|expert_bias` +
		`|(mlp|moe|ffn|feed_forward)[a-z_]*[./](shared_expert_)?gate[./]`)},
	{"mlp", regexp.MustCompile(`(?i)mlp|ffn|feed_?forward|expert|(^|[._/])moe|dense_?relu_?dense|intermediate[./]|[0-9][./]output[./]dense` +
		`|(^|[._/])(gate|up|down|gate_up)_proj|(^|[._/])(w[123]|fc_?[12]|c_fc|dense_h_to_4h|dense_4h_to_h)[./]`)},
	{"attention", regexp.MustCompile(`(?i)attn|attention|(^|[._/])(q|k|v|o|kv|qkv)_proj|(^|[._/])(to_(q|k|v|out)|w[qkv]|query|key|value|qkv)([._/]|$)|(^|[._/])sinks?$`)},
	{"head", regexp.MustCompile(`(?i)(^|[./])(lm_head|embed_out|classifier|score|qa_outputs)([./]|$)|^output[./]`)},
	{"embedding", regexp.MustCompile(`(?i)emb|(^|[./])(wte|wpe|shared|cls_token)([./]|$)`)},
}

// PartOf returns the part of the model that a tensor belongs to, by its name:
// one of Parts.
func PartOf(name string) string {
	for _, p := range partNames {
		if p.name.MatchString(name) {
			return p.part
		}
	}
	return otherPart
}

// number matches a component of a name that is a number. Which one it is makes
// no difference to the part.
var number = regexp.MustCompile(`(^|[./])[0-9]+([./])`)

// partOf returns a PartOf that is fast where names differ by such numbers.
func partOf() func(name string) string {
	known := map[string]string{}
	return func(name string) string {
		key := number.ReplaceAllString(name, "${1}0$2")
		part, ok := known[key]
		if !ok {
			part = PartOf(name)
			known[key] = part
		}
		return part
	}
}
