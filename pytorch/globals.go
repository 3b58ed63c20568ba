package pytorch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A maker gives the value of a call. args can be anything.
type maker func(m *machine, args []any) (any, error)

// A class is what a pickle may name: a class, a function or a type. make gives
// the value that calling it would give, new the one of its __new__ alone; they
// are nil where the class can only be named.
type class struct {
	name      string
	make, new maker
}

// known has the names that a pickle may use, beside dtypes and storages. All
// others are refused: no name is looked up anywhere else.
var known = map[string]class{
	"torch._utils._rebuild_tensor":               {make: rebuildTensor(4)},
	"torch._utils._rebuild_tensor_v2":            {make: rebuildTensor(6)},
	"torch._utils._rebuild_tensor_v3":            {make: rebuildTensor3},
	"torch._utils._rebuild_parameter":            {make: rebuildParameter},
	"torch._utils._rebuild_parameter_with_state": {make: rebuildParameter},
	"torch._tensor._rebuild_from_type_v2":        {make: rebuildFromType},
	"torch.Size":                                 {make: makeTuple},
	"torch.device":                               {make: makeDevice},
	"torch.serialization._get_layout":            {make: makeText},
	"torch.torch_version.TorchVersion":           {make: makeText, new: makeText},
	"torch.Tensor":                               {},
	"torch.nn.parameter.Parameter":               {},
	"torch.nn.parameter.Buffer":                  {},

	"torch._utils._rebuild_sparse_tensor":                 {make: unreadable("a sparse tensor")},
	"torch._utils._rebuild_sparse_csr_tensor":             {make: unreadable("a sparse tensor")},
	"torch._utils._rebuild_qtensor":                       {make: unreadable("a quantized tensor")},
	"torch._utils._rebuild_nested_tensor":                 {make: unreadable("a nested tensor")},
	"torch._utils._rebuild_meta_tensor_no_storage":        {make: unreadable("a tensor of the meta device, without values")},
	"torch._utils._rebuild_wrapper_subclass":              {make: unreadable("a tensor subclass")},
	"torch._utils._rebuild_device_tensor_from_numpy":      {make: unreadable("a tensor of another device, kept as a NumPy array")},
	"torch._utils._rebuild_device_tensor_from_cpu_tensor": {make: unreadable("a tensor of another device")},
	"torch._utils._rebuild_xla_tensor":                    {make: unreadable("a tensor of another device, kept as a NumPy array")},
	"torch.per_tensor_affine":                             {},
	"torch.per_channel_affine":                            {},
	"torch.per_channel_affine_float_qparams":              {},

	"collections.OrderedDict":                           {make: makeDict, new: newDict},
	"collections.Counter":                               {make: makeDict, new: newDict},
	"collections.defaultdict":                           {make: makeDefaultDict},
	"argparse.Namespace":                                {make: newNamespace, new: newNamespace},
	"types.SimpleNamespace":                             {make: newNamespace, new: newNamespace},
	"pytorch_lightning.utilities.parsing.AttributeDict": {make: makeDict, new: newDict},
	"lightning_fabric.utilities.data.AttributeDict":     {make: makeDict, new: newDict},
	"lightning.fabric.utilities.data.AttributeDict":     {make: makeDict, new: newDict},
	"builtins.dict":                                     {make: makeDict, new: newDict},
	"builtins.list":                                     {make: makeList},
	"builtins.tuple":                                    {make: makeTuple},
	"builtins.set":                                      {make: makeSet},
	"builtins.frozenset":                                {make: makeSet},
	"builtins.bytearray":                                {make: encode},
	"builtins.bytes":                                    {make: encode},
	"builtins.int":                                      {},
	"builtins.float":                                    {},
	"builtins.bool":                                     {},
	"builtins.str":                                      {},
	"_codecs.encode":                                    {make: encode},
	"numpy.dtype":                                       {make: makeArrayType},
	"numpy.core.multiarray.scalar":                      {make: makeScalar},
	"numpy._core.multiarray.scalar":                     {make: makeScalar},
}

// storages has the classes of storages in the module torch, with their dtypes.
var storages = map[string]string{
	"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
	"LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
	"ComplexDoubleStorage": "complex128", "ComplexFloatStorage": "complex64",
	"QInt8Storage": "qint8", "QInt32Storage": "qint32", "QUInt8Storage": "quint8", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}

// elements has the dtypes of PyTorch; those without a type of ours cannot be
// read.
var elements = map[string]tensor.DType{
	"float64": tensor.F64, "double": tensor.F64, "float32": tensor.F32, "float": tensor.F32, "float16": tensor.F16, "half": tensor.F16, "bfloat16": tensor.BF16,
	"int64": tensor.I64, "long": tensor.I64, "int32": tensor.I32, "int": tensor.I32, "int16": tensor.I16, "short": tensor.I16, "int8": tensor.I8,
	"uint8": tensor.U8, "uint16": tensor.U16, "uint32": tensor.U32, "uint64": tensor.U64, "bool": tensor.Bool,
	"complex64": tensor.C64, "cfloat": tensor.C64,
	"float8_e4m3fn": tensor.F8E4M3, "float8_e5m2": tensor.F8E5M2, "float8_e4m3fnuz": tensor.F8E4M3FNUZ, "float8_e5m2fnuz": tensor.F8E5M2FNUZ, "float8_e8m0fnu": tensor.F8E8M0,
	"complex128": tensor.Invalid, "cdouble": tensor.Invalid, "complex32": tensor.Invalid, "chalf": tensor.Invalid, "float4_e2m1fn_x2": tensor.Invalid,
	"qint8": tensor.Invalid, "qint32": tensor.Invalid, "quint8": tensor.Invalid, "quint4x2": tensor.Invalid, "quint2x4": tensor.Invalid,
}

