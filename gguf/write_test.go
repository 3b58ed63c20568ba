package gguf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// A model is tensors, metadata and bytes to be written.
type model struct {
	infos []tensor.Info
	meta  tensor.Metadata
	data  [][]byte
}

func (m *model) add(in tensor.Info, data []byte) {
	in.Size = int64(len(data))
	m.infos, m.data = append(m.infos, in), append(m.data, data)
}

// write gives everything to a sink, in pieces of step bytes; a sink that is not
// ordered gets them in a random order from several goroutines.
func (m *model) write(s tensor.Sink, step int) error {
	if err := s.Begin(m.infos, m.meta); err != nil {
		return err
	}
	type piece struct{ i, from, to int }
	var pieces []piece
	for i, data := range m.data {
		for from := 0; from < len(data); from += step {
			pieces = append(pieces, piece{i, from, min(from+step, len(data))})
		}
	}
	workers := 1
	if !s.Ordered() {
		workers = 3
		rand.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
	}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for k := w; k < len(pieces) && errs[w] == nil; k += workers {
				p := pieces[k]
				errs[w] = s.Write(p.i, int64(p.from), m.data[p.i][p.from:p.to])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Abort()
		return err
	}
	return s.Finish(make([]tensor.Record, len(m.infos)))
}

// requireModel compares a source with what was written.
func requireModel(t rapid.TB, m *model, meta tensor.Metadata, src tensor.Source) {
	t.Helper()
	require.Equal(t, len(m.infos), len(src.Tensors()))
	for i, want := range m.infos {
		got := src.Tensors()[i]
		if want.Shape == nil {
			want.Shape = []int64{}
		}
		require.Equal(t, want, got)
		p := make([]byte, got.Size)
		n, err := io.ReadFull(io.NewSectionReader(src.Data(i), 0, got.Size), p)
		require.True(t, err == nil || n == 0, "%v", err)
		require.Equal(t, string(m.data[i]), string(p))
	}
	require.Empty(t, cmp.Diff(normal(meta), normal(src.Meta())))
}

// normal makes metadata comparable: floats as bits, no nil slices.
func normal(meta tensor.Metadata) (out []string) {
	for _, e := range meta {
		switch v := e.Value.(type) {
		case float32:
			out = append(out, fmt.Sprintf("%q f32 %x", e.Key, math.Float32bits(v)))
		case float64:
			out = append(out, fmt.Sprintf("%q f64 %x", e.Key, math.Float64bits(v)))
		case tensor.Array:
			out = append(out, fmt.Sprintf("%q %v %d %q", e.Key, v.Elem, v.Len, v.Raw))
		default:
			out = append(out, fmt.Sprintf("%q %T %#v", e.Key, v, v))
		}
	}
	return out
}

var numericTypes = []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I8, tensor.I16, tensor.I32, tensor.I64}

// drawModel draws a model that GGUF can hold.
func drawModel(t *rapid.T) *model {
	m := &model{meta: drawMeta(t)}
	n := rapid.IntRange(0, 6).Draw(t, "tensors")
	for i := range n {
		in := tensor.Info{Name: fmt.Sprintf("%s.%d", rapid.StringN(0, 10, 40).Filter(noNUL).Draw(t, "name"), i)}
		row, elem := int64(1), int64(0)
		if rapid.Bool().Draw(t, "opaque") {
			name := rapid.SampledFrom([]string{"Q4_0", "Q8_0", "Q4_K", "IQ3_S", "MXFP4", "NVFP4", "Q8_1"}).Draw(t, "type")
			in.DType, in.Foreign = tensor.Opaque, foreign(name)
			row, elem = in.Foreign.BlockElems, in.Foreign.BlockBytes
		} else {
			in.DType = rapid.SampledFrom(numericTypes).Draw(t, "dtype")
			elem = int64(in.DType.Bits() / 8)
		}
		least := 0
		if row > 1 {
			least = 1
		}
		in.Shape = rapid.SliceOfN(rapid.Int64Range(0, 3), least, 4).Draw(t, "shape")
		size := in.Elements() * elem
		if len(in.Shape) > 0 {
			in.Shape[len(in.Shape)-1] *= row
		}
		data := make([]byte, size)
		rand.New(rand.NewPCG(uint64(i), 1)).Uint64()
		for k := range data {
			data[k] = byte(k*7 + i)
		}
		m.add(in, data)
	}
	return m
}

