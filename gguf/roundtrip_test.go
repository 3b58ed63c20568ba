package gguf_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// transfer writes all of src into sink, in an order, with other metadata.
func transfer(t require.TestingT, src tensor.Source, order []int, meta tensor.Metadata, sink tensor.Sink) error {
	infos := make([]tensor.Info, len(order))
	for to, from := range order {
		infos[to] = src.Tensors()[from]
	}
	if err := sink.Begin(infos, meta); err != nil {
		return err
	}
	for to, from := range order {
		p := make([]byte, infos[to].Size)
		_, err := io.ReadFull(io.NewSectionReader(src.Data(from), 0, infos[to].Size), p)
		require.NoError(t, err)
		require.NoError(t, sink.Write(to, 0, p))
	}
	return sink.Finish(nil)
}

// toGGUF writes a safetensors source as GGUF.
func toGGUF(t require.TestingT, src tensor.Source, o *gguf.WriteOptions) ([]byte, error) {
	meta, err := gguf.StringsToMetadata(src.Meta())
	require.NoError(t, err)
	var out bytes.Buffer
	err = transfer(t, src, gguf.Order(src.Tensors(), o), meta, gguf.NewWriter(&out, o))
	return out.Bytes(), err
}

// toSafetensors writes a GGUF source as safetensors.
func toSafetensors(t require.TestingT, src tensor.Source, o *safetensors.WriteOptions) ([]byte, error) {
	meta, err := gguf.MetadataToStrings(src.Meta())
	require.NoError(t, err)
	var out bytes.Buffer
	err = transfer(t, src, safetensors.Order(src.Tensors(), o), meta, safetensors.NewWriter(&out, o))
	return out.Bytes(), err
}

func openSafetensors(t require.TestingT, p []byte) *safetensors.File {
	f, err := safetensors.NewFile(bytes.NewReader(p), int64(len(p)), nil)
	require.NoError(t, err)
	return f
}

// canonical is for a file that is the same bytes each time.
var canonical = &safetensors.WriteOptions{Canonical: true, NoFormat: true}

// drawSafetensors draws a safetensors file: all types, up to 6 dimensions,
// names up to 70 bytes, any metadata.
func drawSafetensors(t *rapid.T) []byte {
	name := rapid.OneOf(rapid.StringN(0, 10, 40), rapid.StringMatching(`[a-z.]{60,70}`))
	names := rapid.SliceOfNDistinct(name.Filter(func(s string) bool { return s != "__metadata__" }), 0, 6, rapid.ID[string]).Draw(t, "names")
	m := &model{}
	for _, name := range names {
		d := tensor.DType(rapid.IntRange(int(tensor.U64), int(tensor.Bool)).Draw(t, "type"))
		if rapid.Bool().Draw(t, "one that GGUF has") {
			d = rapid.SampledFrom([]tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I8, tensor.I16, tensor.I32, tensor.I64}).Draw(t, "type")
		}
		shape := append(rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 5).Draw(t, "shape"), 8)
		in := tensor.Info{Name: name, DType: d, Shape: shape}
		size := int(in.Elements()) * d.Bits() / 8
		m.add(in, rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data"))
	}
	key := rapid.OneOf(rapid.StringN(0, 8, 20), rapid.SampledFrom([]string{"gguf", "gguf.a", "gguf.general.name", "format", "general.alignment", "safetensors.x"}))
	for _, key := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID[string]).Draw(t, "keys") {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"u32:32", "string:x", `["a"]`, "pt"})).Draw(t, "value")
		m.meta = append(m.meta, tensor.Entry{Key: key, Value: value})
	}
	sorted := &model{meta: m.meta}
	for _, i := range safetensors.Order(m.infos, canonical) {
		sorted.add(m.infos[i], m.data[i])
	}
	var out bytes.Buffer
	require.NoError(t, sorted.write(safetensors.NewWriter(&out, canonical), 1000))
	return out.Bytes()
}

// unfit lists the tensors that GGUF cannot hold, once for each reason.
func unfit(infos []tensor.Info) (names []string) {
	for _, in := range infos {
		switch in.DType {
		case tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		default:
			names = append(names, in.Name)
		}
		if len(in.Name) >= 64 {
			names = append(names, in.Name)
		}
		if len(in.Shape) > 4 {
			names = append(names, in.Name)
		}
		if strings.Contains(in.Name, "\x00") {
			names = append(names, in.Name)
		}
	}
	return names
}

