package demi

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// Aliases returns the names that the metadata give to tensors beside their own,
// each with the tensor that it is an alias of: save_model of the safetensors
// library writes them for tied weights. Where a format has no such thing, as
// GGUF, there are none.
func (c *Checkpoint) Aliases() map[string]string { return maps.Clone(c.aliases) }

// findAliases finds the aliases in the metadata.
func (c *Checkpoint) findAliases() map[string]string {
	if c.ecosystem() != Safetensors {
		return nil
	}
	return safetensors.Aliases(c.src)
}

// Untied returns the tensors of c and, behind them, one for each alias, which
// reads the tensor that it is an alias of. Closing it closes c.
func (c *Checkpoint) Untied() tensor.Source {
	if len(c.aliases) == 0 {
		return c.src
	}
	p := &picked{Source: c.src}
	for i, in := range c.src.Tensors() {
		p.add(i, in.Name)
	}
	for _, alias := range sortedKeys(c.aliases) {
		p.add(c.byName[c.aliases[alias]], alias)
	}
	return p
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkTie refuses Tie and Untie where nobody would understand an alias.
func (o Options) checkTie(c *Checkpoint, from Format) error {
	switch {
	case !o.Tie && !o.Untie:
		return nil
	case from == GGUF || o.Format == GGUF:
		return fmt.Errorf("%w: tie and untie: GGUF has no aliases of tensors", tensor.ErrUnsupported)
	case c.components != nil:
		return fmt.Errorf("%w: tie and untie are for one component of a pipeline, not for all: name its directory", tensor.ErrUnsupported)
	}
	return nil
}

// headNames are those of two tied tensors that loaders can do without: the ones
// that models of transformers list as _tied_weights_keys.
var headNames = regexp.MustCompile(`(^|\.)(lm_head|embed_out|output_projection|predictions\.decoder|(encoder|decoder)\.embed_tokens)\.weight$`)

// firstName orders the names of equal tensors: the first is kept.
func firstName(a, b string) int {
	if x, y := headNames.MatchString(a), headNames.MatchString(b); x != y {
		if x {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// sample is how much of a tensor is compared before all of it is read.
const sample = 4 << 10

// A tier finds the tensors of a plan that are equal.
type tier struct {
	plan *Plan
	c    *Checkpoint
	o    *RunOptions
}

// tie leaves one of equal tensors in the plan, and makes the others aliases in
// the metadata. Equal are those that are one piece of memory in the source, and
// those of two dimensions and more that have the same bytes, unless all their
// elements are the same: that zeros are zeros means nothing. What becomes of
// them must be the same, too.
func (p *Plan) tie(ctx context.Context, c *Checkpoint, o *RunOptions) error {
	if !p.tieOpen {
		return nil
	}
	t := &tier{p, c, o}
	groups := t.shared()
	equal, err := t.equal(ctx)
	if err != nil {
		return err
	}
	aliases := map[string]string{}
	for _, g := range append(groups, equal...) {
		g = slices.DeleteFunc(g, func(name string) bool { return aliases[name] != "" })
		slices.SortFunc(g, firstName)
		for _, name := range g[min(1, len(g)):] {
			aliases[name] = g[0]
		}
	}
	for name, kept := range aliases { // two groups may share a name
		for aliases[kept] != "" {
			kept = aliases[kept]
		}
		aliases[name] = kept
	}
	if p.wantTied != nil && !maps.Equal(p.wantTied, aliases) {
		return fmt.Errorf("%w: other tensors are equal than those of the plan", tensor.ErrChanged)
	}
	p.tieOpen = false
	return p.setAliases(aliases)
}

// setAliases takes tensors out of the plan and puts them into its metadata.
func (p *Plan) setAliases(aliases map[string]string) error {
	p.Tensors = slices.DeleteFunc(p.Tensors, func(t Choice) bool {
		kept, tied := aliases[t.Out.Name]
		if tied {
			d := newDropped(t.In, "tied: the same values as "+kept)
			d.Tied = kept
			p.Dropped = append(p.Dropped, d)
		}
		return tied
	})
	for i := range p.meta {
		if text, ok := p.meta[i].Value.(string); ok && p.aliases[p.meta[i].Key] == text && aliases[text] != "" {
			p.meta[i].Value = aliases[text]
		}
	}
	for _, name := range sortedKeys(aliases) {
		if _, there := p.meta.Get(name); there {
			return fmt.Errorf("%w: tie: the metadata have a key %q already", tensor.ErrUnsupported, name)
		}
		p.meta = append(p.meta, tensor.Entry{Key: name, Value: aliases[name]})
	}
	return p.setMeta()
}

// kind is what equal tensors have in common beside their bytes.
func (t *Choice) kind() string { return fmt.Sprint(t.In.TypeName(), t.Out.TypeName(), t.In.Shape) }

// shared returns the groups of tensors that are one piece of memory.
func (t *tier) shared() [][]string {
	kinds := map[string]string{}
	for i := range t.plan.Tensors {
		kinds[t.plan.Tensors[i].In.Name] = t.plan.Tensors[i].kind()
	}
	groups := map[string][]string{}
	for _, name := range sortedKeys(t.c.shared) {
		first := t.c.shared[name]
		if k, ok := kinds[name]; ok && k == kinds[first] {
			groups[first] = append(groups[first], name)
		}
	}
	var list [][]string
	for _, first := range slices.Sorted(maps.Keys(groups)) {
		list = append(list, append(groups[first], first))
	}
	return list
}

// equal returns the groups of tensors with the same bytes. Of those that agree
// in type and shape and in their beginnings all is read and hashed.
func (t *tier) equal(ctx context.Context) ([][]string, error) {
	alike := map[string][]int{}
	head := make([]byte, sample)
	for i := range t.plan.Tensors {
		x := &t.plan.Tensors[i]
		if len(x.In.Shape) < 2 || x.In.Size == 0 {
			continue
		}
		p := head[:min(sample, x.In.Size)]
		if err := tensor.ReadFull(t.c.src, x.Source, p, 0); err != nil {
			return nil, err
		}
		k := x.kind() + string(valuehash.AppendLeaves(nil, p)[0][:])
		alike[k] = append(alike[k], i)
	}
	read := &picked{Source: t.c.src}
	for _, k := range slices.Sorted(maps.Keys(alike)) {
		if len(alike[k]) > 1 {
			for _, i := range alike[k] {
				read.add(t.plan.Tensors[i].Source, t.plan.Tensors[i].In.Name)
			}
		}
	}
	return t.hashed(ctx, read)
}

// hashed returns the groups of tensors with the same value hash.
func (t *tier) hashed(ctx context.Context, src *picked) ([][]string, error) {
	hashes, err := Hashes(ctx, FromSource(src, t.c.format), t.o)
	if err != nil {
		return nil, err
	}
	groups := map[tensor.Hash][]string{}
	var order []tensor.Hash
	for i, h := range hashes {
		if len(groups[h]) == 0 {
			constant, err := isConstant(src, i)
			if err != nil {
				return nil, err
			}
			if constant {
				continue
			}
			order = append(order, h)
		}
		groups[h] = append(groups[h], src.infos[i].Name)
	}
	var list [][]string
	for _, h := range order {
		if len(groups[h]) > 1 {
			list = append(list, groups[h])
		}
	}
	return list, nil
}

// isConstant reports whether all elements of a tensor are the same. It reads up
// to the first that is not.
func isConstant(src tensor.Source, i int) (bool, error) {
	in := src.Tensors()[i]
	width := max(in.DType.Bits()/8, 1)
	first := make([]byte, width)
	buf := make([]byte, 64<<10/width*width)
	for off := int64(0); off < in.Size; off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), in.Size-off)]
		if err := tensor.ReadFull(src, i, p, off); err != nil {
			return false, err
		}
		if off == 0 {
			copy(first, p)
		}
		for k := range p {
			if p[k] != first[k%width] {
				return false, nil
			}
		}
	}
	return true, nil
}
