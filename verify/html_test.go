package verify_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

var update = flag.Bool("update", false, "write the golden files")

// hostile are names that try to be more than a text.
var hostile = []string{
	`</script><script>alert(1)</script>`, `<!--<script>`, `"><img src=x onerror=alert(1)>`, `' onclick='alert(1)`, "nul\x00nul", "line\u2028and\u2029paragraph",
	"\u202egnp.exe", "tab\tnew\nline\r", `\u003c`, "{{.}}", "&lt;&amp;", strings.Repeat("very.long.", 400), "", " ", "é.1.weight", "\xff\xfe not UTF-8", "😀.2.😀", "]]>",
}

// page is a report with something of everything.
func page() *verify.Page {
	stats := func(count int64, err2 float64) *tensor.Stats {
		return &tensor.Stats{Count: count, Finite: count, Changed: count, SumErr2: err2, SumRef2: float64(count), SumRefEr: err2 / 4, ULPAway: -1000, MaxAbs: 0.0009765625, MaxIndex: 1, MaxRef: 1.0009765625, MaxGot: 1}
	}
	record := func(name, to string, s *tensor.Stats) tensor.Record {
		return tensor.Record{Name: name, From: "F32", To: to, Reason: "target type", Shape: []int64{2, s.Count / 2}, SizeIn: 4 * s.Count, SizeOut: 2 * s.Count, Rounding: "nearest-even", Stats: s}
	}
	over, same := stats(8, 1e9), &tensor.Stats{Count: 4, Finite: 4, SumRef2: 4, MaxIndex: -1}
	over.Overflowed, over.InfOut, over.Finite = 2, 2, 6
	records := []tensor.Record{
		record("model.embed_tokens.weight", "BF16", stats(1000, 2e-3)), record("model.layers.0.self_attn.q_proj.weight", "F16", stats(100, 4e-6)),
		record("model.layers.0.mlp.up_proj.weight", "BF16", over), record("model.layers.10.mlp.up_proj.weight", "BF16", stats(50, 5e-3)),
		record("model.layers.2.input_layernorm.weight", "BF16", same),
		{Name: "position_ids", From: "I64", To: "I64", Reason: "not a float", SizeIn: 64, SizeOut: 64},
	}
	rel := 0.00390625
	d := &verify.Details{MaxRel: &rel, DistinctRef: 100, DistinctGot: 25, DistinctOf: 128, Saturated: 1, Top: 7, TopK: 8}
	for k := 97; k < 147; k++ {
		if n := int64(k-97) * int64(k-97) % 17; n > 0 {
			d.Exponents = append(d.Exponents, verify.ExpCount{Exponent: k - 127, Count: n})
		}
	}
	return &verify.Page{
		Title: "a.safetensors → b.safetensors", Kind: "comparison", Facts: []verify.Fact{{Label: "written by", Value: "demi"}}, Records: records,
		Problems: []verify.Problem{{Tensor: "gone", Text: "missing"}}, Warnings: []string{"a.safetensors has 3 trailing bytes"}, Details: []*verify.Details{d, d, nil, {}, nil, nil},
	}
}

func render(t testing.TB, p *verify.Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, verify.WriteHTML(&b, p))
	return b.String()
}

// dataOf returns the JSON in a page.
func dataOf(t testing.TB, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, `<script type="application/json" id="data">`)
	require.True(t, ok)
	data, _, ok := strings.Cut(rest, "</script>")
	require.True(t, ok)
	return data
}

type sheet struct {
	Title   string
	Rows    int
	Shared  []int
	Name    []string
	Columns map[string]json.RawMessage
}

func sheets(t testing.TB, text string) map[string]sheet {
	t.Helper()
	var d struct{ Sheets []sheet }
	require.NoError(t, json.Unmarshal([]byte(dataOf(t, text)), &d))
	m := map[string]sheet{}
	for _, s := range d.Sheets {
		m[s.Title] = s
	}
	return m
}

// names returns the names of a sheet as the script puts them together.
func (s sheet) names() (list []string) {
	before := ""
	for i, n := range s.Shared {
		before = before[:n] + s.Name[i]
		list = append(list, before)
	}
	return list
}

// TestHTMLGolden compares a page with one that was looked at in a browser; the
// style and the script, which are files of their own, are left out.
func TestHTMLGolden(t *testing.T) {
	text := render(t, page())
	require.Equal(t, text, render(t, page()), "the same page, the same bytes")
	for _, cut := range []string{`(?s)<style>.*</style>`, `(?s)<script>.*</script>`, `sha256-.*?&#39;`} {
		text = regexp.MustCompile(cut).ReplaceAllString(text, "…")
	}
	const golden = "testdata/page.golden.html"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o666))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), text)
}

