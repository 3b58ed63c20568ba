package gguf_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

func TestMetadataText(t *testing.T) {
	numbers := tensor.Array{Elem: tensor.KindI16, Len: 3, Raw: []byte{1, 0, 0xFF, 0xFF, 0, 0x80}}
	long := tensor.Array{Elem: tensor.KindU8, Len: 65, Raw: make([]byte, 65)}
	for _, c := range []struct {
		key   string
		value any
		wantK string
		wantV string
	}{
		{"general.architecture", "llama", "gguf.general.architecture", "string:llama"},
		{"general.alignment", uint32(32), "gguf.general.alignment", "u32:32"},
		{"k", int8(-1), "gguf.k", "i8:-1"},
		{"k", uint64(math.MaxUint64), "gguf.k", "u64:18446744073709551615"},
		{"k", int64(math.MinInt64), "gguf.k", "i64:-9223372036854775808"},
		{"k", true, "gguf.k", "bool:true"},
		{"k", float32(1e-5), "gguf.k", "f32:1e-05"},
		{"k", math.Copysign(0, -1), "gguf.k", "f64:-0"},
		{"k", math.Inf(-1), "gguf.k", "f64:-Inf"},
		{"k", math.Float32frombits(0x7FC00001), "gguf.k", "f32;base64:AQDAfw=="},
		{"k", "\xff", "gguf.k", "string;base64:/w=="},
		{"k", numbers, "gguf.k", "[i16;3]:[1,-1,-32768]"},
		{"k", gguf.Strings("a", "<b>", "\x00"), "gguf.k", `[string;3]:["a","<b>","\u0000"]`},
		{"k", gguf.Strings(), "gguf.k", `[string;0]:[]`},
		{"k", gguf.Strings("\xff"), "gguf.k", "[string;1];base64:AQAAAAAAAAD/"},
		{"k", tensor.Array{Elem: tensor.KindBool, Len: 2, Raw: []byte{1, 2}}, "gguf.k", "[bool;2];base64:AQI="},
		{"k", long, "gguf.k", "[u8;65];base64:" + strings.Repeat("AAAA", 21) + "AAA="},
		{"\xff", uint8(1), "gguf-base64._w", "u8:1"},
		{"safetensors.format", "pt", "format", "pt"},
		{"safetensors.gguf.k", "pt", "gguf.safetensors.gguf.k", "string:pt"},
		{"safetensors.format", uint8(1), "gguf.safetensors.format", "u8:1"},
	} {
		meta := tensor.Metadata{{Key: c.key, Value: c.value}}
		got, err := gguf.MetadataToStrings(meta)
		require.NoError(t, err)
		require.Equal(t, tensor.Metadata{{Key: c.wantK, Value: c.wantV}}, got)
		back, err := gguf.StringsToMetadata(got)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(normal(meta), normal(back)))
	}
}

// TestPlainStrings checks strings that no GGUF has made.
func TestPlainStrings(t *testing.T) {
	plain := tensor.Metadata{{Key: "format", Value: "pt"}, {Key: "", Value: ""}, {Key: "safetensors.x", Value: "u32:1"}, {Key: "lm_head.weight", Value: "embed.weight"}}
	typed, err := gguf.StringsToMetadata(plain)
	require.NoError(t, err)
	require.Equal(t, "safetensors.format", typed[0].Key)
	back, err := gguf.MetadataToStrings(typed)
	require.NoError(t, err)
	require.Equal(t, plain, back)
	for _, text := range []string{"", "u32", "u32:", "u32:01", "u32:-1", "u32:4294967296", "u33:1", "bool:1", "f32:1.0", "f32:1e999", "f32;base64:AA==", "u32;base64:!", "string;base64:YQ==",
		"array:1", "[u32;2]:[1]", "[u32;1]:[01]", "[u32;1]:1", "[u32]:[1]", "[u32;-1]:[]", "[array;1]:[1]", `[string;1]:["a", "b"]`, `[string;1]: ["a"]`, "[u32;1];base64:AAAA", "[u32;1];base64:AAAAAA==", "[string;2];base64:AAAA"} {
		got, err := gguf.StringsToMetadata(tensor.Metadata{{Key: "gguf.k", Value: text}})
		require.NoError(t, err)
		require.Equal(t, tensor.Metadata{{Key: "safetensors.gguf.k", Value: text}}, got)
	}
	_, err = gguf.StringsToMetadata(tensor.Metadata{{Key: "gguf.safetensors.gguf.k", Value: "string:x"}, {Key: "gguf.k", Value: "x"}})
	require.ErrorContains(t, err, "as another key does")
	_, err = gguf.StringsToMetadata(tensor.Metadata{{Key: "k", Value: 1}})
	require.ErrorContains(t, err, "Go type int")
	_, err = gguf.MetadataToStrings(tensor.Metadata{{Key: "k", Value: 1}})
	require.ErrorContains(t, err, "Go type int")
}

// TestMetadataRoundTrip: GGUF to strings, sorted as safetensors sorts them, to
// GGUF.
func TestMetadataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meta := drawMeta(t)
		text, err := gguf.MetadataToStrings(meta)
		require.NoError(t, err)
		for _, e := range text {
			require.True(t, utf8.ValidString(e.Key) && utf8.ValidString(e.Value.(string)))
		}
		typed := slices.ContainsFunc(text, func(e tensor.Entry) bool { return strings.HasPrefix(e.Key, "gguf") })
		if typed {
			slices.SortFunc(text, func(a, b tensor.Entry) int { return strings.Compare(a.Key, b.Key) })
		}
		back, err := gguf.StringsToMetadata(text)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(normal(meta), normal(back)))
	})
}

// TestStringsRoundTrip: safetensors to GGUF to safetensors.
func TestStringsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text tensor.Metadata
		for _, key := range rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "keys") {
			if !strings.HasPrefix(key, "gguf") {
				text = append(text, tensor.Entry{Key: key, Value: rapid.String().Draw(t, "value")})
			}
		}
		meta, err := gguf.StringsToMetadata(text)
		require.NoError(t, err)
		_, err = gguf.Plan(nil, meta, nil)
		require.NoError(t, err)
		back, err := gguf.MetadataToStrings(meta)
		require.NoError(t, err)
		require.Equal(t, len(text), len(back))
		for i := range text {
			require.Equal(t, text[i], back[i])
		}
	})
}

// TestOrderKey: the key "gguf" is an order only if all keys that it lists are
// there; else it is text like any other.
func TestOrderKey(t *testing.T) {
	strings := func(order string) tensor.Metadata {
		return tensor.Metadata{{Key: "gguf", Value: order}, {Key: "gguf.a", Value: "u8:1"}, {Key: "gguf.b", Value: "u8:2"}, {Key: "x", Value: "y"}}
	}
	for order, want := range map[string]string{
		`["gguf.b","gguf.a"]`:          "b a safetensors.x",
		`["x","gguf.b"]`:               "safetensors.x b a",
		`["gguf.b","gguf.c","gguf.a"]`: "safetensors.gguf a b safetensors.x",
		`["gguf"]`:                     "safetensors.gguf a b safetensors.x",
		`[]`:                           "safetensors.gguf a b safetensors.x",
		`[ "gguf.b" ]`:                 "safetensors.gguf a b safetensors.x",
		`text`:                         "safetensors.gguf a b safetensors.x",
	} {
		meta, err := gguf.StringsToMetadata(strings(order))
		require.NoError(t, err)
		var keys string
		for _, e := range meta {
			keys += " " + e.Key
		}
		require.Equal(t, " "+want, keys, order)
	}
}