// TestThroughGGUF: a safetensors file becomes GGUF and itself again, byte for
// byte; or GGUF cannot hold it, and all reasons are listed before a byte is
// written.
func TestThroughGGUF(t *testing.T) {
	dir, held := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		want := drawSafetensors(t)
		src := openSafetensors(t, want)
		o := &gguf.WriteOptions{Align: rapid.SampledFrom([]int64{0, 32, 64}).Draw(t, "align")}
		raw, err := toGGUF(t, src, o)
		if bad := unfit(src.Tensors()); len(bad) > 0 {
			require.ErrorIs(t, err, tensor.ErrUnsupported)
			require.Empty(t, raw)
			require.Equal(t, len(bad), strings.Count(err.Error(), "\n")+1, "%v", err)
			for _, name := range bad {
				require.True(t, name == "" || strings.Contains(err.Error(), fmt.Sprintf("tensor %q: ", name)), "%v", err)
			}
			for _, sink := range []tensor.Sink{gguf.Create(filepath.Join(dir, "a.gguf"), o), gguf.CreateSet(filepath.Join(dir, "s"), 10, o)} {
				require.Error(t, sink.Begin(src.Tensors(), nil))
			}
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
			return
		}
		require.NoError(t, err)
		held++
		mid, err := open(raw, nil)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(src.Tensors(), mid.Tensors(), cmpopts.EquateEmpty()), "shapes are row-major in both")
		got, err := toSafetensors(t, withoutAlignment{mid}, canonical)
		require.NoError(t, err)
		if slices.ContainsFunc(src.Meta(), func(e tensor.Entry) bool { return strings.HasPrefix(e.Key, "gguf.") || e.Key == "gguf" }) {
			requireSameMeta(t, mid, got) // what MetadataToStrings did not make gets another key
			return
		}
		require.True(t, bytes.Equal(want, got))
	})
	require.Positive(t, held)
}

// requireSameMeta: nothing of the metadata of mid is lost in a safetensors
// file.
func requireSameMeta(t require.TestingT, mid *gguf.File, got []byte) {
	meta, err := gguf.StringsToMetadata(openSafetensors(t, got).Meta())
	require.NoError(t, err)
	require.Equal(t, normal(withoutAlignment{mid}.Meta()), normal(meta))
}

// withoutAlignment leaves out the key that speaks of the file and not of the
// model.
type withoutAlignment struct{ *gguf.File }

func (w withoutAlignment) Meta() tensor.Metadata {
	return slices.DeleteFunc(slices.Clone(w.File.Meta()), func(e tensor.Entry) bool { return e.Key == "general.alignment" })
}

// TestThroughSafetensors: a GGUF file without block-quantised tensors becomes
// safetensors and itself again, byte for byte: order and types of its keys
// too. The order of the tensors is that of safetensors, if it was not so
// before.
func TestThroughSafetensors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		var out bytes.Buffer
		require.NoError(t, m.write(gguf.NewWriter(&out, nil), 1000))
		src, err := open(out.Bytes(), nil)
		require.NoError(t, err)
		_, hasFormat := src.Meta().Get("safetensors.format")
		raw, err := toSafetensors(t, src, &safetensors.WriteOptions{NoFormat: hasFormat})
		var opaque []string
		for _, in := range src.Tensors() {
			if in.DType == tensor.Opaque {
				opaque = append(opaque, in.Name)
			}
		}
		if len(opaque) > 0 {
			require.ErrorIs(t, err, tensor.ErrUnsupported)
			require.Empty(t, raw)
			for _, name := range opaque {
				require.ErrorContains(t, err, fmt.Sprintf("tensor %q: ", name))
			}
			return
		}
		if slices.ContainsFunc(src.Tensors(), func(in tensor.Info) bool {
			return strings.ToValidUTF8(in.Name, "") != in.Name || in.Name == "__metadata__"
		}) {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		mid := openSafetensors(t, raw)
		meta, err := gguf.StringsToMetadata(mid.Meta())
		require.NoError(t, err)
		added := slices.IndexFunc(meta, func(e tensor.Entry) bool { return e.Key == "safetensors.format" })
		require.GreaterOrEqual(t, added, 0, "format: pt was added")
		if !hasFormat {
			meta = slices.Delete(meta, added, added+1)
		}
		require.Equal(t, normal(src.Meta()), normal(meta))
		require.Equal(t, bytesOf(t, src), bytesOf(t, mid))
	})
}

