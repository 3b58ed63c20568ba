package gguf_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

var update = flag.Bool("update", false, "write the files in testdata/gguf/vectors anew")

const vectorDir = "../testdata/gguf/vectors"

// A vector is a file that makes one claim. It is refused by default with the
// class and the text, or accepted if there is no class; lenient ones are
// accepted with Options.Lenient. A warning is a part of the only one.
type vector struct {
	name    string
	class   error
	text    string
	lenient bool
	warning string
	claim   string
	file    *maker
}

func accept(name, claim string, m *maker) vector { return vector{name: name, claim: claim, file: m} }

func warned(name, warning, claim string, m *maker) vector {
	return vector{name: name, warning: warning, claim: claim, file: m}
}

func refuse(name string, class error, text, claim string, m *maker) vector {
	return vector{name: name, class: class, text: text, claim: claim, file: m}
}

// one begins a file with one tensor and no keys.
func one() *maker { return newMaker(1, 0) }

// keyed begins a file with one key "k", whose type and value follow.
func keyed(kind tensor.Kind) *maker { return newMaker(0, 1).key("k", kind) }

func vectors() []vector {
	return append(append(goodVectors(), badHeaderVectors()...), badTensorVectors()...)
}

const big = uint64(1) << 40

func goodVectors() []vector {
	be := binary.BigEndian
	return []vector{
		accept("ok-empty", "no keys, no tensors", newMaker(0, 0)),
		accept("ok-v2", "version 2", makerOf(binary.LittleEndian, 2, 1, 0).info("a", 0, 0, 8).pad(32).floats(8)),
		accept("ok-big-endian", "big-endian: keys, arrays and data are turned", makerOf(be, 3, 2, 2).
			key("k", tensor.KindU32).u32(7).array("l", tensor.KindF32, 2).f32(1).f32(2).
			info("a", 0, 0, 4, 2).info("b", 24, 32, 3).pad(32).floats(8).raw(1, 2, 3).pad(32)),
		accept("ok-kinds", "every kind of value", allKinds(newMaker(0, 13))),
		accept("ok-array-empty", "an empty array", newMaker(0, 1).array("k", tensor.KindString, 0)),
		accept("ok-scores-u8", "an array of bytes where llama.cpp wants floats is four times too short for it: here it stays an array of bytes",
			newMaker(0, 1).array("tokenizer.ggml.scores", tensor.KindU8, 3).raw(1, 2, 3)),
		accept("ok-string-latin1", "a string need not be UTF-8", keyed(tensor.KindString).str("\xe9")),
		accept("ok-key-unicode", "a key need not be ASCII", newMaker(0, 1).key("clé", tensor.KindU8).raw(1)),
		warned("ok-bool-2", "bool is 2", "a bool of 2 is true", keyed(tensor.KindBool).raw(2)),
		accept("ok-align-1", "alignment 1: no padding at all", newMaker(2, 1).align(1).info("a", 24, 0, 3).info("b", 24, 3, 2).raw(1, 2, 3, 4, 5)),
		accept("ok-align-64", "alignment 64", newMaker(2, 1).align(64).info("a", 0, 0, 1).info("b", 0, 64, 1).pad(64).floats(1).pad(64).floats(1).pad(64)),
		accept("ok-align-4096", "alignment 4096", newMaker(1, 1).align(4096).info("a", 0, 0, 1).pad(4096).floats(1).pad(4096)),
		accept("ok-scalar", "no dimensions: one element", one().info("a", 0, 0).pad(32).floats(1).pad(32)),
		accept("ok-4d", "four dimensions, the fastest first", one().info("a", 0, 0, 1, 2, 3, 4).pad(32).floats(24)),
		accept("ok-zero-dim", "no elements", one().info("a", 0, 0, 4, 0).pad(32)),
		accept("ok-name-63", "the longest name", one().info(strings.Repeat("n", 63), 0, 0, 8).pad(32).floats(8)),
		accept("ok-name-empty", "an empty name", one().info("", 0, 0, 8).pad(32).floats(8)),
		accept("ok-types", "every type of ggml, one row of each", allTypes()),
		accept("ok-padding-not-zero", "padding may hold anything", one().info("a", 24, 0, 4).pad(32).raw(1, 2, 3, 4).raw([]byte("0123456789012345678901234567")...)),
		warned("ok-name-nul", "NUL", "a name with a NUL", one().info("a\x00b", 0, 0, 8).pad(32).floats(8)),
		warned("ok-last-padding-missing", "28 bytes of padding are missing", "the file ends with the last tensor", one().info("a", 0, 0, 1).pad(32).floats(1)),
		warned("ok-trailing", "3 bytes follow", "bytes follow the last padding", one().info("a", 0, 0, 8).pad(32).floats(8).raw(1, 2, 3)),
		{"lenient-type", tensor.ErrUnsupported, "type 99 is not a ggml type", true, "type 99", "an unknown type, measured by the next tensor",
			newMaker(2, 0).info("a", 99, 0, 5).info("b", 0, 64, 1).pad(32).zeros(64).floats(1).pad(32)},
		{"lenient-type-last", tensor.ErrUnsupported, "type 43 is not a ggml type", true, "type 43", "an unknown type, measured by the file's end",
			newMaker(1, 0).info("a", 43, 0, 5).pad(32).zeros(40)},
		{"lenient-type-removed", tensor.ErrUnsupported, "type 4 (Q4_2) was removed", true, "type 4", "a type that ggml has removed",
			newMaker(1, 0).info("a", 4, 0, 32).pad(32).zeros(32)},
	}
}