// TestHTMLPolicy: what the page allows is its own script and style, by their
// hashes, and nothing else; it names no other place.
func TestHTMLPolicy(t *testing.T) {
	text := render(t, page())
	m := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindStringSubmatch(text)
	require.NotNil(t, m)
	hash := func(tag string) string {
		_, rest, _ := strings.Cut(text, "<"+tag+">")
		body, _, _ := strings.Cut(rest, "</"+tag+">")
		sum := sha256.Sum256([]byte(body))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	require.Equal(t, fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'", hash("script"), hash("style")), html.UnescapeString(m[1]))
	require.NotRegexp(t, `(?i)https?://|//[a-z]+\.|@import|url\(|\bstyle="|\bon[a-z]+="|javascript:|\bfetch\(|XMLHttpRequest|innerHTML|\beval\(`, text)
}

// TestHTMLNames: every name comes back from the data, and is a text everywhere.
func TestHTMLNames(t *testing.T) {
	var records []tensor.Record
	for _, name := range hostile {
		r := measured(name, 3, 1e-3)
		r.Reason, r.From = name, name
		records = append(records, r)
	}
	checkNames(t, hostile, render(t, &verify.Page{
		Title: hostile[0], Kind: hostile[2], Records: records, Warnings: hostile, Facts: []verify.Fact{{Label: hostile[0], Value: hostile[1]}},
		Problems: []verify.Problem{{Tensor: hostile[0], Text: hostile[1]}},
	}))
}

func checkNames(t testing.TB, names []string, text string) {
	t.Helper()
	want := make([]string, len(names))
	for i, n := range names {
		want[i] = strings.ToValidUTF8(n, "\uFFFD")
	}
	require.Equal(t, want, sheets(t, text)["tensors"].names())
	lower := strings.ToLower(text)
	require.Equal(t, 2, strings.Count(lower, "<script"))
	require.Equal(t, 2, strings.Count(lower, "</script"))
	require.NotContains(t, lower, "<img")
	require.NotContains(t, lower, "<!--")
	require.NotContains(t, text, "\x00")
	require.NotRegexp(t, "[\u202a-\u202e\u2066-\u2069\u2028\u2029]", text)
}

// FuzzHTMLNames: whatever names are, they come back from the data, and neither
// the data nor the chart has a tag or a hidden character that is theirs. All
// else in a page is escaped by html/template.
func FuzzHTMLNames(f *testing.F) {
	for i, name := range hostile {
		f.Add(name[:min(len(name), 100)], hostile[(i+1)%len(hostile)])
	}
	tags := regexp.MustCompile(`</?(svg|line|text|rect|title|a)[ >/]`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 500 || !utf8.ValidString(a) || !utf8.ValidString(b) { // a page makes texts UTF-8 first
			return
		}
		want := []string{a, b, a + b}
		var records []tensor.Record
		for i, name := range want {
			records = append(records, measured(name, int64(i), float64(i)))
		}
		data, chart := verify.OwnHTML(records)
		var d struct{ Sheets []sheet }
		require.NoError(t, json.Unmarshal([]byte(data), &d))
		require.Equal(t, want, d.Sheets[0].names())
		require.NotContains(t, data, "<")
		require.NotContains(t, tags.ReplaceAllString(chart, ""), "<")
		for _, r := range strings.ReplaceAll(data+chart, "\n", "") {
			require.True(t, unicode.IsPrint(r), "%U", r)
		}
	})
}

// TestHTMLData: figures are those of the records.
func TestHTMLData(t *testing.T) {
	s := sheets(t, render(t, page()))
	require.Equal(t, 6, s["tensors"].Rows)
	require.Equal(t, []string{"model.layers.0", "model.layers.2", "model.layers.10", verify.OutsideLayers}, s["layers"].names())
	c := s["tensors"].Columns
	require.JSONEq(t, `[1000,100,8,50,4,1]`, string(c["values"]))
	require.JSONEq(t, `[1000,100,8,50,0,null]`, string(c["changed"]))
	require.JSONEq(t, `[0,0,2,0,0,null]`, string(c["overflow"]))
	require.JSONEq(t, `{"texts":["fine","bad","poor","exact",null],"at":[0,0,1,2,3,4]}`, string(c["grade"]))
	require.JSONEq(t, `[1.0009766,1.0009766,1.0009766,1.0009766,null,null]`, string(c["before"]))
	var snr []*float64
	require.NoError(t, json.Unmarshal(c["snr"], &snr))
	require.InDelta(t, 10*math.Log10(1000/2e-3), *snr[0], 1e-3)
	require.Nil(t, snr[4], "nothing differs")
	require.NotContains(t, c, "tensors")
	require.JSONEq(t, `[0.00390625,0.00390625,null,null,null,null]`, string(c["maxrel"]))
	require.JSONEq(t, `[0.25,0.25,null,null,null,null]`, string(c["distinct"]))
	require.JSONEq(t, `{"texts":["7 of 8",null],"at":[0,0,1,1,1,1]}`, string(c["top"]))
	require.NotContains(t, s["layers"].Columns, "maxrel")
	require.JSONEq(t, `{"texts":["model.layers.0.self_attn.q_proj.weight",null,"model.layers.10.mlp.up_proj.weight","model.embed_tokens.weight"],"at":[0,1,2,3]}`, string(s["layers"].Columns["worstin"]))
}

// TestHTMLExponents: the chart counts what is beyond the ranges of F16.
func TestHTMLExponents(t *testing.T) {
	d := &verify.Details{Exponents: []verify.ExpCount{{-25, 1}, {-24, 2}, {-14, 4}, {15, 8}, {16, 16}, {128, 32}}}
	text := html.UnescapeString(render(t, &verify.Page{Records: []tensor.Record{measured("w", 1, 1e-6)}, Details: []*verify.Details{d}}))
	require.Contains(t, text, "Of 63 finite values other than zero, F16 holds 12 (19.05 %) as normal numbers and 2 (3.17 %) as subnormal ones")
	require.Contains(t, text, "1 (1.59 %) are below its smallest number and 48 (76.19 %) above its range. BF16 has 32 (50.79 %) above its range.")
	require.Contains(t, text, "<title>2^15 to 2^16: 8 values, a normal number in F16</title>")
	require.NotContains(t, render(t, &verify.Page{Details: []*verify.Details{nil}}), "Exponents of the values")
}

// TestHTMLVerdict: the first sentence says the worst that is there.
func TestHTMLVerdict(t *testing.T) {
	lean := measured("w", 1, 1e-6)
	lean.Stats.Finite, lean.Stats.Count, lean.Stats.ULPAway = 20_000, 20_000, -20_000<<15
	over := measured("w", 1, 1e-9)
	over.Stats.Overflowed = 3
	for want, p := range map[string]verify.Page{
		`exact" id="verdict">No values were rounded`:                              {Records: []tensor.Record{{Name: "i", From: "I8", To: "I8"}}},
		`exact" id="verdict">Nothing was lost: all 10 values`:                     {Records: []tensor.Record{measured("w", 0, 0)}},
		`fine" id="verdict">Values were rounded, and nothing worse`:               {Records: []tensor.Record{measured("w", 1, 1e-6)}},
		`poor" id="verdict">1 tensor lost more than rounding to nearest`:          {Records: []tensor.Record{measured("w", 1, 1e-2), measured("v", 1, 1e-6)}},
		`poor" id="verdict">1 tensor lost more than rounding to nearest ta`:       {Records: []tensor.Record{lean}},
		`bad" id="verdict">1 tensor lost more than rounding takes: 3 overflowed.`: {Records: []tensor.Record{over}},
		`bad" id="verdict">2 problems: `:                                          {Problems: make([]verify.Problem, 2)},
	} {
		require.Contains(t, render(t, &p), want)
	}
	text := render(t, &verify.Page{Problems: make([]verify.Problem, 150)})
	require.Contains(t, text, "<li>and 50 more</li>")
	require.NotContains(t, text, "<svg", "nothing was measured")
}

// TestHTMLLarge: 100,000 tensors take few bytes each, and charts do not grow.
func TestHTMLLarge(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n /= 10
	}
	var records []tensor.Record
	for i := range n {
		r := measured(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i*1000/n, i%100), 5, float64(i%977)*1e-6+1e-7)
		records = append(records, r)
	}
	text := render(t, &verify.Page{Records: records})
	t.Logf("%d bytes", len(text))
	require.Less(t, len(text), 120*n)
	require.Equal(t, n, sheets(t, text)["tensors"].Rows)
	require.LessOrEqual(t, strings.Count(text, `class="bar `), 160)
	require.Contains(t, text, "(the worst from model.layers.0 to model.layers.6)")
}