func noNUL(s string) bool { return !strings.Contains(s, "\x00") }

func foreign(name string) tensor.Foreign {
	t, ok := gguf.TypeByName(name)
	if !ok {
		panic(name)
	}
	return t
}

// drawMeta draws metadata of every kind.
func drawMeta(t *rapid.T) (meta tensor.Metadata) {
	keys := rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringN(1, 12, 40), rapid.SampledFrom([]string{"general.architecture", "safetensors.format", "gguf.x", "safetensors.gguf.x", "\xff"})),
		0, 8, rapid.ID).Draw(t, "keys")
	for _, key := range keys {
		meta = append(meta, tensor.Entry{Key: key, Value: drawValue(t)})
	}
	return meta
}

func drawValue(t *rapid.T) any {
	kind := tensor.Kind(rapid.IntRange(0, 12).Draw(t, "kind"))
	if kind != tensor.KindArray {
		return drawScalar(t, kind)
	}
	elem := tensor.Kind(rapid.IntRange(0, 12).Filter(func(k int) bool { return tensor.Kind(k) != tensor.KindArray }).Draw(t, "elem"))
	if elem == tensor.KindString {
		return gguf.Strings(rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Just("\xc3\x28")), 0, 5).Draw(t, "strings")...)
	}
	n := rapid.IntRange(0, 80).Draw(t, "len")
	return tensor.Array{Elem: elem, Len: n, Raw: rapid.SliceOfN(rapid.Byte(), n*elem.Size(), n*elem.Size()).Draw(t, "raw")}
}

func drawScalar(t *rapid.T, kind tensor.Kind) any {
	n := rapid.Uint64().Draw(t, "bits")
	switch kind {
	case tensor.KindString:
		return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\xff\xfe", "u32:1", "string:a"})).Draw(t, "string")
	case tensor.KindF32:
		return math.Float32frombits(uint32(n))
	case tensor.KindF64:
		return math.Float64frombits(n)
	case tensor.KindBool:
		return n%2 == 1
	case tensor.KindU8:
		return uint8(n)
	case tensor.KindI8:
		return int8(n)
	case tensor.KindU16:
		return uint16(n)
	case tensor.KindI16:
		return int16(n)
	case tensor.KindU32:
		return uint32(n)
	case tensor.KindI32:
		return int32(n)
	case tensor.KindU64:
		return n
	}
	return int64(n)
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		o := &gguf.WriteOptions{Align: rapid.SampledFrom([]int64{0, 32, 64, 4096}).Draw(t, "align")}
		step := rapid.SampledFrom([]int{3, 64, 1 << 20}).Draw(t, "step")
		meta := m.meta
		if o.Align > 32 {
			meta = append(meta[:len(meta):len(meta)], tensor.Entry{Key: "general.alignment", Value: uint32(o.Align)})
		}
		name := filepath.Join(dir, "a.gguf")
		require.NoError(t, m.write(gguf.Create(name, o), step))
		f, err := gguf.Open(name, nil)
		require.NoError(t, err)
		defer f.Close()
		require.Empty(t, f.Warnings())
		requireModel(t, m, meta, f)

		var stream bytes.Buffer
		require.NoError(t, m.write(gguf.NewWriter(&stream, o), step))
		whole, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole, stream.Bytes()), "a stream has the same bytes")

		layout, err := gguf.Plan(m.infos, m.meta, o)
		require.NoError(t, err)
		require.Equal(t, int64(len(whole)), layout.Size)
		for i := range m.infos {
			_, at := f.Place(i)
			require.Equal(t, layout.Offset(i), at)
			require.Zero(t, at%max(o.Align, 32))
		}
	})
}

