package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

func info(name string, d tensor.DType, shape ...int64) tensor.Info {
	n, err := tensor.Elements(shape)
	if err != nil {
		panic(err)
	}
	size, err := tensor.ByteSize(d, n)
	if err != nil {
		panic(err)
	}
	return tensor.Info{Name: name, DType: d, Shape: append([]int64{}, shape...), Size: size}
}

// memory is a Source in memory.
type memory struct {
	infos []tensor.Info
	data  map[string]string
	meta  tensor.Metadata
}

// drawMemory draws a checkpoint of small tensors of every type.
func drawMemory(t *rapid.T) *memory {
	m := &memory{data: make(map[string]string)}
	name := rapid.OneOf(rapid.StringN(0, 8, 30), rapid.StringMatching(`[a-c](\.[0-9]{1,2})?`))
	names := rapid.SliceOfNDistinct(name.Filter(func(s string) bool { return s != "__metadata__" }), 0, 8, rapid.ID[string]).Draw(t, "names")
	for _, name := range names {
		d := rapid.SampledFrom(allTypes()).Draw(t, "type")
		shape := rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "shape")
		if d.Bits() < 8 {
			shape = append(shape, 8)
		}
		in := info(name, d, shape...)
		m.infos = append(m.infos, in)
		m.data[name] = string(rapid.SliceOfN(rapid.Byte(), int(in.Size), int(in.Size)).Draw(t, "data"))
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.StringN(0, 6, 20), 0, 4, rapid.ID[string]).Draw(t, "keys") {
		m.meta = append(m.meta, tensor.Entry{Key: key, Value: rapid.StringN(0, 6, 20).Draw(t, "value")})
	}
	return m
}

func allTypes() (types []tensor.DType) {
	for d := tensor.U64; d < tensor.Opaque; d++ {
		types = append(types, d)
	}
	return types
}

// ordered returns the tensors of m in the order that the format likes.
func (m *memory) ordered(o *safetensors.WriteOptions) []tensor.Info {
	infos := make([]tensor.Info, len(m.infos))
	for to, from := range safetensors.Order(m.infos, o) {
		infos[to] = m.infos[from]
	}
	return infos
}

// into writes m into a sink.
func (m *memory) into(t require.TestingT, infos []tensor.Info, sink tensor.Sink) {
	require.NoError(t, sink.Begin(infos, m.meta))
	for i, in := range infos {
		require.NoError(t, sink.Write(i, 0, []byte(m.data[in.Name])))
	}
	require.NoError(t, sink.Finish(nil))
}

func drawWrite(t *rapid.T) *safetensors.WriteOptions {
	return &safetensors.WriteOptions{Canonical: rapid.Bool().Draw(t, "canonical"), NoFormat: rapid.Bool().Draw(t, "no format")}
}

// TestRoundTrip: what is written is read again: names, types, shapes, bytes,
// metadata sorted by key; and both sinks write the same.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m, o := drawMemory(t), drawWrite(t)
		infos := m.ordered(o)
		var out bytes.Buffer
		m.into(t, infos, safetensors.NewWriter(&out, o))
		name := filepath.Join(dir, "a.safetensors")
		m.into(t, infos, safetensors.Create(name, o))
		stored, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, out.Bytes(), stored, "the same bytes from both sinks")

		f, err := open(stored, nil)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(infos, f.Tensors()))
		require.Empty(t, cmp.Diff(m.data, content(t, f)))
		requireMeta(t, m.meta, f.Meta(), o)
		layout, err := safetensors.Plan(infos, m.meta, o)
		require.NoError(t, err)
		require.Equal(t, int64(len(stored)), layout.Size)
		for i := range infos {
			_, off := f.Place(i)
			require.Equal(t, layout.Offset(i), off)
		}
	})
}

func requireMeta(t require.TestingT, want, got tensor.Metadata, o *safetensors.WriteOptions) {
	for _, e := range want {
		v, ok := got.Text(e.Key)
		require.True(t, ok)
		require.Equal(t, e.Value, v)
	}
	n := len(want)
	if _, has := want.Get("format"); !has && !o.NoFormat {
		n++
		v, _ := got.Text("format")
		require.Equal(t, "pt", v)
	}
	require.Len(t, got, n)
	for i := 1; i < n; i++ {
		require.Less(t, got[i-1].Key, got[i].Key)
	}
}

// TestAlignment: the data begins on a cache line, every tensor of whole cache
// lines too, and each tensor is aligned to its type.
func TestAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, o := drawMemory(t), drawWrite(t)
		infos := m.ordered(o)
		l, err := safetensors.Plan(infos, m.meta, o)
		require.NoError(t, err)
		if o.Canonical {
			require.Zero(t, len(l.Header)%8)
		} else {
			require.Zero(t, len(l.Header)%64)
		}
		first := true // of those that are not whole cache lines
		for i, in := range infos {
			if width := int64(in.DType.Bits() / 8); width > 1 {
				require.Zero(t, l.Offset(i)%width, in.Name)
			}
			if !o.Canonical && (in.Size%64 == 0 || first) {
				require.Zero(t, l.Offset(i)%64, in.Name)
				first = first && in.Size%64 == 0
			}
		}
	})
}