// find returns what a module and a name stand for.
func (m *machine) find(module, name string) (any, error) {
	if module == "__builtin__" { // of Python 2, and of protocol 2
		module = "builtins"
	}
	if module == "torch" || module == "torch.storage" || module == "torch.cuda" {
		if v, ok := torchType(name); ok {
			return v, nil
		}
	}
	full := module + "." + name
	if c, ok := known[full]; ok && !strings.Contains(name, ".") {
		c.name = full
		return &c, nil
	}
	if m.unknown != nil {
		m.unknown(full)
		return &inert{full}, nil
	}
	hint := ""
	if strings.HasPrefix(module, "torch.nn.modules.") {
		hint = "; a module was saved as a whole: load it with PyTorch and save its state_dict()"
	}
	return nil, classed(tensor.ErrUnsupported, "global %s is not among those that this reader knows; nothing was imported or called%s", quote(full), hint)
}

// torchType finds the storages and dtypes of the module torch.
func torchType(name string) (v any, ok bool) {
	if name == "UntypedStorage" {
		return storageClass{element{"uint8", tensor.U8}, true}, true
	}
	if dtype, ok := storages[name]; ok {
		return storageClass{element: element{dtype, elements[dtype]}}, true
	}
	d, ok := elements[name]
	return element{name, d}, ok
}

// global pushes what two names stand for: two lines behind the opcode, or two
// strings on the stack.
func (m *machine) global(op byte) error {
	module, name, err := m.names(op)
	if err != nil {
		return err
	}
	if err := m.budget.take(len(module) + len(name) + 64); err != nil {
		return err
	}
	v, err := m.find(module, name)
	if err != nil {
		return err
	}
	return m.push(v)
}

func (m *machine) names(op byte) (module, name string, err error) {
	if op == opGlobal {
		if module, err = m.line(); err == nil {
			name, err = m.line()
		}
		return module, name, err
	}
	pair, err := m.pop(2)
	if err != nil {
		return "", "", err
	}
	module, ok1 := pair[0].(string)
	name, ok2 := pair[1].(string)
	if !ok1 || !ok2 {
		return "", "", fmt.Errorf("pickle names a global by a %s and a %s", typeName(pair[0]), typeName(pair[1]))
	}
	return module, name, nil
}

// line reads up to a newline.
func (m *machine) line() (string, error) {
	i := strings.IndexByte(m.text[m.pos:], '\n')
	if i < 0 {
		return "", errEnds
	}
	s := m.text[m.pos : m.pos+i]
	m.pos += i + 1
	return s, nil
}

// call pushes the value of a class and a tuple of arguments.
func (m *machine) call(op byte) error {
	pair, err := m.pop(2)
	if err != nil {
		return err
	}
	callee := pair[0]
	args, ok := pair[1].(*seq)
	if !ok || args.kind != tupleKind {
		return fmt.Errorf("arguments of a call are a %s, want a tuple", typeName(pair[1]))
	}
	v, err := m.result(op, callee, args.items)
	if err != nil {
		return err
	}
	return m.pushNew(v, 0)
}

func (m *machine) result(op byte, callee any, args []any) (any, error) {
	switch c := callee.(type) {
	case *inert:
		return c, nil
	case *class:
		make := c.make
		if op == opNewObj {
			make = c.new
		}
		if make == nil {
			break
		}
		v, err := make(m, args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		return v, nil
	}
	return nil, fmt.Errorf("pickle calls a value of type %s", typeName(callee))
}

// build gives an object its state. Namespaces keep it; attributes of
// dictionaries, such as the versions in _metadata, are left out.
func (m *machine) build() error {
	pair, err := m.pop(1)
	if err != nil {
		return err
	}
	state := pair[0]
	to, err := m.top()
	if err != nil {
		return err
	}
	switch to := to.(type) {
	case *inert:
		return nil
	case *arrayType:
		return to.setState(state)
	case *dict:
		from, ok := state.(*dict)
		if !to.namespace || !ok {
			return nil
		}
		return m.copyItems(to, from)
	}
	return fmt.Errorf("pickle sets the state of a value of type %s", typeName(to))
}

// persistent replaces the description of a storage on the stack by the storage:
// ("storage", class, key, device, number of elements).
func (m *machine) persistent() error {
	top, err := m.pop(1)
	if err != nil {
		return err
	}
	id, ok := top[0].(*seq)
	if !ok || len(id.items) != 5 || id.items[0] != "storage" {
		return errors.New("persistent object is not a storage of five parts")
	}
	kind, ok1 := id.items[1].(storageClass)
	key, ok2 := id.items[2].(string)
	numel, ok3 := id.items[4].(int64)
	if !ok1 || !ok2 || !ok3 || numel < 0 {
		return fmt.Errorf("storage has a class of type %s, a key of type %s and a size of type %s", typeName(id.items[1]), typeName(id.items[2]), typeName(id.items[4]))
	}
	return m.pushNew(&storage{kind, key, numel}, 64)
}