// small is a model of two tensors.
func small() *model {
	m := &model{meta: tensor.Metadata{{Key: "general.architecture", Value: "llama"}}}
	m.add(tensor.Info{Name: "a", DType: tensor.F32, Shape: []int64{2, 5}}, bytes.Repeat([]byte{1, 2, 3, 4}, 10))
	m.add(tensor.Info{Name: "b", DType: tensor.I8, Shape: []int64{7}}, []byte("1234567"))
	return m
}

// TestBytes compares a file with one made by hand.
func TestBytes(t *testing.T) {
	want := newMaker(2, 1).key("general.architecture", tensor.KindString).str("llama").
		info("a", 0, 0, 5, 2).info("b", 24, 64, 7).pad(32).
		raw(bytes.Repeat([]byte{1, 2, 3, 4}, 10)...).pad(32).raw([]byte("1234567")...).pad(32)
	var got bytes.Buffer
	require.NoError(t, small().write(gguf.NewWriter(&got, nil), 100))
	require.Equal(t, string(want.b), got.String())
}

// TestAlignmentKey checks that the key says what the padding is.
func TestAlignmentKey(t *testing.T) {
	for _, c := range []struct{ had, asked, want any }{
		{nil, int64(0), nil}, {nil, int64(32), nil}, {nil, int64(64), uint32(64)},
		{uint32(64), int64(0), uint32(32)}, {uint32(64), int64(128), uint32(128)}, {"odd", int64(32), uint32(32)},
	} {
		m := small()
		if c.had != nil {
			m.meta = append(tensor.Metadata{{Key: "general.alignment", Value: c.had}}, m.meta...)
		}
		var out bytes.Buffer
		require.NoError(t, m.write(gguf.NewWriter(&out, &gguf.WriteOptions{Align: c.asked.(int64)}), 100))
		f, err := open(out.Bytes(), nil)
		require.NoError(t, err)
		got, _ := f.Meta().Get("general.alignment")
		require.Equal(t, c.want, got)
		require.Equal(t, max(c.asked.(int64), 32), f.Header().Alignment)
		require.Equal(t, c.had != nil, f.Meta()[0].Key == "general.alignment", "the key stays where it was")
	}
	for _, bad := range []int64{-1, 1, 8, 16, 48, 1 << 21} {
		_, err := gguf.Plan(nil, nil, &gguf.WriteOptions{Align: bad})
		require.ErrorContains(t, err, fmt.Sprintf("alignment %d, want a power of two", bad))
	}
	layout, err := gguf.Plan(nil, nil, &gguf.WriteOptions{Align: 64})
	require.NoError(t, err)
	require.Contains(t, layout.Warnings[0], "llama-quantize")
}

