package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// tensorText is a tensor in a script: name:TYPE[shape]=values, where a value is
// a number, or x and the hexadecimal digits of its bits; the last one is
// repeated.
var tensorText = regexp.MustCompile(`^(.+):([A-Z0-9_]+)\[([0-9,]*)\]=(.*)$`)

// st FILE TENSOR... writes a safetensors file. A TENSOR that begins with @ is an
// entry of the metadata, @key=value.
func writeST(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: st FILE TENSOR...")
	}
	var meta, entries []string
	var data []byte
	for _, a := range args[1:] {
		if key, value, ok := strings.Cut(strings.TrimPrefix(a, "@"), "="); ok && a[0] == '@' {
			meta = append(meta, fmt.Sprintf("%q:%q", key, value))
			continue
		}
		name, dtype, shape, body := craft(ts, a)
		entries = append(entries, fmt.Sprintf(`%q:{"dtype":%q,"shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, len(data), len(data)+len(body)))
		data = append(data, body...)
	}
	if meta != nil {
		entries = append([]string{`"__metadata__":{` + strings.Join(meta, ",") + "}"}, entries...)
	}
	header := "{" + strings.Join(entries, ",") + "}"
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(file, data...), 0o666))
}

// craft reads a tensor of a script.
func craft(ts *testscript.TestScript, text string) (name, dtype, shape string, data []byte) {
	m := tensorText.FindStringSubmatch(text)
	if m == nil {
		ts.Fatalf("no tensor: %q", text)
	}
	count := 1
	for n := range strings.SplitSeq(m[3], ",") {
		if k, err := strconv.Atoi(n); err == nil {
			count *= k
		}
	}
	values := strings.Split(m[4], ",")
	for i := range count {
		data = append(data, element(ts, m[2], values[min(i, len(values)-1)])...)
	}
	return m[1], m[2], m[3], data
}

// element returns the bytes of one value.
func element(ts *testscript.TestScript, dtype, value string) []byte {
	d, err := tensor.ParseDType(dtype)
	ts.Check(err)
	width := d.Bits() / 8
	bits, err := strconv.ParseUint(strings.TrimPrefix(value, "x"), 16, 64)
	if value[0] != 'x' {
		var f float64
		f, err = strconv.ParseFloat(value, 64)
		switch d {
		case tensor.F64:
			bits = math.Float64bits(f)
		case tensor.F32:
			bits = uint64(math.Float32bits(float32(f)))
		case tensor.BF16:
			bits = uint64(math.Float32bits(float32(f)) >> 16) // of values that it holds
		default:
			bits = uint64(int64(f))
		}
	}
	ts.Check(err)
	return binary.LittleEndian.AppendUint64(nil, bits)[:width]
}

// bits FILE TENSOR TYPE HEX... compares the type of a tensor and the bits of its
// elements.
func compareBits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: bits FILE TENSOR TYPE HEX...")
	}
	c, err := demi.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	defer c.Close()
	t, ok := c.Tensor(args[1])
	if !ok {
		ts.Fatalf("%s has no tensor %q", args[0], args[1])
	}
	info := t.Info()
	p := make([]byte, info.Size)
	_, err = t.ReadAt(p, 0)
	if err != nil && int64(len(p)) != info.Size {
		ts.Fatalf("%v", err)
	}
	var got []string
	for width := info.DType.Bits() / 8; len(p) > 0 && len(got) < len(args)-3; p = p[width:] {
		word := make([]byte, 8)
		copy(word, p[:width])
		got = append(got, fmt.Sprintf("%0*x", 2*width, binary.LittleEndian.Uint64(word)))
	}
	if want := strings.Join(args[2:], " "); want != info.TypeName()+" "+strings.Join(got, " ") {
		ts.Fatalf("tensor %q is %s %s, want %s", args[1], info.TypeName(), strings.Join(got, " "), want)
	}
}

// raw FILE PART... writes a file of bytes in hexadecimal digits, of u32:N and
// u64:N, and of s:TEXT, which has its length before it as in GGUF.
func writeRaw(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: raw FILE PART...")
	}
	var file []byte
	for _, a := range args[1:] {
		kind, value, ok := strings.Cut(a, ":")
		n, err := strconv.ParseUint(value, 0, 64)
		switch {
		case ok && kind == "s":
			file, err = append(binary.LittleEndian.AppendUint64(file, uint64(len(value))), value...), nil
		case ok && kind == "u32":
			file = binary.LittleEndian.AppendUint32(file, uint32(n))
		case ok && kind == "u64":
			file = binary.LittleEndian.AppendUint64(file, n)
		default:
			file, err = hex.AppendDecode(file, []byte(a))
		}
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), file, 0o666))
}