func bytesOf(t require.TestingT, src tensor.Source) map[string]string {
	all := make(map[string]string)
	for i, in := range src.Tensors() {
		p := make([]byte, in.Size)
		_, err := io.ReadFull(io.NewSectionReader(src.Data(i), 0, in.Size), p)
		require.NoError(t, err)
		all[fmt.Sprint(in.Name, in.DType, in.Shape)] = string(p)
	}
	return all
}

// TestCharlmThroughGGUF: the trained checkpoint, whole, in shards, and its
// GGUF with its vocabulary, there and back again.
func TestCharlmThroughGGUF(t *testing.T) {
	want, err := os.ReadFile("../testdata/charlm/model.safetensors")
	require.NoError(t, err)
	raw, err := toGGUF(t, openSafetensors(t, want), nil)
	require.NoError(t, err)
	mid, err := open(raw, nil)
	require.NoError(t, err)
	got, err := toSafetensors(t, mid, canonical)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))

	set, err := safetensors.OpenSet("../testdata/charlm/sharded", nil)
	require.NoError(t, err)
	defer set.Close()
	prefix := filepath.Join(t.TempDir(), "model")
	meta, err := gguf.StringsToMetadata(set.Meta())
	require.NoError(t, err)
	require.NoError(t, transfer(t, set, gguf.Order(set.Tensors(), nil), meta, gguf.CreateSet(prefix, 500_000, nil)))
	split, err := gguf.OpenSet(filepath.Dir(prefix), nil)
	require.NoError(t, err)
	defer split.Close()
	require.Greater(t, len(split.Files()), 3)
	require.Equal(t, bytesOf(t, set), bytesOf(t, split))

	want, err = os.ReadFile("../testdata/charlm/model.gguf")
	require.NoError(t, err)
	src, err := open(want, nil)
	require.NoError(t, err)
	raw, err = toSafetensors(t, src, canonical)
	require.NoError(t, err)
	back := openSafetensors(t, raw)
	meta, err = gguf.StringsToMetadata(back.Meta())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, transfer(t, back, sameOrder(src.Tensors(), back.Tensors()), meta, gguf.NewWriter(&out, nil)))
	require.True(t, bytes.Equal(want, out.Bytes()), "with its tensors in their old order it is the old file")
}

// sameOrder returns the indexes in b of the tensors of a.
func sameOrder(a, b []tensor.Info) (order []int) {
	for _, in := range a {
		order = append(order, slices.IndexFunc(b, func(other tensor.Info) bool { return other.Name == in.Name }))
	}
	return order
}

// TestNotHeld: one tensor for each thing that GGUF has no place for.
func TestNotHeld(t *testing.T) {
	var infos []tensor.Info
	add := func(name string, d tensor.DType, shape ...int64) {
		in := tensor.Info{Name: name, DType: d, Shape: shape}
		in.Size = in.Elements() * int64(d.Bits()) / 8
		infos = append(infos, in)
	}
	wants := []string{`tensor "deep": not supported: shape [1 1 1 1 1] has 5 dimensions`, `not supported: name has 64 bytes`, `tensor "\x00": not supported: name has a NUL`}
	for d := tensor.U64; d <= tensor.Bool; d++ {
		add(d.String(), d, 8)
		switch d {
		case tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		default:
			wants = append(wants, fmt.Sprintf("tensor %q: not supported: GGUF has no type for %v", d.String(), d))
		}
	}
	add("deep", tensor.F32, 1, 1, 1, 1, 1)
	add(strings.Repeat("n", 64), tensor.F32)
	add(strings.Repeat("m", 63), tensor.F32)
	add("\x00", tensor.F32)
	_, err := gguf.Plan(infos, nil, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	for _, want := range wants {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, len(wants), strings.Count(err.Error(), "\n")+1, "%v", err)
}