// TestRefusals checks that everything GGUF cannot hold is listed, and that
// nothing is written.
func TestRefusals(t *testing.T) {
	typed := func(name string, d tensor.DType, size int64, shape ...int64) tensor.Info {
		return tensor.Info{Name: name, DType: d, Shape: shape, Size: size}
	}
	infos := []tensor.Info{
		typed("bool", tensor.Bool, 1, 1), typed("u8", tensor.U8, 1, 1), typed("u16", tensor.U16, 2, 1),
		typed("u32", tensor.U32, 4, 1), typed("u64", tensor.U64, 8, 1), typed("fp8", tensor.F8E4M3, 1, 1),
		typed("c64", tensor.C64, 8, 1), typed("f4", tensor.F4, 1, 2),
		typed("rank", tensor.F32, 4, 1, 1, 1, 1, 1),
		typed(strings.Repeat("long", 16), tensor.F32, 4, 1), typed("nul\x00", tensor.F32, 4, 1),
		typed("twice", tensor.F32, 4, 1), typed("twice", tensor.F32, 4, 1),
		typed("size", tensor.F32, 5, 1),
		{Name: "foreign", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "F4_X"}, Shape: []int64{1}, Size: 4},
		{Name: "geometry", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q8_0", ID: 8, BlockElems: 16, BlockBytes: 34}, Shape: []int64{32}, Size: 68},
		{Name: "blocks", DType: tensor.Opaque, Foreign: foreign("Q8_0"), Shape: []int64{4, 16}, Size: 68},
	}
	meta := tensor.Metadata{{Key: "", Value: "x"}, {Key: "k", Value: 1}, {Key: "k", Value: uint8(1)},
		{Key: "short", Value: tensor.Array{Elem: tensor.KindU32, Len: 2, Raw: make([]byte, 7)}},
		{Key: "nested", Value: tensor.Array{Elem: tensor.KindArray}},
		{Key: "cut", Value: tensor.Array{Elem: tensor.KindString, Len: 1, Raw: []byte{2, 0, 0, 0, 0, 0, 0, 0, 'a'}}},
		{Key: "more", Value: tensor.Array{Elem: tensor.KindString, Len: 0, Raw: []byte{0}}},
	}
	want := []string{"no type for BOOL", "U8", "U16", "U32", "U64", "F8_E4M3", "C64", "F4", "5 dimensions", "name has 64 bytes", "NUL", `"twice": not supported: name comes twice`,
		"size is 5 bytes", "F4_X", "no type Q8_0 with number 8 and 34 bytes for 16", "not whole blocks", "0 bytes, GGUF holds", "Go type int", `key "k" comes twice`, `"short": invalid`, "array of array", "within string 0", "1 bytes more"}
	dir := t.TempDir()
	var out bytes.Buffer
	for _, sink := range []tensor.Sink{gguf.Create(filepath.Join(dir, "a.gguf"), nil), gguf.NewWriter(&out, nil), gguf.CreateSet(filepath.Join(dir, "a"), 10, nil)} {
		err := sink.Begin(infos, meta)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		for _, text := range want {
			require.ErrorContains(t, err, text)
		}
		sink.Abort()
	}
	require.Zero(t, out.Len())
	require.Empty(t, entries(t, dir))
}

func entries(t testing.TB, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestSinks: every kind of sink counts bytes and calls, as internal/rawsink
// tests; here that errors name what they are about, and that Abort leaves
// nothing.
func TestSinks(t *testing.T) {
	dir := t.TempDir()
	lacking := small()
	lacking.data[1] = lacking.data[1][:6]
	file, set := filepath.Join(dir, "a.gguf"), filepath.Join(dir, "m")
	for place, sink := range map[string]tensor.Sink{
		file + ": ":                      gguf.Create(file, nil),
		gguf.ShardName(set, 2, 2) + ": ": gguf.CreateSet(set, 8, nil),
		"":                               gguf.NewWriter(io.Discard, nil),
	} {
		require.Equal(t, place == "", sink.Ordered())
		require.EqualError(t, sink.Finish(nil), "gguf: not begun, or ended")
		require.EqualError(t, lacking.write(sink, 100), place+`tensor "b": byte 6 of 7 has not been written`)
		require.EqualError(t, sink.Begin(lacking.infos, nil), "gguf: Begin was called before")
		sink.Abort()
		require.Empty(t, entries(t, dir))
	}
}

func TestFileType(t *testing.T) {
	for name, want := range map[string]uint32{"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_K": 15, "Q5_K": 17, "Q3_K": 12, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38, "Q5_0": 8} {
		got, ok := gguf.FileType(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"F64", "I8", "Q8_K", "Q4_2", "BOOL", ""} {
		_, ok := gguf.FileType(name)
		require.False(t, ok, name)
	}
	require.Equal(t, "F32", gguf.MajorityType(small().infos))
	require.Equal(t, "", gguf.MajorityType(nil))
	require.Equal(t, "BF16", gguf.MajorityType([]tensor.Info{{DType: tensor.F32, Shape: []int64{9}}, {DType: tensor.BF16, Shape: []int64{10}}, {DType: tensor.I64, Shape: []int64{100}}}))
}

func TestOrder(t *testing.T) {
	require.Equal(t, []int{0, 1}, gguf.Order(small().infos, nil))
}
