package pytorch_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// run opens a file whose pickle is this one.
func run(p string, o *pytorch.Options) (*pytorch.File, error) {
	return open(pack(p, floats3).bytes(), o)
}

// metaOf returns the metadata of a pickled value.
func metaOf(t *testing.T, value string) map[string]string {
	t.Helper()
	f, err := run(pickled(value), nil)
	require.NoError(t, err)
	out := make(map[string]string)
	for _, e := range f.Meta() {
		out[e.Key] = e.Value.(string)
	}
	return out
}

// TestGlobals: names that run something, or lead to it, are refused wherever
// they stand; the error has the name and the place.
func TestGlobals(t *testing.T) {
	command := str("touch pickle_was_run")
	for name, value := range map[string]string{
		"os.system":                      call(global("os", "system"), command),
		"posix.system":                   call(global("posix", "system"), command),
		"nt.system":                      call(global("nt", "system"), command),
		"subprocess.Popen":               call(global("subprocess", "Popen"), command),
		"builtins.eval":                  call(global("__builtin__", "eval"), command),
		"builtins.exec":                  call(global("builtins", "exec"), command),
		"builtins.getattr":               call(global("builtins", "getattr"), global("torch", "Size"), str("x")),
		"builtins.__import__":            call(global("__builtin__", "__import__"), command),
		"builtins.object":                global("builtins", "object"),
		"copyreg._reconstructor":         global("copyreg", "_reconstructor"),
		"torch.storage._load_from_bytes": call(global("torch.storage", "_load_from_bytes"), "C\x01x"),
		"torch.load":                     global("torch", "load"),
		"torch._utils.os":                global("torch._utils", "os"),
		"torch.hub.load":                 call(global("torch.hub", "load"), command),
		"torch._utils._rebuild_tensor_v2.__globals__": global("torch._utils", "_rebuild_tensor_v2.__globals__"),
		"collections.OrderedDict.__init__":            global("collections", "OrderedDict.__init__"),
		"builtins.dict.get":                           str("builtins") + str("dict.get") + "\x93",
		"webbrowser.open":                             str("webbrowser") + str("open") + "\x93",
		"numpy.core.multiarray._reconstruct":          global("numpy.core.multiarray", "_reconstruct"),
		".":                                           global("", ""),
		"__main__.Evil":                               global("__main__", "Evil") + ")\x81",
	} {
		for _, p := range []string{pickled(value), pickled(dict(str("w"), value)), pickled("]" + value + "a"), pickled(value + "0N")} {
			_, err := run(p, &pytorch.Options{Name: "x"})
			require.ErrorIs(t, err, tensor.ErrUnsupported, name)
			require.ErrorContains(t, err, fmt.Sprintf("global %q is not among those that this reader knows; nothing was imported or called", name))
			require.Regexp(t, `^x: byte \d+: .*\(opcode at byte \d+ of data.pkl\)$`, err.Error())
			f, err := run(p, &pytorch.Options{Lenient: true})
			require.NoError(t, err)
			require.Empty(t, f.Tensors())
			require.Contains(t, strings.Join(f.Warnings(), "\n"), fmt.Sprintf("unknown class %q are left out", name))
		}
	}
	_, err := os.Stat("pickle_was_run")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = run(pickled(global(strings.Repeat("m", 9000), "n")), nil)
	require.Less(t, len(err.Error()), 400)
}

// TestLenientObjects: objects of unknown classes take what a pickle gives them,
// and nothing of it is kept.
func TestLenientObjects(t *testing.T) {
	w := view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})
	thing := global("my.module", "Thing")
	for name, value := range map[string]string{
		"called": call(thing, w), "made": thing + ")\x81", "state": call(thing) + dict(str("w"), w) + "b",
		"list": call(thing) + "(" + w + "e", "items": call(thing) + "(" + str("k") + w + "u", "item": call(thing) + str("k") + w + "s",
	} {
		f, err := run(pickled(dict(str("w"), w, str("x"), value)), &pytorch.Options{Lenient: true})
		require.NoError(t, err, name)
		require.Equal(t, "w:F32:[3]:12", shown(f), name)
		require.Len(t, f.Warnings(), 1)
	}
	f, err := run(pickled(dict(thing, dict(str("score"), w), tuple(num(1)), w, "N", num(3))), &pytorch.Options{Lenient: true})
	require.NoError(t, err)
	require.Equal(t, "my.module.Thing.score:F32:[3]:12", shown(f))
	require.Contains(t, f.Warnings()[1], `is left out: what a key of type tuple has`)
}