// TestOrder: both orders, spelled out.
func TestOrder(t *testing.T) {
	infos := []tensor.Info{
		info("b8", tensor.U8, 64), info("bias", tensor.F32, 3), info("w", tensor.F32, 16), info("a", tensor.F32, 16),
		info("n", tensor.I64), info("odd", tensor.U8, 3), info("half", tensor.F16, 5), info("brain", tensor.BF16, 32), info("B", tensor.F32, 3),
	}
	names := func(o *safetensors.WriteOptions) (out []string) {
		for _, i := range safetensors.Order(infos, o) {
			out = append(out, infos[i].Name)
		}
		return out
	}
	require.Equal(t, []string{"n", "B", "a", "bias", "w", "brain", "half", "b8", "odd"}, names(&safetensors.WriteOptions{Canonical: true}))
	require.Equal(t, []string{"a", "w", "brain", "b8", "n", "B", "bias", "half", "odd"}, names(nil))
}

// TestHeaderText: the JSON text to the letter, as the reference writes it.
func TestHeaderText(t *testing.T) {
	meta := tensor.Metadata{{Key: "z", Value: "\u2028\u2029<&>é權😀"}, {Key: "a", Value: "\x00\x01\b\t\n\f\r\x1f\x7f\"\\/"}}
	infos := []tensor.Info{info("w", tensor.F32, 2, 0), info("s", tensor.BF16), info("f", tensor.F8E4M3, 3)}
	want := `{"__metadata__":{"a":"\u0000\u0001\b\t\n\f\r\u001f` + "\x7f" + `\"\\/","z":"` + "\u2028\u2029<&>é權😀" + `"},` +
		`"w":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]},"s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},` +
		`"f":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[2,5]}}`
	l, err := safetensors.Plan(infos, meta, &safetensors.WriteOptions{Canonical: true, NoFormat: true})
	require.NoError(t, err)
	require.Equal(t, want, strings.TrimRight(string(l.Header[8:]), " "))
	require.Equal(t, uint64(len(l.Header)-8), binary.LittleEndian.Uint64(l.Header))
	require.Less(t, len(l.Header)-8-len(want), 8)

	l, err = safetensors.Plan(nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "8\x00\x00\x00\x00\x00\x00\x00"+`{"__metadata__":{"format":"pt"}}`+strings.Repeat(" ", 24), string(l.Header))
	l, err = safetensors.Plan(nil, nil, &safetensors.WriteOptions{Canonical: true, NoFormat: true})
	require.NoError(t, err)
	require.Equal(t, "\x08\x00\x00\x00\x00\x00\x00\x00{}      ", string(l.Header), "as the reference writes no tensors")
}

// TestRefusals: all that the format cannot hold, in one error.
func TestRefusals(t *testing.T) {
	bad := []tensor.Info{
		info("ok", tensor.F32, 1), info("dup", tensor.F32, 1), info("dup", tensor.F32, 2), info("__metadata__", tensor.F32, 1),
		info("\xff", tensor.F32, 1),
		{Name: "size", DType: tensor.F32, Shape: []int64{2}, Size: 4},
		{Name: "negative", DType: tensor.F32, Shape: []int64{-1}},
		{Name: "half byte", DType: tensor.F4, Shape: []int64{3}, Size: 2},
		{Name: "quantised", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q4_K", ID: 12, BlockElems: 256, BlockBytes: 144}, Shape: []int64{256}, Size: 144},
		{Name: "unknown", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "F6_E9M9"}, Shape: []int64{8}, Size: 6},
		{Name: "known", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "F32"}, Shape: []int64{1}, Size: 9},
		{Name: "invalid"},
	}
	meta := tensor.Metadata{{Key: "n", Value: uint32(1)}, {Key: "l", Value: tensor.Array{Elem: tensor.KindU8}}, {Key: "k", Value: "1"}, {Key: "k", Value: "2"}, {Key: "v", Value: "\xff"}, {Key: "x", Value: struct{}{}}}
	wants := []string{
		`tensor "dup": not supported: duplicate tensor name "dup"`, `tensor "__metadata__": not supported: the name is reserved`,
		`tensor "\xff": not supported: the name is not UTF-8`, `tensor "size": invalid file: size is 4 bytes, F32 of shape [2] takes 8`,
		`tensor "negative": `, `tensor "half byte": `, `tensor "quantised": not supported: safetensors cannot hold elements of type Q4_K`,
		`tensor "unknown": not supported: element type "F6_E9M9" is not known`, `tensor "known": not supported`, `tensor "invalid": `,
		`metadata "n" is of type u32`, `metadata "l" is of type array`, `metadata key "k" comes twice`, `metadata "v" is not UTF-8`, `metadata "x" is of an unknown type`,
	}
	dir := t.TempDir()
	var out bytes.Buffer
	for _, begin := range []func() error{
		func() error { _, err := safetensors.Plan(bad, meta, nil); return err },
		func() error { return safetensors.NewWriter(&out, nil).Begin(bad, meta) },
		func() error { return safetensors.Create(filepath.Join(dir, "a.safetensors"), nil).Begin(bad, meta) },
		func() error { return safetensors.CreateSet(dir, "model", 4, nil).Begin(bad, meta) },
	} {
		err := begin()
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		for _, want := range wants {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, len(wants), strings.Count(err.Error(), "\n")+1, "%v", err)
	}
	require.Zero(t, out.Len(), "nothing is written")
	require.Empty(t, entries(t, dir))
}

