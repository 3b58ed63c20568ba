package format_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// The files of testdata/demi/v1 are kept for ever: what has been written once
// must be read for ever. A file is never written again; one for a new feature
// is made by -kept, which writes those that are missing, and pinned in
// SHA256SUMS beside them.
var writeKept = flag.Bool("kept", false, "write files of testdata/demi/v1 that do not exist")

const keptDir = "../testdata/demi/v1"

// A kept file is what a model and options have given once.
type kept struct {
	*model
	o     *writeOptions
	after func(p []byte) []byte // what is done to the file then
}

// noise returns n bytes that are the same for ever.
func noise(n int, seed uint32) []byte {
	p := make([]byte, n)
	for i := range p {
		seed = seed*1664525 + 1013904223
		p[i] = byte(seed >> 24)
	}
	return p
}

// bell returns n numbers around zero, sums of noise, exact in any float of 24
// bits.
func bell(n int, seed uint32) []float32 {
	w := make([]float32, n)
	p := noise(8*n, seed)
	for i := range w {
		sum := 0
		for _, b := range p[8*i:][:8] {
			sum += int(b) - 127
		}
		w[i] = float32(sum) * float32(int(p[8*i])+300) / (1 << 22)
	}
	return w
}

// keepHalf clears the low halves of F32, so that they are BF16.
func keepHalf(p []byte) []byte {
	for i := 0; i < len(p); i += 4 {
		p[i], p[i+1] = 0, 0
	}
	return p
}

func keptModels() map[string]kept {
	files := map[string]kept{}
	add := func(name string, o *writeOptions, build func(m *model)) {
		m := &model{}
		build(m)
		files[name] = kept{model: m, o: o}
	}
	add("empty", nil, func(m *model) {})
	add("scalar", nil, func(m *model) { m.add("x", tensor.F32, []byte{0, 0, 0x80, 0x3f}) })
	add("raw", &writeOptions{Level: codec.None}, func(m *model) {
		m.add("a", tensor.F32, asF32(bell(15, 1)), 5, 3)
		m.add("b", tensor.U8, noise(7, 2), 7)
		m.add("nothing", tensor.F16, []byte{}, 2, 0)
		m.add("c", tensor.BF16, asBF16(bell(64, 3)), 8, 8)
	})
	add("constant", nil, func(m *model) {
		m.add("zeros", tensor.F32, make([]byte, 4*300), 300)
		m.add("ones", tensor.BF16, bytes.Repeat([]byte{0x80, 0x3f}, 200), 200)
	})
	add("blocks", nil, func(m *model) {
		m.add("u8", tensor.U8, make([]byte, 131072*2+5), 131072*2+5)
		m.add("bf16", tensor.BF16, append(bytes.Repeat([]byte{0x80, 0x3f}, 65536), noise(6, 4)...), 65539)
		m.add("f64", tensor.F64, make([]byte, 8*65537), 65537)
	})
	add("cascade-bf16", nil, func(m *model) { m.add("w", tensor.BF16, asBF16(bell(1000, 5)), 10, 100) })
	add("cascade-f16", nil, func(m *model) { m.add("w", tensor.F16, asF16(bell(1000, 6)), 10, 100) })
	add("cascade-f32", nil, func(m *model) {
		m.add("w", tensor.F32, asF32(bell(500, 7)), 10, 50)
		m.add("clean", tensor.F32, keepHalf(asF32(bell(500, 8))), 10, 50)
	})
	add("zstd", nil, func(m *model) {
		m.add("squares", tensor.I64, squares(), 300)
	})
	add("types", nil, func(m *model) {
		for d := tensor.U64; d < tensor.Opaque; d++ {
			m.add(d.String(), d, noise(2*d.Bits(), uint32(d)), 4, 4)
		}
		m.addOpaque("q4", tensor.Foreign{Name: "Q4_0", ID: 2, BlockElems: 32, BlockBytes: 18}, noise(36, 9), 2, 32)
		m.addOpaque("strange", tensor.Foreign{Name: "F6_E9M9"}, noise(9, 10), 3)
	})
	add("align", &writeOptions{Align: 512}, func(m *model) {
		m.add("a", tensor.F32, asF32(bell(5, 11)), 5)
		m.add("b", tensor.F32, asF32(bell(5, 12)), 5)
	})
	add("metadata", nil, func(m *model) { m.meta = allTypes(8).meta })
	add("records", nil, func(m *model) {
		m.add("a", tensor.BF16, asBF16(bell(4, 13)), 4)
		m.add("b", tensor.U8, noise(3, 14), 3)
		m.records = recordsOf(m)
	})
	add("sources", &writeOptions{Sources: sources(
		format.SourceHeader{Name: "a.safetensors", Size: 30, Bytes: []byte("0123456789abcdef"), Tensors: []format.SourceTensor{{Name: "b", Offset: 16}, {Name: "a", Offset: 24}}},
		format.SourceHeader{Name: "none.gguf", Size: 5, SHA256: sha256.Sum256([]byte("head\x00")), Bytes: []byte("head")},
	)}, func(m *model) {
		m.add("a", tensor.F32, asF32(bell(1, 15)), 1)
		m.add("b", tensor.U8, noise(7, 16), 7)
	})
	add("nohash", &writeOptions{Hash: format.HashNone}, func(m *model) { m.add("a", tensor.U8, noise(3, 17), 3) })
	add("compressed", nil, func(m *model) {
		words := make([]string, 700)
		for i := range words {
			words[i] = strings.Repeat(string(rune('a'+i%26)), i%7+1)
		}
		m.meta = tensor.Metadata{{Key: "words", Value: stringArray(words...)}}
		m.add("a", tensor.U8, noise(3, 18), 3)
	})
	add("container", &writeOptions{Container: "gguf"}, func(m *model) { m.add("a", tensor.U8, noise(3, 24), 3) })
	add("extension", nil, func(m *model) { m.add("a", tensor.U8, noise(3, 19), 3) })
	x := files["extension"]
	x.after = extend
	files["extension"] = x
	add("frames", nil, func(m *model) {
		p := make([]byte, 200000)
		copy(p[150000:], noise(20, 23))
		m.meta = tensor.Metadata{{Key: "bytes", Value: tensor.Array{Elem: tensor.KindU8, Len: len(p), Raw: p}}}
		m.add("squares", tensor.I64, squares(), 300)
	})
	x = files["frames"]
	x.after = reframe
	files["frames"] = x
	return files
}