// TestMalformed: pickles that break a rule.
func TestMalformed(t *testing.T) {
	long := string(le.AppendUint64(nil, math.MaxUint64))
	cls := global("collections", "OrderedDict")
	for name, c := range map[string]struct{ p, class, says string }{
		"empty":             {"", "format", "pickle ends in the middle of an opcode (opcode at byte 0"},
		"no end":            {"\x80\x02}", "format", "pickle ends"},
		"protocol":          {"\x80\x06N.", "unsupported", "pickle has protocol 6"},
		"rest":              {"\x80\x02N.N.", "format", "2 bytes after the end of the pickle"},
		"two values":        {"NN.", "format", "pickle leaves 2 values and 0 marks"},
		"no value":          {".", "format", "pickle leaves 0 values"},
		"a mark":            {"N(.", "format", "pickle leaves 1 values and 1 marks"},
		"text opcodes":      {"I1\n.", "unsupported", `opcode 'I' (0x49) is not one that PyTorch writes`},
		"inst":              {"(ios\nsystem\n.", "unsupported", `opcode 'i' (0x69)`},
		"obj":               {"(" + cls + "o.", "unsupported", `opcode 'o'`},
		"ext":               {"\x82\x01.", "unsupported", "0x82"},
		"newobj_ex":         {cls + ")}\x92.", "unsupported", "0x92"},
		"buffer":            {"\x97.", "unsupported", "0x97"},
		"0xff":              {"\xff.", "unsupported", "0xff"},
		"unicode8":          {"\x8d" + long + "x.", "format", "pickle ends"},
		"bytes8":            {"\x8e" + long + "x.", "format", "pickle ends"},
		"bytearray8":        {"\x96" + long + "x.", "format", "pickle ends"},
		"unicode":           {"X\xff\xff\xff\xffx.", "format", "pickle ends"},
		"long4":             {"\x8b\xff\xff\xff\x7fx.", "format", "pickle ends"},
		"frame":             {"\x80\x04\x95" + long + "N.", "format", "frame of 18446744073709551615 bytes, 2 are left"},
		"utf-8":             {"X\x01\x00\x00\x00\xff.", "format", `string "\xff" is not UTF-8`},
		"surrogate":         {str("\xed\xa0\x80") + ".", "format", "is not UTF-8"},
		"memo":              {"h\x00.", "format", "pickle takes memo 0, which is not set"},
		"memo 2^32":         {"j\xff\xff\xff\xff.", "format", "pickle takes memo 4294967295"},
		"put nothing":       {"q\x00.", "format", "pickle takes a value that its stack does not have"},
		"line":              {"cos", "format", "pickle ends"},
		"stack global":      {"NN\x93.", "format", "names a global by a None and a None"},
		"call no tuple":     {cls + "]R.", "format", "arguments of a call are a list"},
		"call no class":     {"N)R.", "format", "pickle calls a value of type None"},
		"call a type":       {global("torch", "Tensor") + ")R.", "format", "pickle calls a value of type class torch.Tensor"},
		"call a storage":    {global("torch", "FloatStorage") + ")R.", "format", "pickle calls a value of type class of storages"},
		"new a function":    {global("torch", "Size") + ")\x81.", "format", "pickle calls a value of type class torch.Size"},
		"append to none":    {"NNa.", "format", "pickle appends to a value of type None"},
		"append to a tuple": {"))a.", "format", "pickle appends to a value of type tuple"},
		"items of a list":   {"]NNs.", "format", "pickle sets items of a value of type list"},
		"odd items":         {"}(Nu.", "format", "the last key of a dictionary has no value"},
		"key twice":         {dict(str("a"), "N", str("a"), "N") + ".", "format", `key "a" comes twice`},
		"key twice of many": {"}(" + strings.Repeat("K\x01K\x01K\x02K\x01K\x03K\x01K\x04N]NK\x05NK\x06NK\x07NK\x08NK\x09N", 2) + "u.", "format", `key "1" comes twice`},
		"a key equal to 1":  {dict("K\x01", "N", "\x88", "N") + ".", "format", `key "true" comes twice`},
		"a key equal to 0":  {dict("G\x00\x00\x00\x00\x00\x00\x00\x00", "N", "\x89", "N") + ".", "format", `key "false" comes twice`},
		"state of a list":   {"]Nb.", "format", "pickle sets the state of a value of type list"},
		"pid no tuple":      {"NQ.", "format", "persistent object is not a storage of five parts"},
		"pid parts":         {tuple(str("storage"), "N", "N", "N") + "Q.", "format", "persistent object is not a storage"},
		"pid word":          {tuple("N", "N", "N", "N", "N") + "Q.", "format", "persistent object is not a storage"},
		"pid class":         {tuple(str("storage"), "N", str("0"), "N", "K\x01") + "Q.", "format", "storage has a class of type None"},
		"no storage":        {call(global("torch._utils", "_rebuild_tensor_v2"), "N") + ".", "format", "torch._utils._rebuild_tensor_v2: argument 1 is a None, want a storage"},
		"no arguments":      {call(global("torch._utils", "_rebuild_parameter")) + ".", "format", "there are 0 arguments, want a tensor as number 1"},
		"a class as one":    {call(global("torch._utils", "_rebuild_tensor_v2"), global("torch", "FloatStorage")) + ".", "format", "argument 1 is a class of storages"},
		"no dtype":          {call(global("torch._utils", "_rebuild_tensor_v3"), store("FloatStorage", "0", 3), num(0), tuple(), tuple(), "N", "N", "N") + ".", "format", "argument 7 is a None, want a dtype"},
		"type of a dict":    {call(global("torch._tensor", "_rebuild_from_type_v2"), cls, global("torch", "Tensor"), tuple(), "N") + ".", "format", "collections.OrderedDict makes no tensor"},
		"type of no tensor": {call(global("torch._tensor", "_rebuild_from_type_v2"), global("torch._utils", "_rebuild_tensor_v2"), cls, tuple(), "N") + ".", "format", "collections.OrderedDict is no class of tensors"},
		"new with items":    {cls + tuple(tuple()) + "\x81.", "format", "__new__ has 1 arguments, want none"},
		"new namespace":     {global("argparse", "Namespace") + tuple("N") + "\x81.", "format", "__new__ has 1 arguments"},
		"device":            {call(global("torch", "device"), "N") + ".", "format", "torch.device: argument 1 is a None, want a name"},
		"module":            {global("torch.nn.modules.linear", "Linear") + ".", "unsupported", "save its state_dict()"},
		"items twice":       {call(cls, tuple(tuple("N", "N"), tuple("N", "N"))) + ".", "format", "key of type None comes twice"},
		"no sequence":       {call(global("torch", "Size"), "N") + ".", "format", "torch.Size: argument 1 is a None, want a sequence"},
		"pairs":             {call(cls, tuple("N")) + ".", "format", "item of type None, want a pair"},
		"encoding":          {call(global("_codecs", "encode"), str("x"), str("rot13")) + ".", "format", `encoding "rot13", want latin1`},
		"no latin1":         {call(global("_codecs", "encode"), str("\u0100"), str("latin1")) + ".", "format", "is not of latin1"},
		"big-endian number": {call(global("numpy", "dtype"), str("f8"), "\x89", "\x88") + tuple("K\x03", str(">")) + "b.", "format", "numpy.dtype is not little-endian"},
		"short number":      {call(global("numpy.core.multiarray", "scalar"), call(global("numpy", "dtype"), str("f8")), "C\x01x") + ".", "format", "1 bytes for a NumPy number of 8"},
		"set of tensors":    {dict(str("s"), "("+view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})+"\x91") + ".", "unsupported", `tensor "s": `},
		"tuple key":         {dict(tuple(num(1)), view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})) + ".", "unsupported", "what a key of type tuple has"},
		"same names":        {dict(str("a"), dict(str("b"), view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})), str("a.b"), view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})) + ".", "format", `two tensors have the name "a.b"`},
		"a mark below":      {"N(t(0.", "format", "pickle leaves"},
		"pop the mark":      {"0.", "format", "pickle takes a value"},
		"pop to no mark":    {"N1.", "format", "from a mark that is not there"},
		"below the mark":    {"N(\x85.", "format", "pickle takes a value"},
		"dup nothing":       {"(2.", "format", "pickle takes a value"},
	} {
		_, err := run(c.p, nil)
		require.Equal(t, c.class, class(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
}

// TestUnderflow: no opcode takes values that are not there.
func TestUnderflow(t *testing.T) {
	for op := range 256 {
		for _, before := range []string{"", "(", "N", "N(", "NN", "NN(", "]N(N", "}(NN"} {
			for _, after := range []string{"", ".", strings.Repeat("\x00", 20), strings.Repeat("\n", 20) + "."} {
				_, _ = run(before+string([]byte{byte(op)})+after, nil) // does not panic
				_, _ = run(before+string([]byte{byte(op)})+after, &pytorch.Options{Lenient: true})
			}
		}
	}
}

// TestValues: values that torch.save does not write every day.
func TestValues(t *testing.T) {
	ints := map[string]string{
		"J\xff\xff\xff\xff": "-1", "J\x00\x00\x00\x80": "-2147483648", "K\xff": "255", "M\x00\xff": "65280", "\x8a\x00": "0", "\x8a\x01\xff": "-1", "\x8a\x01\x7f": "127", "\x8a\x02\x00\x80": "-32768",
		"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff": "-1", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00": "18446744073709551615",
		"\x8b\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff": "-18446744073709551616",
		"G\x3f\xf8\x00\x00\x00\x00\x00\x00":                        "1.5", "\x88": "true", "\x89": "false", "U\x02hi": "hi", "T\x02\x00\x00\x00hi": "hi", "\x8c\x02hi": "hi", "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi": "hi",
		"(K\x01K\x02l": "[1,2]", "(K\x01K\x02\x91": "[1,2]", "\x8f(K\x01\x90": "[1]", "K\x01\x85": "[1]", "K\x01K\x02K\x03\x87": "[1,2,3]", "]K\x01aK\x02a": "[1,2]", "K\x012\x86": "[1,1]", "K\x05K\x060": "5", "K\x05(NN1": "5", "K\x05(0": "5",
	}
	for p, want := range ints {
		require.Equal(t, map[string]string{"tensor": want}, metaOf(t, p), "%q", p)
	}
	require.Equal(t, map[string]string{"a.b": "1"}, metaOf(t, "("+str("a")+"("+str("b")+"K\x01dd"))
	require.Equal(t, map[string]string{"3": "x", "true": "y", "2.5": "z"}, metaOf(t, dict("K\x03", str("x"), "\x88", str("y"), "G\x40\x04\x00\x00\x00\x00\x00\x00", str("z"))))
	ordered, named := global("collections", "OrderedDict"), tuple(str("k"), "K\x01")
	for _, d := range []string{
		call(ordered, tuple(named)), call(ordered, dict(str("k"), "K\x01")), call(ordered) + "(" + str("k") + "K\x01u", ordered + ")\x81(" + str("k") + "K\x01u",
		call(global("collections", "defaultdict"), global("__builtin__", "int")) + str("k") + "K\x01s", call(global("collections", "defaultdict")) + str("k") + "K\x01s",
		global("argparse", "Namespace") + ")\x81" + dict(str("k"), "K\x01") + "b", call(ordered, tuple(named)) + dict(str("_metadata"), str("x")) + "b",
	} {
		require.Equal(t, map[string]string{"k": "1"}, metaOf(t, d), "%q", d)
	}
	for value, want := range map[string]string{
		call(global("torch", "device"), str("cuda"), "K\x03"): "cuda:3", call(global("torch", "device"), str("cpu")): "cpu",
		call(global("builtins", "list"), tuple("K\x01")): "[1]", call(global("builtins", "list")): "[]", call(global("torch", "Size"), "]K\x01a"): "[1]",
		global("torch.torch_version", "TorchVersion") + tuple(str("2.0")) + "\x81": "2.0", call(global("torch.serialization", "_get_layout"), str("torch.strided")): "torch.strided",
	} {
		require.Equal(t, map[string]string{"tensor": want}, metaOf(t, value), "%q", value)
	}
	require.Empty(t, metaOf(t, call(global("_codecs", "encode"), str("\u00ff"), str("latin1"))))
	require.Empty(t, metaOf(t, call(global("builtins", "bytearray"))))
	require.Empty(t, metaOf(t, call(global("builtins", "bytearray"), "C\x01x")))
	require.Empty(t, metaOf(t, "N"))
	require.Empty(t, metaOf(t, "C\x01x"))
	require.Empty(t, metaOf(t, dict("N", str("x"), "C\x01x", str("y"))))
	require.Equal(t, map[string]string{"0": "torch.int8", "1.x": "1"}, metaOf(t, "]("+global("torch", "int8")+dict(str("x"), "K\x01")+"e"))
}

// TestMemo: numbers in any order, once and again.
func TestMemo(t *testing.T) {
	p := "K\x01r\xff\xff\xff\xffK\x02r\x00\x00\x00\x80K\x03q\x00K\x04q\x00K\x05\x94000\x30\x30" + "(j\xff\xff\xff\xffj\x00\x00\x00\x80h\x00j\x03\x00\x00\x00t"
	require.Equal(t, map[string]string{"tensor": "[1,2,4,5]"}, metaOf(t, p))
}

// TestNumbers: NumPy's scalars, as its pickles have them.
func TestNumbers(t *testing.T) {
	scalar := func(kind, order, data string) string {
		dtype := call(global("numpy", "dtype"), str(kind), "\x89", "\x88") + tuple("K\x03", str(order)) + "b"
		return call(global("numpy._core.multiarray", "scalar"), dtype, "C"+string(rune(len(data)))+data)
	}
	for value, want := range map[string]string{
		scalar("f4", "<", "\x00\x00\xc0\x3f"): "1.5", scalar("i1", "|", "\x7f"): "127", scalar("u4", "<", "\x01\x00\x00\x7f"): "2130706433",
		scalar("u2", "<", "\xff\x7f"): "32767", scalar("i2", "<", "\x00\x7f"): "32512", scalar("b1", "|", "\x00"): "false",
	} {
		require.Equal(t, map[string]string{"tensor": want}, metaOf(t, value))
	}
	for _, other := range []string{scalar("u8", "<", "\x01\x00\x00\x00\x00\x00\x00\x00"), scalar("f2", "<", "\x00\x3c"), scalar("M8", "<", "12345678"), scalar("S5", "|", "hello")} {
		require.Empty(t, metaOf(t, other), "bytes are no metadata")
	}
}

// floods are pickles that ask for more than they are.
func floods() map[string]struct{ p, says string } {
	laughs := "](" + strings.Repeat("K\x01", 10) + "eq\x000"
	for i := range 60 {
		laughs += "](" + strings.Repeat(fmt.Sprintf("h%c", i), 10) + "e" + fmt.Sprintf("q%c0", i+1)
	}
	laughs += "h\x3c"
	var names strings.Builder // a long key, and many tensors under it
	w := view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1})
	for i := range 2000 {
		names.WriteString(str(fmt.Sprint(i)) + "h\x00")
	}
	var puts strings.Builder // memo numbers that are far apart
	for i := range uint32(300_000) {
		puts.WriteString("r" + string(le.AppendUint32(nil, 0xFFFFFFFF-i*7)))
	}
	builds := dict(func() (items []string) {
		for i := range 5000 {
			items = append(items, num(int64(i)), "N")
		}
		return items
	}()...) + "q\x000(" + strings.Repeat(call(global("argparse", "Namespace"))+"h\x00b", 5000) + "t"
	return map[string]struct{ p, says string }{
		"lists in lists":        {pickled(strings.Repeat("](", 150) + strings.Repeat("e", 150)), "nested deeper than 100"},
		"dicts in dicts":        {pickled(strings.Repeat("}X\x01\x00\x00\x00k", 100_000) + "N" + strings.Repeat("s", 100_000)), "nested deeper than 100"},
		"tuples in tuples":      {pickled(")" + strings.Repeat("\x85", 200_000)), "nested deeper than 100"},
		"a list in itself":      {pickled("]q\x00h\x00a"), "nested deeper than 100"},
		"a dict in itself":      {pickled("}q\x00" + str("k") + "h\x00s"), "nested deeper than 100"},
		"laughs":                {pickled(laughs), "values in values so many times"},
		"laughs of one tensor":  {pickled(w + "q\xff" + "0" + strings.Replace(laughs, "K\x01", "h\xff", 10)), "bytes of memory"},
		"long names":            {pickled(w + "q\x000" + dict(str(strings.Repeat("k", 200_000)), "}("+names.String()+"u")), "bytes of memory"},
		"marks":                 {pickled(strings.Repeat("(", 1_000_000)), "more than 10000 marks on its stack"},
		"dup":                   {pickled("N" + strings.Repeat("2", 2_000_000)), "more than 1048576 values on its stack"},
		"empty dicts":           {pickled(strings.Repeat("}0", 1_000_000) + "N"), ""},
		"empty dicts of memo":   {pickled("(" + strings.Repeat("}\x94", 500_000) + "t"), "bytes of memory"},
		"memo":                  {pickled("N" + puts.String()), ""},
		"builds":                {pickled(builds), "bytes of memory"},
		"encodings":             {pickled(str(strings.Repeat("k", 500_000)) + "q\x000(" + strings.Repeat(call(global("_codecs", "encode"), "h\x00", str("latin1")), 500) + "t"), "bytes of memory"},
		"copies":                {pickled("](" + strings.Repeat("N", 100_000) + "eq\x000(" + strings.Repeat(call(global("builtins", "set"), "h\x00"), 500) + "t"), "bytes of memory"},
		"long integers":         {pickled("\x8b\x00\x00\x08\x00" + strings.Repeat("\x77", 1<<19)), ""},
		"one list many times":   {pickled("](" + strings.Repeat("N", 100_000) + "eq\x000(" + strings.Repeat("h\x00", 50_000) + "t"), "values in values so many times"},
		"keys of one long text": {pickled(str(strings.Repeat("k", 500_000)) + "q\x000(" + strings.Repeat("}h\x00Ns", 5000) + "t"), "no end to them"},
	}
}

