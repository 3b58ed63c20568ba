package safetensors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/safetensors"
)

// TestIndexText: to the letter what Python's json.dumps(indent=2,
// sort_keys=True) makes, and a newline.
func TestIndexText(t *testing.T) {
	x := &safetensors.Index{
		Meta:  []safetensors.IndexEntry{{"total_size", "1"}, {"tied", `"a"`}, {"more", `{"l":[1,2.50],"e":{}}`}},
		Files: map[string]string{"w\u00e9\u6b0a\U0001f600\"\\\x7f\n": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors"},
	}
	got, err := x.AppendJSON([]byte("x"), 1234)
	require.NoError(t, err)
	require.Equal(t, `x{
  "metadata": {
    "total_size": 1234,
    "tied": "a",
    "more": {
      "l": [
        1,
        2.50
      ],
      "e": {}
    }
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "w\u00e9\u6b0a\ud83d\ude00\"\\\u007f\n": "model-00002-of-00002.safetensors"
  }
}
`, string(got))
	empty, err := (&safetensors.Index{}).AppendJSON(nil, 0)
	require.NoError(t, err)
	require.Equal(t, "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n", string(empty))
}

// TestIndexRoundTrip: any names come back.
func TestIndexRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.MapOf(rapid.StringN(0, 8, 30), rapid.SampledFrom([]string{"a.safetensors", "b.safetensors"})).Draw(t, "files")
		text, err := (&safetensors.Index{Files: files}).AppendJSON(nil, 7)
		require.NoError(t, err)
		x, err := safetensors.ParseIndex(text)
		require.NoError(t, err)
		require.Equal(t, files, x.Files)
		again, err := x.AppendJSON(nil, 7)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
	})
}

func TestParseIndex(t *testing.T) {
	x, err := safetensors.ParseIndex([]byte(` {"weight_map":{"\u0061":"m.safetensors"},"x":[{}],"metadata":{"a": null , "total_size" : 12,"b":{"c":[1]}}}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "m.safetensors"}, x.Files)
	require.Equal(t, []safetensors.IndexEntry{{"a", "null"}, {"total_size", "12"}, {"b", `{"c":[1]}`}}, x.Meta)
	require.Equal(t, []string{"m.safetensors"}, x.Names())
	n, ok := x.TotalSize()
	require.True(t, ok)
	require.EqualValues(t, 12, n)
	for text, want := range map[string]bool{`{}`: false, `{"total_size":1.5}`: false, `{"total_size":"1"}`: false, `null`: false, `{"total_size":0}`: true} {
		x, err := safetensors.ParseIndex([]byte(`{"metadata":` + text + `,"weight_map":{}}`))
		require.NoError(t, err, text)
		_, ok := x.TotalSize()
		require.Equal(t, want, ok, text)
	}
}

func TestParseIndexRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "JSON ends too early",
		`{`:                                 "JSON ends too early",
		`[]`:                                "index is an array, want an object",
		`{}`:                                "weight_map is missing",
		`{"weight_map":null}`:               "weight_map is null, want an object",
		`{"weight_map":[]}`:                 "weight_map is an array",
		`{"weight_map":{"a":1}}`:            `file of "a" is a number, want a string`,
		`{"weight_map":{}}{}`:               "2 bytes after the JSON object",
		`{"weight_map":{},"weight_map":{}}`: `duplicate field "weight_map"`,
		`{"weight_map":{"a":"b.safetensors","\u0061":"c.safetensors"}}`:                     `duplicate field "a"`,
		`{"weight_map":{"\ud800":"b.safetensors"}}`:                                         "surrogate",
		`{"metadata":[],"weight_map":{}}`:                                                   "metadata is an array",
		`{"metadata":{"x":1e999},"weight_map":{}}`:                                          "does not fit a float",
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"weight_map":{}}`: "nested deeper",
	} {
		_, err := safetensors.ParseIndex([]byte(text))
		require.Equal(t, "format", class(err), "%s: %v", text, err)
		require.ErrorContains(t, err, want, text)
	}
}

// TestIndexFileNames: only plain names of safetensors files are taken; those of
// internal/shardset, and some more that are no files.
func TestIndexFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"m.safetensors": "ok", "..safetensors": "ok", ".safetensors": "ok",
		"../m.safetensors": "format", "nul.safetensors": "format", "": "format", ".": "format", "..": "format",
		"m.bin": "unsupported",
	} {
		text, err := (&safetensors.Index{Files: map[string]string{"w": name}}).AppendJSON(nil, 0)
		require.NoError(t, err)
		_, err = safetensors.ParseIndex(text)
		require.Equal(t, want, class(err), "%q: %v", name, err)
		if err != nil {
			require.ErrorContains(t, err, `weight_map: tensor "w"`)
		}
	}
}

// TestIndexOfReference: an index that another tool wrote is written again to
// the letter.
func TestIndexOfReference(t *testing.T) {
	name := filepath.Join("../testdata/charlm/sharded", ix)
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	x, err := safetensors.ParseIndex(want)
	require.NoError(t, err)
	total, ok := x.TotalSize()
	require.True(t, ok)
	got, err := x.AppendJSON(nil, total)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