func entries(t require.TestingT, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestForeignComesBack: a type that only a lenient reader took is written
// under its name with Lenient; a type of another container is not.
func TestForeignComesBack(t *testing.T) {
	raw := one("F6_E9M9", "8", "0,6", 6)
	f, err := open(raw, &safetensors.Options{Lenient: true})
	require.NoError(t, err)
	require.Equal(t, tensor.Opaque, f.Tensors()[0].DType)
	out := written(t, f, &safetensors.WriteOptions{Lenient: true, NoFormat: true, Canonical: true})
	again, err := open(out, &safetensors.Options{Lenient: true})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(f.Tensors(), again.Tensors()))
	require.Equal(t, content(t, f), content(t, again))

	_, err = safetensors.Plan(f.Tensors(), nil, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	ggml := []tensor.Info{{Name: "q", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "T99", ID: 99}, Shape: []int64{4}, Size: 4}}
	_, err = safetensors.Plan(ggml, nil, &safetensors.WriteOptions{Lenient: true})
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestHeaderLimit: a header of more than 100,000,000 bytes is refused, also
// where only the padding is too much. A smaller limit shows the same in less
// time.
func TestHeaderLimit(t *testing.T) {
	for _, limit := range []int{64_000, safetensors.MaxHeader} { // multiples of 64
		if testing.Short() && limit == safetensors.MaxHeader {
			continue
		}
		testHeaderLimit(t, limit)
	}
}

func testHeaderLimit(t *testing.T, limit int) {
	fixed := len(`{"__metadata__":{"k":""},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`)
	plan := func(n int) (*safetensors.Layout, error) {
		meta := tensor.Metadata{{Key: "k", Value: strings.Repeat("x", n-fixed)}}
		return safetensors.PlanWithin(limit, []tensor.Info{info("a", tensor.U8, 0)}, meta, &safetensors.WriteOptions{NoFormat: true})
	}
	most := limit - 8 // 8 + length is a multiple of 64
	l, err := plan(most)
	require.NoError(t, err)
	require.Len(t, l.Header, limit)
	f, err := safetensors.NewFile(bytes.NewReader(l.Header), l.Size, &safetensors.Options{MaxHeader: int64(most)})
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 1)
	_, err = plan(most + 1)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, fmt.Sprintf("header has %d bytes, at most %d can be read", limit+56, limit))
}

// TestSinks: every kind of sink counts bytes and calls, as internal/rawsink
// tests; here that errors name what they are about, and that Abort leaves
// nothing.
func TestSinks(t *testing.T) {
	dir := t.TempDir()
	infos := []tensor.Info{info("a", tensor.U8, 2), info("b", tensor.U8, 2)}
	var out bytes.Buffer
	for _, c := range []struct {
		sink tensor.Sink
		file string
	}{
		{safetensors.Create(filepath.Join(dir, "a.safetensors"), nil), filepath.Join(dir, "a.safetensors") + ": "},
		{safetensors.CreateSet(dir, "m", 2, nil), filepath.Join(dir, safetensors.ShardName("m", 2, 2)) + ": "},
		{safetensors.NewWriter(&out, nil), ""},
	} {
		require.Equal(t, c.file == "", c.sink.Ordered())
		require.EqualError(t, c.sink.Finish(nil), "safetensors: not begun, or ended")
		require.NoError(t, c.sink.Begin(infos, nil))
		require.EqualError(t, c.sink.Begin(infos, nil), "safetensors: Begin was called before")
		require.NoError(t, c.sink.Write(0, 0, []byte("ab")))
		require.Error(t, c.sink.Write(0, 1, []byte("b")), "it has come before")
		require.NoError(t, c.sink.Write(1, 0, []byte("c")))
		require.EqualError(t, c.sink.Finish(nil), c.file+`tensor "b": byte 1 of 2 has not been written`)
		c.sink.Abort()
		require.Empty(t, entries(t, dir))
	}
}
