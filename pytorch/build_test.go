package pytorch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

func open(p []byte, o *pytorch.Options) (*pytorch.File, error) {
	return pytorch.NewFile(bytes.NewReader(p), int64(len(p)), o)
}

func mustOpen(t testing.TB, p []byte, o *pytorch.Options) *pytorch.File {
	t.Helper()
	f, err := open(p, o)
	require.NoError(t, err)
	return f
}

// class is the class of an error, in a word.
func class(err error) string {
	for word, class := range map[string]error{"format": tensor.ErrFormat, "truncated": tensor.ErrTruncated,
		"unsupported": tensor.ErrUnsupported, "limit": tensor.ErrLimit} {
		if errors.Is(err, class) {
			return word
		}
	}
	if err == nil {
		return "ok"
	}
	return "no class"
}

// shown lists the tensors of a source: a:F32:[1]:4.
func shown(s tensor.Source) string {
	var out []string
	for _, in := range s.Tensors() {
		out = append(out, fmt.Sprintf("%s:%s:%s:%d", in.Name, in.TypeName(), strings.ReplaceAll(fmt.Sprint(in.Shape), " ", ","), in.Size))
	}
	return strings.Join(out, " ")
}

// content reads the bytes of tensor i.
func content(t require.TestingT, s tensor.Source, i int) []byte {
	p := make([]byte, s.Tensors()[i].Size)
	n, err := s.Data(i).ReadAt(p, 0)
	require.True(t, err == nil || err == io.EOF, "%v", err)
	require.Equal(t, len(p), n)
	return p
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A part is one entry of an archive to be made, and what is wrong with it.
type part struct {
	name string
	data string

	method, flags  uint16
	localName      string // if it is another one
	localSize      int    // if it is another one
	size           uint64 // in the directory, if it is another one
	at             int64  // of the local header in the directory, if it is another one
	crc            uint32 // xor
	wide           bool   // sizes in a zip64 field
	extra          string // of the local header
	missing, twice bool   // in the directory
}

// An archive is a zip file to be made, and what is wrong with its end.
type archive struct {
	parts   []part
	zip64   bool
	before  string // bytes between the directory and its end record
	comment string
	edit    func(end []byte) // the end records, from the zip64 one on
}

var le = binary.LittleEndian

func u16(p []byte, values ...uint16) []byte {
	for _, v := range values {
		p = le.AppendUint16(p, v)
	}
	return p
}

func u32(p []byte, values ...uint32) []byte {
	for _, v := range values {
		p = le.AppendUint32(p, v)
	}
	return p
}

// bytes makes the file.
func (a archive) bytes() []byte {
	var out, dir []byte
	count := 0
	for _, e := range a.parts {
		at := len(out)
		out = e.local(out)
		if e.missing {
			continue
		}
		for range map[bool]int{false: 1, true: 2}[e.twice] {
			dir = e.central(dir, at)
			count++
		}
	}
	start := len(out)
	out = append(append(out, dir...), a.before...)
	return a.end(out, start, len(dir), count)
}

func (e part) local(out []byte) []byte {
	name, size := e.name, len(e.data)
	if e.localName != "" {
		name = e.localName
	}
	if e.localSize != 0 {
		size = e.localSize
	}
	out = u16(append(out, "PK\x03\x04"...), 0, e.flags, e.method, 0, 0)
	out = u32(out, crc32.ChecksumIEEE([]byte(e.data)), uint32(size), uint32(size))
	out = u16(out, uint16(len(name)), uint16(len(e.extra)))
	return append(append(append(out, name...), e.extra...), e.data...)
}

func (e part) central(dir []byte, at int) []byte {
	size, where := uint64(len(e.data)), uint64(at)
	if e.size != 0 {
		size = e.size
	}
	if e.at != 0 {
		where = uint64(e.at)
	}
	narrow := []uint32{uint32(size), uint32(size), uint32(where)}
	var extra []byte
	if e.wide {
		narrow = []uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
		extra = u16(extra, 7, 2, 0, 1, 24) // another field first
		for _, v := range []uint64{size, size, where} {
			extra = le.AppendUint64(extra, v)
		}
	}
	dir = u16(append(dir, "PK\x01\x02"...), 0, 0, e.flags, e.method, 0, 0)
	dir = u32(dir, crc32.ChecksumIEEE([]byte(e.data))^e.crc, narrow[0], narrow[1])
	dir = u16(dir, uint16(len(e.name)), uint16(len(extra)), 0, 0, 0)
	dir = u32(dir, 0, narrow[2])
	return append(append(dir, e.name...), extra...)
}

func (a archive) end(out []byte, start, size, count int) []byte {
	mark := len(out)
	narrow := []uint32{uint32(size), uint32(start)}
	if a.zip64 {
		out = append(out, "PK\x06\x06"...)
		out = le.AppendUint64(out, 44)
		out = u32(u16(out, 45, 45), 0, 0)
		for _, v := range []int{count, count, size, start} {
			out = le.AppendUint64(out, uint64(v))
		}
		out = u32(append(out, "PK\x06\x07"...), 0)
		out = u32(le.AppendUint64(out, uint64(mark)), 1)
		narrow = []uint32{1<<32 - 1, 1<<32 - 1}
	}
	out = u16(append(out, "PK\x05\x06"...), 0, 0, uint16(count), uint16(count))
	out = append(u16(u32(out, narrow...), uint16(len(a.comment))), a.comment...)
	if a.edit != nil {
		a.edit(out[mark:])
	}
	return out
}

// pack makes an archive as torch.save does: a pickle and storages, by number.
func pack(pickle string, stores ...string) archive {
	parts := []part{{name: "archive/data.pkl", data: pickle}}
	for i, s := range stores {
		parts = append(parts, part{name: fmt.Sprintf("archive/data/%d", i), data: s, extra: "FB\x02\x00ZZ"})
	}
	return archive{parts: append(parts, part{name: "archive/version", data: "3\n"}), zip64: true}
}

// The functions below write pickles.

func str(s string) string { return "X" + string(le.AppendUint32(nil, uint32(len(s)))) + s }

func num(n int64) string { return "\x8a\x08" + string(le.AppendUint64(nil, uint64(n))) }

func global(module, name string) string { return "c" + module + "\n" + name + "\n" }

func tuple(items ...string) string { return "(" + strings.Join(items, "") + "t" }

func nums(n []int64) string {
	items := make([]string, len(n))
	for i, v := range n {
		items[i] = num(v)
	}
	return tuple(items...)
}

func call(callee string, args ...string) string { return callee + tuple(args...) + "R" }

func store(kind, key string, numel int64) string {
	return tuple(str("storage"), global("torch", kind), str(key), str("cpu"), num(numel)) + "Q"
}

// view is a tensor of a storage.
func view(store string, offset int64, shape, stride []int64, more ...string) string {
	args := append([]string{store, num(offset), nums(shape), nums(stride), "\x89", call(global("collections", "OrderedDict"))}, more...)
	return call(global("torch._utils", "_rebuild_tensor_v2"), args...)
}

// dict is a dictionary of keys and values, each a pickled value.
func dict(items ...string) string { return "}(" + strings.Join(items, "") + "u" }

func pickled(value string) string { return "\x80\x02" + value + "." }

// good is a file with one tensor "w" of 3 floats, and a word of metadata.
func good() archive {
	return pack(pickled(dict(str("w"), view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1}), str("k"), str("v"))), "abcdefghijkl")
}