// allKinds adds a key of every kind.
func allKinds(m *maker) *maker {
	m.key("u8", tensor.KindU8).raw(200).key("i8", tensor.KindI8).raw(0xFE)
	m.key("u16", tensor.KindU16).raw(1, 2).key("i16", tensor.KindI16).raw(0xFE, 0xFF)
	m.key("u32", tensor.KindU32).u32(70000).key("i32", tensor.KindI32).u32(0xFFFFFFFE)
	m.key("f32", tensor.KindF32).f32(1.5).key("bool", tensor.KindBool).raw(1)
	m.key("string", tensor.KindString).str("text").array("array", tensor.KindString, 2).str("a").str("")
	m.key("u64", tensor.KindU64).u64(1<<40).key("i64", tensor.KindI64).u64(1<<64 - 2)
	return m.key("f64", tensor.KindF64).u64(0x3FF8000000000000)
}

// allTypes has one row of one block of every type.
func allTypes() *maker {
	m, offset, count := &maker{order: binary.LittleEndian}, uint64(0), uint64(0)
	for id := range uint32(100) {
		if typ, ok := gguf.TypeByID(id); ok {
			m.info(typ.Name, id, offset, uint64(typ.BlockElems))
			offset, count = (offset+uint64(typ.BlockBytes)+31)&^31, count+1
		}
	}
	return newMaker(count, 0).raw(m.b...).pad(32).zeros(int(offset))
}

