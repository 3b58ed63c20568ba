package tensor_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/tensor"
)

// everyKind has a value of each kind, in the order of the kinds.
var everyKind = []any{uint8(200), int8(-100), uint16(60000), int16(-30000), uint32(4e9), int32(-2e9), float32(1.5), true, "text", tensor.Array{},
	uint64(1 << 63), int64(-1 << 62), -0.25}

func TestKinds(t *testing.T) {
	names := []string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"}
	sizes := []int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
	require.Len(t, everyKind, len(names))
	for i, v := range everyKind {
		k, ok := tensor.KindOf(v)
		require.True(t, ok)
		require.Equal(t, tensor.Kind(i), k)
		require.Equal(t, names[i], k.String())
		require.Equal(t, sizes[i], k.Size())
	}
	for _, v := range []any{nil, 1, uint(1), []string{}, struct{}{}, []byte{}} {
		_, ok := tensor.KindOf(v)
		require.False(t, ok, "%T", v)
	}
	require.Equal(t, "kind 13", tensor.Kind(13).String())
	require.Zero(t, tensor.Kind(13).Size())
}

func TestGet(t *testing.T) {
	m := tensor.Metadata{{Key: "a", Value: "x"}, {Key: "n", Value: uint32(1)}, {Key: "", Value: ""}}
	v, ok := m.Get("n")
	require.True(t, ok)
	require.Equal(t, uint32(1), v)
	_, ok = m.Get("b")
	require.False(t, ok)
	s, ok := m.Text("a")
	require.True(t, ok)
	require.Equal(t, "x", s)
	for _, key := range []string{"n", "b"} {
		_, ok = m.Text(key)
		require.False(t, ok, key)
	}
	_, ok = m.Text("")
	require.True(t, ok)
}

// TestArrayAt: the elements of an array are what was encoded.
func TestArrayAt(t *testing.T) {
	for _, v := range everyKind {
		k, _ := tensor.KindOf(v)
		if k.Size() == 0 {
			continue
		}
		raw, err := binary.Append(make([]byte, k.Size()), binary.LittleEndian, v)
		require.NoError(t, err)
		a := tensor.Array{Elem: k, Len: 2, Raw: raw}
		require.Equal(t, v, a.At(1), k)
		require.NotEqual(t, v, a.At(0), k)
		require.Nil(t, a.Strings())
		require.Panics(t, func() { a.At(2) })
	}
	require.Nil(t, tensor.Array{Elem: tensor.KindString, Len: 1, Raw: make([]byte, 8)}.At(0))
}

func TestArrayStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.String()).Draw(t, "strings")
		a := tensor.Array{Elem: tensor.KindString, Len: len(want)}
		for _, s := range want {
			a.Raw = append(binary.LittleEndian.AppendUint64(a.Raw, uint64(len(s))), s...)
		}
		require.Equal(t, append([]string{}, want...), a.Strings())
	})
	cut := tensor.Array{Elem: tensor.KindString, Len: 2, Raw: []byte("\x01\x00\x00\x00\x00\x00\x00\x00a\xff\xff\xff\xff\xff\xff\xff\xffb")}
	require.Equal(t, []string{"a"}, cut.Strings(), "what is not whole is left out")
}
