package pytorch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// The functions here are makers: args can be anything.

func arg[T any](args []any, i int, what string) (v T, err error) {
	if i >= len(args) {
		return v, fmt.Errorf("there are %d arguments, want %s as number %d", len(args), what, i+1)
	}
	v, ok := args[i].(T)
	if !ok {
		return v, fmt.Errorf("argument %d is a %s, want %s", i+1, typeName(args[i]), what)
	}
	return v, nil
}

// rebuildTensor makes the function that takes a storage, an offset, a size,
// strides and others, n in all, and metadata if there is one more.
func rebuildTensor(n int) maker {
	return func(m *machine, args []any) (any, error) {
		s, err := arg[*storage](args, 0, "a storage")
		if err != nil {
			return nil, err
		}
		return m.newTensor(s, s.element, args, n)
	}
}

// rebuildTensor3 has a dtype before the metadata; its storage is untyped.
func rebuildTensor3(m *machine, args []any) (any, error) {
	s, err := arg[*storage](args, 0, "a storage")
	if err != nil {
		return nil, err
	}
	e, err := arg[element](args, 6, "a dtype")
	if err != nil {
		return nil, err
	}
	return m.newTensor(s, e, args, 7)
}

// newTensor makes a tensor of n arguments and its metadata.
func (m *machine) newTensor(s *storage, e element, args []any, n int) (v any, err error) {
	if len(args) != n && len(args) != n+1 {
		return nil, fmt.Errorf("there are %d arguments, want %d or one more", len(args), n)
	}
	t := &pickled{at: m.at, store: s, element: e}
	if t.offset, err = arg[int64](args, 1, "an offset"); err != nil {
		return nil, err
	}
	if t.shape, err = m.dims(args, 2, "a size"); err != nil {
		return nil, err
	}
	if t.stride, err = m.dims(args, 3, "strides"); err != nil {
		return nil, err
	}
	if len(t.shape) != len(t.stride) {
		return nil, fmt.Errorf("size %v has not as many dimensions as strides %v", t.shape, t.stride)
	}
	if len(args) > n {
		t.unreadable = lazyBits(args[n])
	}
	return t, m.budget.take(128)
}