func badHeaderVectors() []vector {
	format, truncated, unsupported := tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported
	u8, u32, str := tensor.KindU8, tensor.KindU32, tensor.KindString
	le := binary.LittleEndian
	return []vector{
		refuse("bad-no-bytes", truncated, "file has 0 bytes", "an empty file", &maker{order: le}),
		refuse("bad-magic-only", truncated, "version takes 4 bytes, 0 are left", "CVE-2024-39720: four bytes", newMaker(0, 0).cut(20)),
		refuse("bad-header-cut", truncated, "number of keys", "the header ends early", newMaker(0, 0).cut(4)),
		refuse("bad-version-0", unsupported, "version 0", "version 0", makerOf(le, 0, 0, 0)),
		refuse("bad-version-1", unsupported, "version 1", "version 1 has 32-bit lengths", makerOf(le, 1, 0, 0)),
		refuse("bad-version-4", unsupported, "version 4", "a version to come", makerOf(le, 4, 0, 0)),
		refuse("bad-legacy-ggml", format, "legacy GGML file", "a file of before GGUF", (&maker{order: le}).raw([]byte("lmgg")...).zeros(60)),
		refuse("bad-keys-2e40", truncated, "counts 1099511627776 keys", "n_kv times the size of a key wraps or fills memory", newMaker(0, big).zeros(40)),
		refuse("bad-keys-minus-1", truncated, "counts 18446744073709551615 keys", "n_kv is negative", newMaker(0, 1<<64-1).zeros(40)),
		refuse("bad-tensors-2e40", truncated, "counts 1099511627776 tensors", "n_tensors times the size of a tensor wraps or fills memory", newMaker(big, 0).zeros(40)),
		refuse("bad-tensors-minus-1", truncated, "counts 18446744073709551615 tensors", "n_tensors is negative", newMaker(1<<64-1, 0).zeros(40)),
		refuse("bad-key-empty", format, "key 1 of 1 is empty", "an empty key aborts gguf.cpp of before", newMaker(0, 1).key("", u32).u32(1)),
		refuse("bad-key-twice", format, `key "k" comes twice`, "a key comes twice", newMaker(0, 2).key("k", u8).raw(1).key("k", u8).raw(1)),
		refuse("bad-key-length-2e40", truncated, "1099511627776 bytes", "the length of a key is beyond the file", newMaker(0, 1).u64(big).zeros(28)),
		refuse("bad-key-length-max", truncated, "18446744073709551615 bytes", "the length of a key plus 1 wraps", newMaker(0, 1).u64(1<<64-1).zeros(28)),
		refuse("bad-key-length-2e63", truncated, "9223372036854775808 bytes", "the length of a key is negative", newMaker(0, 1).u64(1<<63).zeros(28)),
		refuse("bad-string-length-2e40", truncated, "1099511627776 bytes", "the length of a value is beyond the file", keyed(str).u64(big).zeros(15)),
		refuse("bad-kind-13", format, "has type 13", "a kind that is none", keyed(13).u64(0)),
		refuse("bad-kind-max", format, "has type 4294967295", "a kind that is negative", keyed(1<<32-1).u64(0)),
		refuse("bad-array-kind-77", format, "element type 77", "an array of a kind that is none", newMaker(0, 1).array("k", 77, 1).u64(0)),
		refuse("bad-array-nested", unsupported, "array of arrays", "an array of arrays: with a thousand of them a parser overflows its stack", newMaker(0, 1).array("k", tensor.KindArray, 1).u32(4).u64(0)),
		refuse("bad-array-2e40", truncated, "1099511627776 elements of u8", "an array beyond the file", newMaker(0, 1).array("k", u8, big).zeros(11)),
		refuse("bad-array-wrap", truncated, "4611686018427387905 elements of u32", "count times 4 wraps to 4", newMaker(0, 1).array("k", u32, 1<<62+1).u32(0)),
		refuse("bad-array-strings-2e40", truncated, "1099511627776 elements of string", "strings beyond the file", newMaker(0, 1).array("k", str, big).zeros(11)),
		refuse("bad-array-string-length", truncated, "element of array", "a string of an array is beyond the file", newMaker(0, 1).array("k", str, 2).str("a").u64(1<<63)),
		refuse("bad-align-0", format, "is 0, want a power of two", "alignment 0: division by zero", newMaker(0, 1).align(0)),
		refuse("bad-align-3", format, "is 3, want a power of two", "alignment 3", newMaker(0, 1).align(3)),
		refuse("bad-align-i32", format, "of type i32, want u32", "alignment of another type", newMaker(0, 1).key("general.alignment", tensor.KindI32).u32(32)),
		refuse("bad-align-u64", format, "of type u64, want u32", "alignment of another type", newMaker(0, 1).key("general.alignment", tensor.KindU64).u64(32)),
		refuse("bad-align-array", format, "of type array, want u32", "alignment is an array", newMaker(0, 1).array("general.alignment", u32, 1).u32(32)),
		refuse("bad-align-2e31", truncated, "at 2147483648", "data would begin beyond the file", newMaker(1, 1).align(1<<31).info("a", 0, 0, 8).pad(32).floats(8)),
	}
}