// TestFloods: what a pickle takes is bounded by its length, in memory and in
// time (a flood that was not stopped would take hours, or all memory).
func TestFloods(t *testing.T) {
	for name, c := range floods() {
		n := allocated(func() {
			_, err := run(c.p, nil)
			if c.says == "" {
				require.True(t, err == nil || class(err) == "limit", "%v", err)
				return
			}
			require.ErrorIs(t, err, tensor.ErrLimit, name)
			require.ErrorContains(t, err, c.says, name)
			require.Less(t, len(err.Error()), 1000, name)
		})
		require.Less(t, n, uint64(3*(32<<20+32*len(c.p))), name)
		t.Log(name, len(c.p), n)
	}
}

// TestMetaLimits: metadata has a size, whatever the pickle has.
func TestMetaLimits(t *testing.T) {
	var items []string
	for i := range 2000 {
		items = append(items, str(fmt.Sprintf("key%d", i)), str(strings.Repeat("v", 1000)))
	}
	items = append(items, str("a"), dict(str("b"), "K\x01"), str("a.b"), "K\x02", str("long"), str(strings.Repeat("v", 5000)), str("list"), "]("+str(strings.Repeat("v", 5000))+"e")
	f, err := run(pickled(dict(items...)), nil)
	require.NoError(t, err)
	total := 0
	for _, e := range f.Meta() {
		total += len(e.Key) + len(e.Value.(string))
	}
	require.Less(t, total, 1<<20)
	require.Len(t, f.Warnings(), 1)
	require.Contains(t, f.Warnings()[0], `values are left out of the metadata, for it would grow too large: the first is "key10`)
	f, err = run(pickled(dict(items[4000:]...)), nil)
	require.NoError(t, err)
	require.Equal(t, tensor.Metadata{{Key: "a.b", Value: "1"}}, f.Meta(), "the first one stays")
}

// FuzzPickle runs anything.
func FuzzPickle(f *testing.F) {
	for name := range samples(f) {
		if p, err := os.ReadFile(name); err == nil && filepath.Ext(name) != ".json" {
			if file, err := open(p, &pytorch.Options{Lenient: true}); err == nil {
				h := file.Header()
				f.Add(string(p[h.PickleOffset:h.PickleOffset+h.PickleSize]), len(name)%2 == 0)
			}
		}
	}
	for _, c := range floods() {
		if len(c.p) < 2000 {
			f.Add(c.p, false)
		}
	}
	f.Fuzz(func(t *testing.T, p string, lenient bool) {
		_ = requireSound(t, pack(p, strings.Repeat("x", 200), floats3).bytes(), &pytorch.Options{Lenient: lenient})
	})
}

// FuzzFile opens anything.
func FuzzFile(f *testing.F) {
	for _, p := range small(f) {
		f.Add(p, false)
	}
	a := good()
	a.parts[1].wide, a.comment = true, "c"
	f.Add(a.bytes(), true)
	f.Fuzz(func(t *testing.T, p []byte, lenient bool) {
		_ = requireSound(t, p, &pytorch.Options{Lenient: lenient})
	})
}