func squares() (p []byte) {
	for i := range uint64(300) {
		p = binary.LittleEndian.AppendUint64(p, i*i)
	}
	return p
}

// reframe has the reference implementation of Zstandard compress the section of
// metadata, in several blocks with a window that is smaller than it, and the
// only tile, with a checksum.
func reframe(p []byte) []byte {
	f, err := readMini(p)
	if err != nil {
		panic(err)
	}
	meta, blocks := &f.sections[2], &f.sections[1]
	meta.stored = zstdProgram(f.section("metadata").p, "-3", "--no-check", "--zstd=wlog=17")
	meta.flags = 2
	tile := zstdProgram(squares(), "-19", "--check")
	blocks.stored = binary.LittleEndian.AppendUint32(nil, uint32(len(tile))|3<<24)
	blocks.stored = binary.LittleEndian.AppendUint32(blocks.stored, crc32c(append(bytes.Clone(tile), 3)))
	before := append(bytes.Clone(p[:64]), tile...)
	return seal(append(before, make([]byte, -len(before)&63)...), f.appendIndex())
}

func zstdProgram(p []byte, args ...string) []byte {
	c := exec.Command("zstd", append(args, "-q", "-c", fmt.Sprint("--stream-size=", len(p)))...)
	c.Stdin = bytes.NewReader(p)
	out, err := c.Output()
	if err != nil {
		panic(err)
	}
	return out
}

// extend adds what version 1 does not define and a reader must skip: a feature,
// a section, and data of its own before the index.
func extend(p []byte) []byte {
	f, err := readMini(p)
	if err != nil {
		panic(err)
	}
	f.features = []string{"delta"}
	note := []byte("data at the end")
	f.sections = append(f.sections, miniSection{name: "delta", flags: 0xf2, stored: note, length: 1 << 40})
	before := append(bytes.Clone(p[:f.index]), bytes.Repeat([]byte{0xaa}, 64)...)
	return seal(before, f.appendIndex())
}

// keptSums are the pins: SHA-256 of each file.
func keptSums(t testing.TB) map[string]string {
	text, err := os.ReadFile(filepath.Join(keptDir, "SHA256SUMS"))
	require.NoError(t, err)
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		require.True(t, ok)
		sums[name] = sum
	}
	return sums
}

// keptBytes returns every kept file that is a file of its own.
func keptBytes(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	for name := range keptSums(t) {
		if strings.HasSuffix(name, ".demi") {
			p, err := os.ReadFile(filepath.Join(keptDir, name))
			require.NoError(t, err)
			files[name] = p
		}
	}
	return files
}