func badTensorVectors() []vector {
	format, truncated, unsupported := tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported
	full := func(m *maker) *maker { return m.pad(32).floats(8) }
	two := func(m *maker) *maker { return m.pad(32).floats(16) }
	return []vector{
		refuse("bad-dims-5", format, "5 dimensions", "CVE-2024-25664 and others: a fifth dimension is written behind an array", full(one().info("a", 0, 0, 2, 2, 2, 1, 1))),
		refuse("bad-dims-max", format, "4294967295 dimensions", "dimensions beyond any array", full(one().str("a").u32(1<<32-1).u64(8))),
		refuse("bad-dim-negative", format, "does not fit 63 bits", "a negative dimension", full(one().info("a", 0, 0, 1<<63))),
		refuse("bad-wrap-elements-to-0", format, "does not fit 63 bits", "2^32 times 2^32 elements wrap to 0: gguf.cpp accepts it", full(one().info("a", 0, 0, 1<<32, 1<<32))),
		refuse("bad-wrap-elements-then-b", format, `tensor "a"`, "the same, with a tensor behind it", full(newMaker(2, 0).info("a", 0, 0, 1<<32, 1<<32).info("b", 0, 0, 8))),
		refuse("bad-wrap-elements-negative", format, "does not fit 63 bits", "2^63-1 times 2 elements wrap to a negative count: gguf.cpp accepts it", full(one().info("a", 24, 0, 1<<63-1, 2))),
		refuse("bad-wrap-bytes-to-4m", format, "does not fit 63 bits", "CVE-2026-33298: the bytes wrap to 4 MB", full(one().info("a", 0, 0, 1152, 1<<42+1, 1<<10))),
		refuse("bad-wrap-bytes-2e42", truncated, "the file has", "CVE-2026-33298: 1152 times 2^42+1 elements", full(one().info("a", 24, 0, 1152, 1<<42+1))),
		refuse("bad-wrap-padding", format, "does not fit 63 bits", "2^64-16 bytes: the padding wraps to 0, and gguf.cpp accepts it", two(newMaker(2, 0).info("a", 0, 0, 8).info("b", 0, 32, 4, 1<<30-1, 1<<30+1))),
		refuse("bad-wrap-padding-to-0", format, "does not fit 63 bits", "2^64-4 bytes: the padding wraps to 0, and gguf.cpp accepts it", full(one().info("a", 0, 0, 1<<62-1))),
		refuse("bad-wrap-memory", format, "does not fit 63 bits", "CVE-2026-27940: the bytes and the size of a structure wrap", full(one().info("a", 28, 0, 1<<61-8))),
		refuse("bad-wrap-sum", format, "does not fit 63 bits", "CVE-2025-53630: the sum of the sizes wraps", full(newMaker(3, 0).info("a", 24, 0, 1<<62).info("b", 24, 1<<62, 1<<62).info("c", 24, 1<<63, 1<<63))),
		refuse("bad-size-near-2e63", format, "does not fit 63 bits", "size and padding end near 2^63", full(one().info("a", 24, 0, 1<<63-1))),
		refuse("bad-size-2e40", truncated, "1099511627776 bytes", "CVE-2026-7482: a shape far larger than the data", full(one().info("a", 24, 0, big))),
		refuse("bad-data-cut", truncated, "ends beyond the file", "the data ends early", full(one().info("a", 0, 0, 8)).cut(1)),
		refuse("bad-data-none", truncated, "ends beyond the file", "no data at all", one().info("a", 0, 0, 8)),
		refuse("bad-data-second-cut", truncated, `tensor "b"`, "the data of the second tensor is missing", full(newMaker(2, 0).info("a", 0, 0, 8).info("b", 0, 32, 8))),
		refuse("bad-offset-misaligned", format, "offset 4, want 0", "data at 4", full(one().info("a", 0, 4, 7))),
		refuse("bad-offset-gap", format, "offset 32, want 0", "a gap before the data", two(one().info("a", 0, 32, 8))),
		refuse("bad-offset-overlap", format, "offset 0, want 32", "two tensors share their bytes", two(newMaker(2, 0).info("a", 0, 0, 8).info("b", 0, 0, 8))),
		refuse("bad-offset-2e40", format, "offset 1099511627776, want 0", "CVE-2025-62609: an offset beyond the file", full(one().info("a", 0, big, 8))),
		refuse("bad-offset-wrap", format, "offset 18446744073709551584, want 0", "an offset that wraps to before the data", full(one().info("a", 0, 1<<64-32, 8))),
		refuse("bad-name-64", format, "64 bytes", "a name one byte too long", full(one().info(strings.Repeat("n", 64), 0, 0, 8))),
		refuse("bad-name-length-2e40", truncated, "1099511627776 bytes", "the length of a name is beyond the file", full(one().u64(big))),
		refuse("bad-name-twice", format, "name comes twice", "two tensors of one name", two(newMaker(2, 0).info("a", 0, 0, 8).info("a", 0, 32, 8))),
		refuse("bad-name-twice-nul", format, "name comes twice", "two names that are one in C", two(newMaker(2, 0).info("a\x00x", 0, 0, 8).info("a\x00y", 0, 32, 8))),
		refuse("bad-type-43", unsupported, "type 43 is not", "the first number that is no type", full(one().info("a", 43, 0, 8))),
		refuse("bad-type-max", unsupported, "type 4294967295 is not", "a type that is negative", full(one().info("a", 1<<32-1, 0, 8))),
		refuse("bad-type-removed", unsupported, "type 36 (IQ4_NL_4_4) was removed", "a type without a block size: division by zero", full(one().info("a", 36, 0, 8))),
		refuse("bad-row-128", format, "not whole blocks of 256 (Q4_K)", "a row that is no whole block", full(one().info("a", 12, 0, 128, 2))),
		refuse("bad-row-scalar", format, "not whole blocks of 32 (Q8_0)", "a scalar of a block type", full(one().info("a", 8, 0))),
		refuse("bad-big-endian-q8", unsupported, "Q8_0 in a big-endian file", "blocks of mixed fields in a big-endian file",
			makerOf(binary.BigEndian, 3, 1, 0).info("a", 8, 0, 32).pad(32).zeros(34).pad(32)),
	}
}

