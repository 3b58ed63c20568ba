package verify

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/demi-weights/demi/tensor"
)

// A Page is what WriteHTML shows.
type Page struct {
	Title    string // such as "model.safetensors → model-bf16.safetensors"
	Kind     string // one word above it, such as "conversion"
	Facts    []Fact // what was done, with what, for the end of the page
	Records  []tensor.Record
	Details  []*Details // of the records, as their rows have them; nil where they were not measured
	Problems []Problem
	Warnings []string
	Name     func(string) string // how a text from a file is written as UTF-8; nil as it is, with U+FFFD for what is not
}

// A Fact is a line of a list.
type Fact struct{ Label, Value string }

//go:embed html
var assets embed.FS

// asset returns an embedded file with the line ends that a browser hashes.
func asset(name string) string {
	text, err := assets.ReadFile("html/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// A skin is what all pages share.
type skin struct {
	page   *template.Template
	Style  template.CSS
	Script template.JS
	Policy string // the Content-Security-Policy
}

var theSkin = sync.OnceValue(func() *skin {
	style, script := asset("style.css"), asset("script.js")
	return &skin{
		template.Must(template.New("page").Parse(asset("page.html"))), template.CSS(style), template.JS(script),
		fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'", integrity(script), integrity(style)),
	}
})

// integrity returns the hash that lets a browser run or apply a text.
func integrity(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// WriteHTML writes a report as one HTML file that needs nothing else: totals,
// the error of each layer, the tensors that lost most, and tables of all
// tensors, layers, parts and types to sort and to search; with details, also how
// the exponents of the values lie in the ranges of F16 and BF16. It asks nothing of
// any network and runs no script but its own, which a Content-Security-Policy
// enforces; texts from files stay texts. The same Page gives the same bytes.
func WriteHTML(w io.Writer, p *Page) error {
	s := theSkin()
	return s.page.Execute(w, newView(p, s))
}

// A view is a Page as the template wants it.
type view struct {
	*skin
	Title, Kind      string
	Verdict          verdict
	Cards            []card
	Problems         []Problem
	MoreProblems     int
	Warnings         []string
	Types            []typeRow
	Layers, Spectrum template.HTML
	Legend           []band
	ExponentsNote    string
	Worst            []worstRow
	Fields           []field
	Facts            []Fact
	Data             template.JS
}

// problemsShown is how many problems a page lists.
const problemsShown = 100

func newView(p *Page, s *skin) *view {
	records := p.records()
	total := Summarize(records)
	v := &view{
		skin: s, Title: p.text(p.Title), Kind: p.text(p.Kind), Verdict: newVerdict(total, records, len(p.Problems)), Cards: cards(total),
		Types: typeRows(total), Layers: layerChart(records), Legend: bands, Worst: worstRows(records), Fields: fields,
		Data: template.JS(encodeSheets(records, p.Details)),
	}
	if e := newExponents(p.Details); e != nil {
		v.Spectrum, v.ExponentsNote = exponentChart(e), e.note()
	}
	for _, x := range p.Problems[:min(problemsShown, len(p.Problems))] {
		v.Problems = append(v.Problems, Problem{p.text(x.Tensor), p.text(x.Text)})
	}
	v.MoreProblems = len(p.Problems) - len(v.Problems)
	for _, x := range p.Warnings {
		v.Warnings = append(v.Warnings, p.text(x))
	}
	for _, f := range p.Facts {
		v.Facts = append(v.Facts, Fact{p.text(f.Label), p.text(f.Value)})
	}
	return v
}

// name returns a text from a file as UTF-8.
func (p *Page) name(s string) string {
	if p.Name != nil {
		s = p.Name(s)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// text returns a text from a file as a page shows it.
func (p *Page) text(s string) string { return visible(p.name(s)) }

// records returns the records with texts as UTF-8.
func (p *Page) records() []tensor.Record {
	list := make([]tensor.Record, len(p.Records))
	for i, r := range p.Records {
		r.Name, r.From, r.To, r.Reason = p.name(r.Name), p.name(r.From), p.name(r.To), p.name(r.Reason)
		list[i] = r
	}
	return list
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// visible writes out what cannot be seen, or what would turn the text around,
// such as U+202E; the script does the same.
func visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// A grade says in one word how much a tensor, or a group, lost.
type grade string

const (
	exact grade = "exact" // every value comes back to the bit
	fine  grade = "fine"
	poor  grade = "poor" // less than rounding to nearest leaves, or errors that lean to one side, as those of truncation
	bad   grade = "bad"  // values beyond the range, NaN lost or made, or hardly a signal
)

const (
	poorSNR = 50 // dB
	badSNR  = 20
)

func gradeOf(s *tensor.Stats) grade {
	switch {
	case s.Changed == 0:
		return exact
	case s.Overflowed > 0 || s.NaNLost+s.NaNMade > 0 || !(s.SNR() >= badSNR): // also NaN, of sums beyond FP64
		return bad
	case s.SNR() < poorSNR || Biased(s) != "":
		return poor
	}
	return fine
}

// A verdict is the first sentence of a page.
type verdict struct {
	Grade grade
	Text  string
}

func newVerdict(t *Summary, records []tensor.Record, problems int) verdict {
	grades := map[grade]int{}
	for i := range records {
		if s := records[i].Stats; s != nil {
			grades[gradeOf(s)]++
		}
	}
	s := &t.Stats
	switch {
	case problems > 0:
		return verdict{bad, count1(problems, "problem") + ": tensors are missing, additional or not comparable, or bytes differ."}
	case t.Measured == 0:
		return verdict{exact, "No values were rounded: every tensor was copied as it is."}
	case s.Changed == 0:
		return verdict{exact, fmt.Sprintf("Nothing was lost: all %s values come back to the bit.", humanize.Comma(s.Count))}
	case grades[bad] > 0:
		text := count1(grades[bad], "tensor") + " lost more than rounding takes"
		if r := rangeText(s); r != "" {
			text += ": " + r
		}
		return verdict{bad, text + "."}
	case grades[poor] > 0:
		return verdict{poor, fmt.Sprintf("%s lost more than rounding to nearest takes: an SNR below %d dB, or errors that lean to one side.", count1(grades[poor], "tensor"), poorSNR)}
	}
	return verdict{fine, "Values were rounded, and nothing worse: none went beyond the range, no NaN was lost or made."}
}

// count1 returns "1 tensor", "2 tensors".
func count1(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
}

// A card is one of the figures at the top.
type card struct {
	Label, Value, Note string
	Name               string // of a tensor, after Note
	Grade              grade  // "" without a judgement
}

func cards(t *Summary) []card {
	n := func(x int64) string { return humanize.Comma(x) }
	list := []card{{Label: "size", Value: Percent(t.BytesOut, t.BytesIn), Note: fmt.Sprintf("%s became %s, in %s", formatBytes(t.BytesIn), formatBytes(t.BytesOut), count1(t.Tensors, "tensor"))}}
	s := &t.Stats
	switch {
	case t.Measured == 0:
		return list
	case s.Changed == 0:
		return append(list, card{Label: "changed", Value: "none", Note: "of " + n(s.Count) + " values", Grade: exact})
	}
	list = append(list,
		card{Label: "signal to noise", Value: Decibel(s.SNR()) + " dB", Note: "RMS error " + Short(s.RMSE()), Grade: gradeOf(s)},
		card{Label: "changed", Value: Percent(s.Changed, s.Count), Note: "of " + n(s.Count) + " values"})
	if s.MaxIndex >= 0 {
		list = append(list, card{Label: "largest error", Value: Short(s.MaxAbs), Note: fmt.Sprintf("%s became %s, at %d of", Exact(s.MaxRef), Exact(s.MaxGot), s.MaxIndex), Name: visible(t.Largest)})
	}
	outside := card{Label: "beyond the range", Value: n(s.Overflowed), Note: fmt.Sprintf("%s became zero, %s subnormal; %s NaN, %s Inf", n(s.Flushed), n(s.Subnormal), n(s.NaNOut), n(s.InfOut))}
	if s.Overflowed > 0 {
		outside.Grade = bad
	}
	return append(list, outside, card{Label: "bias", Value: fmt.Sprintf("%+.4f", s.BiasAway()), Note: "ULP, the mean error, positive away from zero"})
}

func formatBytes(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

type typeRow struct{ From, To, Rounding, Tensors, In, Out string }

func typeRows(t *Summary) (rows []typeRow) {
	for _, x := range t.Types {
		rows = append(rows, typeRow{visible(x.From), visible(x.To), cmp.Or(x.Rounding, "as it was"), humanize.Comma(int64(x.Tensors)), formatBytes(x.BytesIn), formatBytes(x.BytesOut)})
	}
	return rows
}

// A worstRow is a tensor among those that lost most.
type worstRow struct {
	Name, Type, SNR, Max, At, Ref, Got, Range string
	Grade                                     grade
}

func worstRows(records []tensor.Record) (rows []worstRow) {
	for _, r := range Worst(records, worstShown) {
		s := r.Stats
		row := worstRow{Name: visible(r.Name), Type: visible(typeCell(&r)), SNR: Decibel(s.SNR()), Range: rangeText(s), Grade: gradeOf(s)}
		if s.MaxIndex >= 0 {
			row.Max, row.At, row.Ref, row.Got = Short(s.MaxAbs), strconv.FormatInt(s.MaxIndex, 10), Exact(s.MaxRef), Exact(s.MaxGot)
		}
		rows = append(rows, row)
	}
	return rows
}

// rangeText names what rounding does not do.
func rangeText(s *tensor.Stats) string {
	var parts []string
	for _, x := range []struct {
		n    int64
		text string
	}{{s.NaNLost + s.NaNMade, "NaN lost or made"}, {s.Overflowed, "overflowed"}, {s.Flushed, "to zero"}, {s.Subnormal, "subnormal"}} {
		if x.n > 0 {
			parts = append(parts, humanize.Comma(x.n)+" "+x.text)
		}
	}
	return strings.Join(parts, ", ")
}
