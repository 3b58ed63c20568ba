package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/demi-weights/demi/tensor"
)

// A field is one figure of a line in the tables of a page. Its cell is a token
// of JSON; null where there is no such figure.
type field struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Help  string `json:"help"`
	Kind  string `json:"kind"`  // how the script writes it: text, count, share (of values), ratio, figure, decibel, signed, exact, bytes
	Worst string `json:"worst"` // up or down: the end of the scale that is the first to look at
	Shown string `json:"shown"` // where: always, never (only with the details of a line), some (if not all are zero)
	cell  func(l *line) string
}

// fields are those of tensors and of groups; a field that is null in all lines
// of a table is left out of it.
var fields = []field{
	{"grade", "grade", "exact: every value comes back to the bit; fine; poor: an SNR below 50 dB, or errors that lean to one side; bad: values beyond the range, NaN lost or made, or an SNR below 20 dB", "text", "up", "never", stat(func(s *tensor.Stats) string { return quote(string(gradeOf(s))) })},
	{"type", "type", "element type before and after", "text", "up", "always", func(l *line) string { return orNull(l.kind) }},
	{"snr", "SNR dB", "signal-to-noise ratio: 10 log10 of the sum of x² over the sum of (y−x)². Rounding to nearest gives about 73 for F16 and 56 for BF16", "decibel", "up", "always", estimate(func(s *tensor.Stats) float64 { return s.SNR() })},
	{"rmse", "RMS error", "root of the mean of (y−x)²", "figure", "down", "always", estimate(func(s *tensor.Stats) float64 { return s.RMSE() })},
	{"max", "max error", "largest |y−x|", "figure", "down", "always", estimate(func(s *tensor.Stats) float64 { return s.MaxAbs })},
	{"bias", "bias ULP", "mean of (y−x) in units of the last place, positive away from zero: about 0 for rounding to nearest, about −0.5 for truncation", "signed", "up", "always", estimate(func(s *tensor.Stats) float64 { return s.BiasAway() })},
	{"changed", "changed", "values whose bits do not come back when they are widened again", "share", "down", "always", integer(func(s *tensor.Stats) int64 { return s.Changed })},
	{"overflow", "overflow", "finite values that round beyond the largest finite one", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.Overflowed })},
	{"zero", "to zero", "values that were not zero and are now", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.Flushed })},
	{"subnormal", "subnormal", "values that were normal in their type and are subnormal now", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.Subnormal })},
	{"nanchanged", "NaN lost", "NaN that became numbers, and numbers that became NaN", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.NaNLost + s.NaNMade })},
	{"nan", "NaN", "NaN after", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.NaNOut })},
	{"inf", "Inf", "infinities after", "count", "down", "some", integer(func(s *tensor.Stats) int64 { return s.InfOut })},
	{"lean", "errors lean", "to which side the errors of many values lean: toward zero, as truncation does, away from zero, up, down", "text", "down", "some", stat(func(s *tensor.Stats) string { return orNull(Biased(s)) })},
	{"saturated", "saturated", "values beyond the range that became the largest finite one", "count", "down", "some", detailed(func(d *Details) string { return strconv.FormatInt(d.Saturated, 10) })},
	{"maxrel", "max relative", "largest |y−x|/|x|", "figure", "down", "always", detailed(func(d *Details) string { return pointerToken(d.MaxRel) })},
	{"distinct", "distinct", "share of the distinct values that are still distinct, among the elements that were looked at", "ratio", "up", "always", detailed(func(d *Details) string {
		if d.DistinctRef == 0 {
			return null
		}
		return estimateToken(float64(d.DistinctGot) / float64(d.DistinctRef))
	})},
	{"tensors", "tensors", "how many", "count", "down", "always", func(l *line) string {
		if l.record != nil {
			return null
		}
		return strconv.Itoa(l.tensors)
	}},
	{"shape", "shape", "slowest dimension first", "text", "up", "always", ofRecord(func(r *tensor.Record) string { return shapeText(r.Shape) })},
	{"values", "values", "elements; of a group, those that were measured", "count", "down", "always", func(l *line) string { return strconv.FormatInt(l.values, 10) }},
	{"in", "bytes in", "stored bytes before", "bytes", "down", "never", func(l *line) string { return strconv.FormatInt(l.in, 10) }},
	{"out", "bytes out", "stored bytes after", "bytes", "down", "always", func(l *line) string { return strconv.FormatInt(l.out, 10) }},
	{"at", "worst at", "index of the first element that has the largest error", "count", "down", "never", worstOnly(func(s *tensor.Stats) string { return strconv.FormatInt(s.MaxIndex, 10) })},
	{"before", "it was", "its value before", "exact", "down", "never", worstOnly(func(s *tensor.Stats) string { return exactToken(s.MaxRef) })},
	{"after", "it became", "its value after", "exact", "down", "never", worstOnly(func(s *tensor.Stats) string { return exactToken(s.MaxGot) })},
	{"worstin", "worst in", "the tensor that has the largest error", "text", "up", "never", func(l *line) string {
		if l.record != nil {
			return null
		}
		return orNull(l.largest)
	}},
	{"cosine", "cosine", "of the angle between the values before and after", "exact", "up", "never", estimate(func(s *tensor.Stats) float64 { return s.Cosine() })},
	{"biasup", "bias up", "as bias, positive toward +∞", "signed", "up", "never", estimate(func(s *tensor.Stats) float64 { return s.BiasUp() })},
	{"reason", "reason", "the rule that chose the type", "text", "up", "never", ofRecord(func(r *tensor.Record) string { return r.Reason })},
	{"distinctbefore", "distinct before", "distinct values among the elements that were looked at, before", "count", "down", "never", detailed(func(d *Details) string { return strconv.FormatInt(d.DistinctRef, 10) })},
	{"distinctafter", "distinct after", "distinct values among the same elements, after", "count", "down", "never", detailed(func(d *Details) string { return strconv.FormatInt(d.DistinctGot, 10) })},
	{"top", "largest kept", "how many of the largest elements of a vector are among the largest after", "text", "up", "never", detailed(func(d *Details) string {
		if d.TopK == 0 {
			return null
		}
		return quote(fmt.Sprintf("%d of %d", d.Top, d.TopK))
	})},
	{"rounding", "rounding", "", "text", "up", "never", ofRecord(func(r *tensor.Record) string { return r.Rounding })},
	{"layer", "layer", "the name up to its first number", "text", "up", "never", ofRecord(func(r *tensor.Record) string { return LayerOf(r.Name) })},
	{"part", "part", "part of the model, by the name", "text", "up", "never", func(l *line) string { return orNull(l.part) }},
}