// index describes all vectors, a line each.
func index(list []vector) string {
	var b strings.Builder
	b.WriteString("file\tverdict\tclaim\n")
	for _, v := range list {
		verdict := "accepted"
		if v.class != nil {
			verdict = fmt.Sprintf("refused: %v: ... %s", v.class, v.text)
		}
		if v.lenient {
			verdict += " (accepted when lenient)"
		}
		if v.warning != "" {
			verdict += fmt.Sprintf("; warning: ... %s", v.warning)
		}
		fmt.Fprintf(&b, "%s.gguf\t%s\t%s\n", v.name, verdict, v.claim)
	}
	return b.String()
}

// TestVectorFiles compares the files with what makes them.
func TestVectorFiles(t *testing.T) {
	list := vectors()
	want := map[string]string{"INDEX.tsv": index(list)}
	for _, v := range list {
		want[v.name+".gguf"] = string(v.file.b)
	}
	require.Len(t, want, len(list)+1, "names are unique")
	if *update {
		require.NoError(t, os.RemoveAll(vectorDir))
		require.NoError(t, os.MkdirAll(vectorDir, 0o777))
		for name, content := range want {
			require.NoError(t, os.WriteFile(filepath.Join(vectorDir, name), []byte(content), 0o666))
		}
	}
	entries, err := os.ReadDir(vectorDir)
	require.NoError(t, err)
	require.Len(t, entries, len(want))
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(vectorDir, name))
		require.NoError(t, err)
		require.Equal(t, content, string(got), "%s (go test -update writes it anew)", name)
	}
}

func TestVectors(t *testing.T) {
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			name := filepath.Join(vectorDir, v.name+".gguf")
			f, err := gguf.Open(name, nil)
			if v.class != nil {
				requireRefused(t, name, err, v.class, v.text)
			}
			if v.lenient {
				f, err = gguf.Open(name, &gguf.Options{Lenient: true})
			} else if v.class != nil {
				_, err = gguf.Open(name, &gguf.Options{Lenient: true})
				if v.class != tensor.ErrUnsupported || !strings.Contains(v.name, "type") {
					require.ErrorIs(t, err, v.class, "lenient does not change it")
				}
				return
			}
			require.NoError(t, err)
			defer f.Close()
			requireWarning(t, v.warning, f.Warnings())
			for i := range f.Tensors() {
				dataOf(t, f, i)
			}
		})
	}
}

func requireWarning(t *testing.T, want string, got []string) {
	t.Helper()
	if want == "" {
		require.Empty(t, got)
		return
	}
	require.Len(t, got, 1)
	require.Contains(t, got[0], want)
}

// requireRefused checks class, text and place of an error.
func requireRefused(t *testing.T, file string, err, class error, text string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	require.ErrorContains(t, err, text)
	var place *tensor.FileError
	require.ErrorAs(t, err, &place)
	require.Equal(t, file, place.File)
	require.GreaterOrEqual(t, place.Offset, int64(0))
	require.Equal(t, strings.ToLower(place.Err.Error()[:1]), place.Err.Error()[:1])
}

// TestMemory checks that no vector makes the reader allocate much.
func TestMemory(t *testing.T) {
	for _, v := range vectors() {
		for _, o := range []*gguf.Options{nil, {Lenient: true}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := open(v.file.b, o)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "%s: %v", v.name, err)
		}
	}
}

// A liar says that it has a size, and has less.
type liar struct{ p []byte }

func (l liar) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(l.p)) {
		return 0, errors.New("no such bytes")
	}
	n := copy(p, l.p[off:])
	if n < len(p) {
		return n, errors.New("no such bytes")
	}
	return n, nil
}

// TestMemoryOfALiar reads a header whose string fits the file's size, when the
// bytes do not come: memory grows with those that do.
func TestMemoryOfALiar(t *testing.T) {
	for _, m := range []*maker{
		keyed(tensor.KindString).u64(1 << 29),
		newMaker(0, 1).array("k", tensor.KindU8, 1<<29),
		newMaker(0, 1).array("k", tensor.KindString, 1<<29).str("a"),
		newMaker(1<<30, 0).info("a", 0, 0, 8),
		newMaker(0, 1<<30).key("k", tensor.KindU8).raw(1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := gguf.NewFile(liar{m.b}, 1<<40, nil)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "no such bytes")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
}