// dims reads a tuple of integers.
func (m *machine) dims(args []any, i int, what string) ([]int64, error) {
	const maxRank = 64 // of PyTorch itself
	s, err := arg[*seq](args, i, what)
	if err != nil {
		return nil, err
	}
	if len(s.items) > maxRank {
		return nil, classed(tensor.ErrUnsupported, "tensor has %d dimensions, at most %d are read", len(s.items), maxRank)
	}
	dims := make([]int64, len(s.items))
	for k := range dims {
		if dims[k], err = arg[int64](s.items, k, "an integer"); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return dims, m.budget.take(8 * len(dims))
}

// lazyBits finds the bits that say that values are to be conjugated or negated
// when they are read.
func lazyBits(metadata any) string {
	d, _ := metadata.(*dict)
	if d == nil {
		return ""
	}
	for i, k := range d.keys {
		if name, _ := k.(string); d.vals[i] == true {
			return fmt.Sprintf("a tensor whose values are to be changed when they are read (%s)", quote(name))
		}
	}
	return ""
}

// unreadable makes the function for tensors of a kind that cannot be read.
func unreadable(what string) maker {
	return func(m *machine, _ []any) (any, error) {
		return &pickled{at: m.at, unreadable: what}, m.budget.take(128)
	}
}

// rebuildParameter takes a tensor first.
func rebuildParameter(_ *machine, args []any) (any, error) {
	return arg[*pickled](args, 0, "a tensor")
}

// rebuildFromType takes a function, a class, the arguments of the function,
// and attributes, which are left out. The class is Tensor or Parameter: what
// others do with the values is theirs to know.
func rebuildFromType(m *machine, args []any) (any, error) {
	f, err := arg[*class](args, 0, "a function")
	if err != nil {
		return nil, err
	}
	of, err := arg[*class](args, 1, "a class")
	if err != nil {
		return nil, err
	}
	list, err := arg[*seq](args, 2, "arguments")
	if err != nil {
		return nil, err
	}
	switch {
	case !strings.HasPrefix(f.name, "torch._utils._rebuild_"):
		return nil, fmt.Errorf("%s makes no tensor", f.name)
	case !slices.Contains([]string{"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}, of.name):
		return nil, fmt.Errorf("%s is no class of tensors", of.name)
	}
	return f.make(m, list.items)
}

func makeDevice(_ *machine, args []any) (any, error) {
	kind, err := arg[string](args, 0, "a name")
	if err != nil || len(args) == 1 {
		return kind, err
	}
	n, err := arg[int64](args, 1, "a number")
	return fmt.Sprintf("%.100s:%d", kind, n), err
}

func makeText(_ *machine, args []any) (any, error) { return arg[string](args, 0, "a string") }

// items returns the items of the only argument; none without one.
func (m *machine) items(args []any) ([]any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	s, err := arg[*seq](args, 0, "a sequence")
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.items), m.budget.take(slot * len(s.items))
}

func (m *machine) makeSeq(kind seqKind, args []any) (any, error) {
	items, err := m.items(args)
	return &seq{kind, items}, err
}

func makeTuple(m *machine, args []any) (any, error) { return m.makeSeq(tupleKind, args) }
func makeList(m *machine, args []any) (any, error)  { return m.makeSeq(listKind, args) }
func makeSet(m *machine, args []any) (any, error)   { return m.makeSeq(setKind, args) }

// makeDict takes nothing, a dictionary or a sequence of pairs.
func makeDict(m *machine, args []any) (any, error) {
	d := &dict{}
	if err := m.budget.take(64); err != nil || len(args) == 0 {
		return d, err
	}
	if from, ok := args[0].(*dict); ok {
		return d, m.copyItems(d, from)
	}
	pairs, err := arg[*seq](args, 0, "a dictionary or pairs")
	if err != nil {
		return nil, err
	}
	for _, p := range pairs.items {
		pair, ok := p.(*seq)
		if !ok || len(pair.items) != 2 {
			return nil, fmt.Errorf("item of type %s, want a pair", typeName(p))
		}
		if err := m.set(d, pair.items[0], pair.items[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// makeDefaultDict takes the maker of missing items first, which is not called.
func makeDefaultDict(m *machine, args []any) (any, error) {
	return makeDict(m, args[min(1, len(args)):])
}

func newDict(m *machine, args []any) (any, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("__new__ has %d arguments, want none", len(args))
	}
	return makeDict(m, nil)
}

// newNamespace makes a namespace, which gets its items later.
func newNamespace(m *machine, args []any) (any, error) {
	d, err := newDict(m, args)
	if err != nil {
		return nil, err
	}
	d.(*dict).namespace = true
	return d, nil
}

func (m *machine) copyItems(to, from *dict) error {
	for i, k := range from.keys {
		if err := m.set(to, k, from.vals[i]); err != nil {
			return err
		}
	}
	return nil
}

// encode makes bytes: Python 3 writes them for older protocols as a string and
// the name of its encoding, latin1.
func encode(m *machine, args []any) (any, error) {
	if len(args) == 0 {
		return raw(""), nil
	}
	if s, ok := args[0].(raw); ok {
		return s, nil
	}
	s, err := arg[string](args, 0, "a string")
	if err != nil {
		return nil, err
	}
	if code, err := arg[string](args, 1, "an encoding"); err != nil || code != "latin1" && code != "latin-1" {
		return nil, fmt.Errorf("encoding %.20q, want latin1", code)
	}
	if err := m.budget.take(len(s)); err != nil {
		return nil, err
	}
	var p strings.Builder
	p.Grow(len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, fmt.Errorf("character %q is not of latin1", r)
		}
		p.WriteByte(byte(r))
	}
	return raw(p.String()), nil
}

// An arrayType is a dtype of NumPy, for its scalars: 'f', 'i', 'u' or 'b' and a
// size in bytes.
type arrayType struct {
	kind byte
	size int
}

func makeArrayType(_ *machine, args []any) (any, error) {
	name, err := arg[string](args, 0, "a name")
	if err != nil {
		return nil, err
	}
	t := &arrayType{}
	if len(name) != 2 || !strings.Contains("fiub", name[:1]) || !strings.Contains("1248", name[1:]) {
		return t, nil // one that makeScalar refuses
	}
	t.kind, t.size = name[0], int(name[1]-'0')
	return t, nil
}

// setState takes a tuple whose second item is the byte order.
func (t *arrayType) setState(state any) error {
	s, ok := state.(*seq)
	if !ok || len(s.items) < 2 || s.items[1] != "<" && s.items[1] != "|" {
		return errors.New("numpy.dtype is not little-endian")
	}
	return nil
}

func makeScalar(_ *machine, args []any) (any, error) {
	t, err := arg[*arrayType](args, 0, "a dtype")
	if err != nil {
		return nil, err
	}
	s, err := arg[raw](args, 1, "bytes")
	if err != nil {
		return nil, err
	}
	if t.size == 0 {
		return s, nil // bytes, which are no metadata
	}
	if len(s) != t.size {
		return nil, fmt.Errorf("%d bytes for a NumPy number of %d", len(s), t.size)
	}
	v := uint64(shortLong(string(s)))
	switch unused := 64 - 8*t.size; {
	case t.kind == 'f' && t.size == 8:
		return math.Float64frombits(v), nil
	case t.kind == 'f' && t.size == 4:
		return float64(math.Float32frombits(uint32(v))), nil
	case t.kind == 'b':
		return v != 0, nil
	case t.kind == 'i', t.kind == 'u' && t.size < 8:
		if t.kind == 'u' {
			v = v << unused >> unused
		}
		return int64(v), nil
	}
	return s, nil
}