const null = "null"

// quote returns a text as JSON that is harmless within a script element: with
// <, >, & and all that cannot be seen escaped.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON text
	}
	if bytes.IndexFunc(text, hidden) < 0 {
		return string(text)
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}

func orNull(s string) string {
	if s == "" {
		return null
	}
	return quote(s)
}

func stat(f func(s *tensor.Stats) string) func(l *line) string {
	return func(l *line) string {
		if l.stats == nil {
			return null
		}
		return f(l.stats)
	}
}

func integer(f func(s *tensor.Stats) int64) func(l *line) string {
	return stat(func(s *tensor.Stats) string { return strconv.FormatInt(f(s), 10) })
}

// estimate is for figures that are estimates of something: six digits are enough.
func estimate(f func(s *tensor.Stats) float64) func(l *line) string {
	return stat(func(s *tensor.Stats) string { return estimateToken(f(s)) })
}

func estimateToken(x float64) string {
	if finite(x) == nil {
		return null
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

func pointerToken(x *float64) string {
	if x == nil {
		return null
	}
	return estimateToken(*x)
}

func detailed(f func(d *Details) string) func(l *line) string {
	return func(l *line) string {
		if l.detail == nil {
			return null
		}
		return f(l.detail)
	}
}

// worstOnly is for what is said of the element with the largest error.
func worstOnly(f func(s *tensor.Stats) string) func(l *line) string {
	return stat(func(s *tensor.Stats) string {
		if s.MaxIndex < 0 {
			return null
		}
		return f(s)
	})
}

func exactToken(f float64) string {
	if finite(f) == nil {
		return null
	}
	return Exact(f)
}

func ofRecord(f func(r *tensor.Record) string) func(l *line) string {
	return func(l *line) string {
		if l.record == nil {
			return null
		}
		return orNull(f(l.record))
	}
}

func shapeText(shape []int64) string {
	if len(shape) == 0 {
		return "scalar"
	}
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = strconv.FormatInt(d, 10)
	}
	return strings.Join(dims, " × ")
}

// encodeSheets returns the data of the tables of a page as JSON:
//
//	{"fields": [field, …], "sheets": [sheet, …]}
//
// A sheet has a title, a number of rows, names, and columns by the keys of
// fields. Names are cut where they begin like the name before: shared has the
// number of characters to take from it, name the rest. A column is a list of
// figures, {"texts": […], "at": […]} with texts told once, or, if all its rows
// are the same, that one figure.
func encodeSheets(records []tensor.Record, details []*Details) string {
	var b strings.Builder
	head, err := json.Marshal(fields)
	if err != nil {
		panic(err) // texts alone
	}
	b.WriteString(`{"fields":` + string(head) + `,"sheets":[`)
	lines, partOf := recordLines(records), partOf()
	for i := range lines {
		lines[i].part = partOf(lines[i].name)
		if i < len(details) {
			lines[i].detail = details[i]
		}
	}
	encodeSheet(&b, "tensors", lines)
	groups := NewGroups(records)
	b.WriteString(",\n")
	encodeSheet(&b, "layers", groupLines(groups.Layers))
	b.WriteString(",\n")
	encodeSheet(&b, "parts", groupLines(groups.Parts))
	b.WriteString(",\n")
	encodeSheet(&b, "types", groupLines(groups.Types))
	b.WriteString("]}")
	return b.String()
}

func encodeSheet(b *strings.Builder, title string, lines []line) {
	b.WriteString(`{"title":` + quote(title) + `,"rows":` + strconv.Itoa(len(lines)) + `,"shared":[`)
	names := make([]string, len(lines))
	before := ""
	for i := range lines {
		n := sharedPrefix(before, lines[i].name)
		before = lines[i].name
		names[i] = quote(before[n:])
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	b.WriteString(`],"name":[` + strings.Join(names, ",") + `],"columns":{`)
	first := true
	for _, f := range fields {
		column := encodeColumn(&f, lines)
		if column == null {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString("\n" + quote(f.Key) + ":" + column)
	}
	b.WriteString("}}")
}

// sharedPrefix returns how many characters of ASCII, which are as many bytes
// here as units of a string in the browser, b begins with like a.
func sharedPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] && a[n] < 0x80 {
		n++
	}
	return n
}

func encodeColumn(f *field, lines []line) string {
	cells := make([]string, len(lines))
	same := true
	for i := range lines {
		cells[i] = f.cell(&lines[i])
		same = same && cells[i] == cells[0]
	}
	switch {
	case len(cells) == 0:
		return null
	case same:
		return cells[0]
	case f.Kind == "text":
		return encodeTexts(cells)
	}
	return "[" + strings.Join(cells, ",") + "]"
}

// encodeTexts tells each text once.
func encodeTexts(cells []string) string {
	known := map[string]int{}
	var texts, at []string
	for _, c := range cells {
		k, ok := known[c]
		if !ok {
			k = len(texts)
			known[c] = k
			texts = append(texts, c)
		}
		at = append(at, strconv.Itoa(k))
	}
	return `{"texts":[` + strings.Join(texts, ",") + `],"at":[` + strings.Join(at, ",") + "]}"
}
