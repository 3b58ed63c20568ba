package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// unescape is what a reader of the documents does, by docs/cli.md.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b []byte
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, `\\`):
			b, s = append(b, '\\'), s[2:]
		case strings.HasPrefix(s, `\x`):
			d := strings.Index("0123456789abcdef", s[2:3])*16 + strings.Index("0123456789abcdef", s[3:4])
			b, s = append(b, byte(d)), s[4:]
		default:
			b, s = append(b, s[0]), s[1:]
		}
	}
	return string(b)
}

// Any name comes back from a document, also one that is not UTF-8.
func TestNamesSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{`\`, "x", "\xff", "ff", "é", "\x00", `"`, "\xc3", "�", "w"})
		name := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "name"), "")
		var b bytes.Buffer
		require.NoError(t, encodeJSON(&b, []verify.Problem{{Tensor: name}}))
		var got []verify.Problem
		require.NoError(t, json.Unmarshal(b.Bytes(), &got))
		require.Equal(t, name, unescape(got[0].Tensor))
	})
}

// A spreadsheet must not take a name for a formula, and the name comes back.
func TestNamesAreNoFormulas(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "w": "w", "a=b": "a=b", `\`: `\`, "=1": `\x3d1`, "+1": `\x2b1`, "-1": `\x2d1`, "@a": `\x40a`, "\t=1": `\x09=1`, "\r": `\x0d`,
		`=\`: `\x3d\\`, `=\x3d`: `\x3d\\x3d`, "=\xff": `\x3d\xff`, `\x3d`: `\\x3d`,
	} {
		require.Equal(t, want, csvName(name))
		require.Equal(t, name, unescape(want))
	}
}

// Lists without elements are lists, and what has no finite value is null.
func TestDocumentHasNoNullLists(t *testing.T) {
	var b bytes.Buffer
	record := tensor.Record{Name: "w", Stats: &tensor.Stats{MaxIndex: -1}}
	require.NoError(t, encodeJSON(&b, document{Summary: verify.Summarize(nil), Tensors: verify.Rows([]tensor.Record{record})}))
	for _, want := range []string{`"inputs": []`, `"outputs": []`, `"types": []`, `"shape": []`, `"snr_db": null`} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), `"seed"`)
	require.NotContains(t, b.String(), `"verified"`)
	b.Reset()
	require.NoError(t, encodeJSON(&b, inspection{}))
	require.NotContains(t, strings.ReplaceAll(b.String(), `"aligned_bytes": {}`, ""), "null")
	require.Equal(t, byte('\n'), b.Bytes()[b.Len()-1])
}

func TestTablesFitTheTerminal(t *testing.T) {
	in := &inspection{Tensors: []inspectedTensor{{Name: "model.layers.0.self_attn.q_proj.weight", Type: "F32"}, {Name: "é", Type: "BF16"}}}
	whole := fitTo(layoutTable(in, 0), 0)
	require.Contains(t, whole, "model.layers.0.self_attn.q_proj.weight  F32")
	require.Equal(t, whole, fitTo(layoutTable(in, 200), 200))
	narrow := fitTo(layoutTable(in, 60), 60)
	require.LessOrEqual(t, longest(narrow), 60)
	require.Contains(t, narrow, "…")
	require.Contains(t, narrow, "q_proj.weight")
	require.Contains(t, fitTo(layoutTable(in, 3), 3), "…", "a name keeps some of it")
	require.Equal(t, strings.Count(whole, "\n"), strings.Count(narrow, "\n"))
}
