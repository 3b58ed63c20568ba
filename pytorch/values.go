package pytorch

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/demi-weights/demi/tensor"
)

// The values of a pickle are nil, bool, int64, *big.Int, float64, string, raw,
// *seq, *dict, *class, element, storageClass, *storage, *pickled, *arrayType,
// *inert.

// raw is a bytes object of Python; it shares the memory of the pickle.
type raw string

// A seq is a list, a tuple, a set or a torch.Size.
type seq struct {
	kind  seqKind
	items []any
}

type seqKind uint8

const (
	listKind seqKind = iota
	tupleKind
	setKind
)

// A dict keeps its items in order. Attributes that BUILD gives to an
// OrderedDict are not kept.
type dict struct {
	namespace  bool // BUILD fills it: argparse.Namespace
	keys, vals []any
	index      map[any]struct{} // of the keys that can be compared, once there are several
}

// errTwice is the error for a key that is there already. No writer of pickles
// makes one, and readers could disagree on which value counts.
func errTwice(key any) error {
	return classed(tensor.ErrFormat, "key %s comes twice in a dictionary", keyName(key))
}

func keyName(key any) string {
	if name, ok := keyText(key); ok {
		return quote(name)
	}
	return "of type " + typeName(key)
}

// set adds an item.
func (d *dict) set(key, val any) error {
	if same, ok := equalKey(key); ok && d.note(same) {
		return errTwice(key)
	}
	d.keys, d.vals = append(d.keys, key), append(d.vals, val)
	return nil
}

// equalKey returns what is equal for all keys that are equal in Python, as 1,
// True and 1.0 are; ok is false for keys that are compared in other ways.
func equalKey(key any) (same any, ok bool) {
	switch k := key.(type) {
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if n := int64(k); k > -1<<63 && k < 1<<63 && float64(n) == k {
			return n, true
		}
		return k, true
	case nil, int64, string:
		return k, true
	}
	return nil, false
}

// note reports whether a key is there, and adds it to the index, which small
// dictionaries do without.
func (d *dict) note(same any) (twice bool) {
	const few = 8
	if d.index == nil && len(d.keys) < few {
		return slices.ContainsFunc(d.keys, func(k any) bool {
			k, ok := equalKey(k)
			return ok && k == same
		})
	}
	if d.index == nil {
		d.index = make(map[any]struct{})
		for _, k := range d.keys {
			if k, ok := equalKey(k); ok {
				d.index[k] = struct{}{}
			}
		}
	}
	_, twice = d.index[same]
	d.index[same] = struct{}{}
	return twice
}

// keyText returns the text of a key as a part of a tensor's name.
func keyText(key any) (text string, ok bool) {
	switch k := key.(type) {
	case string:
		return k, true
	case *class:
		return k.name, true
	case *inert:
		return k.name, true
	}
	return plainText(key)
}

// plainText returns the text of a plain value that is no string.
func plainText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case element:
		return "torch." + v.name, true
	case *big.Int:
		if v.BitLen() <= 1024 { // decimals cost more than their length
			return v.String(), true
		}
	}
	return "", false
}

// typeName names the type of a value for errors, as Python does where it can.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case raw:
		return "bytes"
	case *seq:
		return [...]string{"list", "tuple", "set"}[v.kind]
	case *dict:
		return "dict"
	case *class:
		return "class " + v.name
	case element:
		return "dtype"
	case storageClass:
		return "class of storages"
	case *storage:
		return "storage"
	case *pickled:
		return "tensor"
	case *inert:
		return quote(v.name)
	}
	return fmt.Sprintf("%T", v)
}

// An element is a dtype of PyTorch.
type element struct {
	name  string       // without "torch."
	dtype tensor.DType // Invalid for one that no Info can have
}

// A storageClass is a class of storages: FloatStorage and its like.
type storageClass struct {
	element
	untyped bool // sizes count bytes
}

// A storage is a run of elements in an entry of its own, as the pickle names
// it: nothing of it is checked but the types.
type storage struct {
	storageClass
	key   string
	numel int64
}

// A pickled tensor is a view of a storage: nothing of it is checked but the
// types.
type pickled struct {
	at            int // offset in the pickle, for errors
	store         *storage
	element       element
	offset        int64 // in elements
	shape, stride []int64
	unreadable    string // why its values cannot be read; "" if they can
}

// An inert object is one of a class that is not known. It has a name and
// nothing else.
type inert struct{ name string }