func makeKept(t *testing.T) {
	write := func(name string, p []byte) {
		f, err := os.OpenFile(filepath.Join(keptDir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			return
		}
		require.NoError(t, err)
		_, err = f.Write(p)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		sum := sha256.Sum256(p)
		sums, err := os.OpenFile(filepath.Join(keptDir, "SHA256SUMS"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		require.NoError(t, err)
		_, err = sums.WriteString(hex.EncodeToString(sum[:]) + "  " + name + "\n")
		require.NoError(t, err)
		require.NoError(t, sums.Close())
	}
	models := keptModels()
	for _, name := range slices.Sorted(maps.Keys(models)) {
		k := models[name]
		p := k.bytes(t, k.o)
		if k.after != nil {
			p = k.after(p)
		}
		write(name+".demi", p)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(keptDir, "linked"), 0o755))
	dir := t.TempDir()
	require.NoError(t, keptSet().write(format.CreateSet(dir, "model", 50, &writeOptions{Container: "safetensors"}), 1<<20))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		p, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		write("linked/"+e.Name(), p)
	}
}

func keptSet() *model {
	m := &model{meta: tensor.Metadata{{Key: "format", Value: "pt"}}}
	m.add("a", tensor.F32, asF32(bell(20, 20)), 20)
	m.add("b", tensor.F32, asF32(bell(10, 21)), 10)
	m.add("c", tensor.BF16, asBF16(bell(10, 22)), 2, 5)
	return m
}

// TestKept: the files are those that were written, and read right, by both
// readers.
func TestKept(t *testing.T) {
	if *writeKept {
		makeKept(t)
	}
	sums, models := keptSums(t), keptModels()
	for name, sum := range sums {
		p, err := os.ReadFile(filepath.Join(keptDir, name))
		require.NoError(t, err)
		got := sha256.Sum256(p)
		require.Equal(t, sum, hex.EncodeToString(got[:]), "%s has been rewritten", name)
		k, ok := models[strings.TrimSuffix(name, ".demi")]
		if !ok {
			require.True(t, strings.HasPrefix(name, "set/") || strings.HasPrefix(name, "linked/"), name)
			continue
		}
		k.requireKept(t, p)
	}
	require.Len(t, sums, len(models)+3+4, "files are missing")
	for name, files := range map[string]int{"set": 2, "linked": 3} {
		set, err := format.OpenSet(filepath.Join(keptDir, name), nil)
		require.NoError(t, err)
		defer set.Close()
		keptSet().requireHolds(t, set)
		require.NoError(t, set.Verify(context.Background(), 1))
		require.Len(t, set.Files(), files)
	}
}

// TestKeptLinks: the places and links of the files of a set are as SPEC.md
// says; files of sets that are older say nothing.
func TestKeptLinks(t *testing.T) {
	link := blake3.Sum256([]byte("demi set 1\n"))
	for no := range 3 {
		p, err := os.ReadFile(format.ShardName(filepath.Join(keptDir, "linked", "model"), no+1, 3))
		require.NoError(t, err)
		f, err := readMini(p)
		require.NoError(t, err)
		s := f.section("set")
		require.EqualValues(t, no+1, s.u32())
		require.EqualValues(t, 3, s.u32())
		require.Equal(t, link[:], s.p)
		link = blake3.Sum256(append(link[:], f.section("blocks").p...))
		require.Equal(t, no == 0, f.section("container") != nil)
	}
	old, err := format.Open(filepath.Join(keptDir, "set", "model-00001-of-00002.demi"), nil)
	require.NoError(t, err)
	defer old.Close()
	no, count := old.Member()
	require.Zero(t, no+count)
	require.Equal(t, "gguf", mustOpen(t, keptBytes(t)["container.demi"]).Container())
}

func (k kept) requireKept(t testing.TB, p []byte) {
	f := mustOpen(t, p)
	k.requireHolds(t, f)
	require.NoError(t, f.Verify(context.Background(), 1))
	k.requireMini(t, p)
	records, err := f.Records()
	require.NoError(t, err)
	require.Equal(t, k.records, records)
	sources, err := f.Sources()
	require.NoError(t, err)
	if k.o != nil && k.o.Sources != nil {
		want, err := k.o.Sources()
		require.NoError(t, err)
		require.Equal(t, want, sources)
	}
}

// TestKeptAgain: what does not go through Zstandard, whose encoder may become
// better, is written today as it was.
func TestKeptAgain(t *testing.T) {
	for name, k := range keptModels() {
		if name == "zstd" || name == "compressed" || k.after != nil {
			continue
		}
		want, err := os.ReadFile(filepath.Join(keptDir, name+".demi"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, k.bytes(t, k.o)), name)
	}
}

// TestKeptFeatures: each kept file has what it is kept for.
func TestKeptFeatures(t *testing.T) {
	files := keptBytes(t)
	ids := map[string]codec.ID{"constant": codec.Constant, "cascade-bf16": codec.Cascade, "cascade-f16": codec.Cascade, "cascade-f32": codec.Cascade, "zstd": codec.Zstd, "raw": codec.Raw}
	for name, id := range ids {
		for x := range mustOpen(t, files[name+".demi"]).All() {
			for k := range x.Blocks() {
				require.Equal(t, id, x.Block(k).ID, name)
			}
		}
	}
	require.EqualValues(t, 3, mustOpen(t, files["blocks.demi"]).At(0).Blocks())
	require.Equal(t, []format.Feature{{Name: "delta"}}, mustOpen(t, files["extension.demi"]).Features())
	m, err := readMini(files["compressed.demi"])
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(m.sections, func(s miniSection) bool { return s.name == "metadata" && s.flags&2 != 0 }))
}

// TestSpecExample: the bytes in SPEC.md are those of a kept file.
func TestSpecExample(t *testing.T) {
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	var got []byte
	for line := range strings.Lines(string(text)) {
		offset, data, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || len(offset) != 8 || !strings.HasPrefix(line, "    0") {
			continue
		}
		p, err := hex.DecodeString(strings.Join(strings.Fields(data), ""))
		require.NoError(t, err)
		got = append(got, p...)
	}
	require.Equal(t, keptBytes(t)["scalar.demi"], got)
}
