package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// documentVersion is that of the JSON documents: it rises when a field
// changes its meaning or goes.
const documentVersion = 1

// A document is what a conversion or a comparison prints as JSON.
type document struct {
	Version  int               `json:"version"`
	Command  string            `json:"command"`
	Program  string            `json:"program"`
	Options  *demi.PlanOptions `json:"options,omitempty"`
	Inputs   []fileDocument    `json:"inputs"`
	Outputs  []fileDocument    `json:"outputs"`
	Summary  *verify.Summary   `json:"summary"`
	Groups   *verify.Groups    `json:"groups"`
	Tensors  []verify.Row      `json:"tensors"`
	Dropped  []demi.Dropped    `json:"dropped,omitempty"`  // what the output does not hold
	Verified bool              `json:"verified,omitempty"` // the output has been read again
	Savings  []demi.Saving     `json:"savings,omitempty"`  // of narrower types, when exact has found none
	Problems []verify.Problem  `json:"problems,omitempty"`
	*verdict                   // of verify
	Warnings []string          `json:"warnings,omitempty"`
	Seconds  float64           `json:"seconds"`

	records []tensor.Record
	title   string // of a page

}

// optionsDocument returns options, and how quantised tensors were read.
func (a *app) optionsDocument(o demi.Options) *demi.PlanOptions {
	d := o.Text()
	if a.dequant != string(demi.DequantizeNone) {
		d.Dequantize = a.dequant
	}
	return &d
}

// A failure is what --json prints of an error.
type failure struct {
	Version int          `json:"version"`
	Error   failureError `json:"error"`
}

type failureError struct {
	Class   string `json:"class"`
	Exit    int    `json:"exit"`
	Retry   bool   `json:"retryable"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Tensor  string `json:"tensor,omitempty"`
	Offset  *int64 `json:"offset,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

func (a *app) writeFailure(err error, c class) {
	f := failureError{Class: c.Name, Exit: c.Code, Retry: c.Retry, Message: err.Error(), Hint: hint(err)}
	if e := fileError(err); e != nil {
		f.File, f.Tensor = e.File, e.Tensor
		if e.Offset >= 0 {
			f.Offset = &e.Offset
		}
	}
	a.writeJSON(failure{documentVersion, f})
}

// print writes to stdout and remembers the first error.
func (a *app) print(s string) {
	if _, err := io.WriteString(a.text, s); err != nil && a.outErr == nil {
		a.outErr = fmt.Errorf("write to stdout: %w", err)
	}
}

// printable makes a name from a file harmless for a terminal.
func printable(s string) string {
	clean := func(r rune) bool { return r != unicode.ReplacementChar && unicode.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// printableLines does the same to a text that may have several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (a *app) reportConversion(ctx context.Context, c *demi.Checkpoint, p *demi.Plan, records []tensor.Record, j *job) error {
	d := &document{
		Version: documentVersion, Command: "convert", Program: program(), Options: a.optionsDocument(p.Options),
		Inputs: newFiles(c), Outputs: []fileDocument{}, Summary: verify.Summarize(records), Groups: verify.NewGroups(records),
		Tensors: verify.Rows(records), Dropped: p.Dropped, Savings: p.Savings(), records: records, title: shown(j.src) + " → " + j.dst,
	}
	var out *demi.Checkpoint
	if j.dst != toStdout {
		var err error
		if out, err = demi.Open(outputOf(j.dst), &demi.OpenOptions{Lenient: a.lenient}); err != nil {
			return fmt.Errorf("the output was written, but: %w", err)
		}
		defer out.Close()
		d.Outputs = newFiles(out)
	}
	if j.verify {
		if err := recheck(ctx, c, out, p, records, j.run); err != nil {
			return err
		}
		d.Verified = true
	}
	if j.hash {
		if err := j.hashFiles(ctx, d, c, out); err != nil {
			return err
		}
	}
	j.meter.stop()
	d.Warnings, d.Seconds = a.warnings, time.Since(a.started).Seconds()
	if err := writeReport(j.report, d); err != nil {
		return err
	}
	return a.printConversion(d, c, out, j)
}

func (a *app) printConversion(d *document, c, out *demi.Checkpoint, j *job) error {
	if a.json {
		return a.writeJSON(d)
	}
	if a.quiet {
		return nil
	}
	if a.verbose || j.table.asked() {
		a.table(d.records, j.table)
	}
	a.print(fmt.Sprintf("%s: %s, %s, %s\n", printable(shown(j.src)), c.Format(), english.Plural(c.Len(), "tensor", ""), formatBytes(fileBytes(c))))
	if out != nil {
		a.print(fmt.Sprintf("%s: %s, %s, %s of the original\n", printable(outputOf(j.dst)), out.Format(), formatBytes(fileBytes(out)), verify.Percent(fileBytes(out), fileBytes(c))))
	}
	a.printDropped(d.Dropped)
	a.printSummary(d.Summary, d.records)
	a.printSavings(d.Savings, d.Summary.BytesIn)
	if d.Verified {
		a.print("verified: the output was read again, and it is what was written\n")
	}
	return a.outErr
}

// printSavings says what narrower types would do where exact did nothing.
func (a *app) printSavings(list []demi.Saving, total int64) {
	if len(list) > 0 {
		a.print("exact: nothing can shrink without a change of values\n")
	}
	for _, s := range list {
		text := fmt.Sprintf("  --dtype %-4s would save %s, change %s of the values", strings.ToLower(s.Type.String()),
			verify.Percent(s.Bytes, total), verify.Percent(s.Changed, s.Values))
		if s.Beyond > 0 {
			text += fmt.Sprintf(", %s beyond its range", comma(s.Beyond))
		}
		a.print(text + "\n")
	}
}

// outputOf returns what to open for an output: DST itself, or the set that took
// its name.
func outputOf(dst string) string {
	if exists(dst) {
		return dst
	}
	if index := dst + ".index.json"; exists(index) {
		return index
	}
	first := strings.TrimSuffix(filepath.Base(dst), filepath.Ext(dst)) + "-00001-of-"
	entries, _ := os.ReadDir(filepath.Dir(dst))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), first) && strings.HasSuffix(e.Name(), filepath.Ext(dst)) {
			return filepath.Join(filepath.Dir(dst), e.Name())
		}
	}
	return dst
}

// A filesDocument is what --json prints when files were restored or skipped.
type filesDocument struct {
	Version int      `json:"version"`
	Command string   `json:"command"`
	Program string   `json:"program"`
	Skipped bool     `json:"skipped,omitempty"`
	Files   []string `json:"files"`
	Seconds float64  `json:"seconds"`
}

func (a *app) reportFiles(command string, skipped bool, files []string, text string) error {
	if a.json {
		return a.writeJSON(filesDocument{documentVersion, command, program(), skipped, files, time.Since(a.started).Seconds()})
	}
	if !a.quiet {
		a.print(text)
	}
	return a.outErr
}

func (a *app) reportSkip(j *job) error {
	if j.report != "" {
		a.warn([]string{j.report + " is not written: there was no conversion to report"})
	}
	return a.reportFiles("convert", true, []string{j.dst}, fmt.Sprintf("%s: it is there already, made by the same command\n", j.dst))
}

func (a *app) reportRestore(j *job, files []string) error {
	text := ""
	for _, f := range files {
		text += fmt.Sprintf("%s: as it was, by its SHA-256\n", f)
	}
	return a.reportFiles("restore", false, files, text)
}

func fileBytes(c *demi.Checkpoint) (n int64) {
	for _, s := range c.Sections() {
		n += s.Size
	}
	return n
}

// printSummary writes what became of the types, what it cost, and where most.
func (a *app) printSummary(s *verify.Summary, records []tensor.Record) {
	var parts []string
	for _, t := range s.Types {
		text := fmt.Sprintf("%d %s", t.Tensors, cutMiddle(printable(t.From), mostType))
		if t.To != t.From {
			text += " -> " + cutMiddle(printable(t.To), mostType)
		}
		if t.Rounding != "" {
			text += " (" + t.Rounding + ")"
		}
		parts = append(parts, text)
	}
	a.print("tensors: " + shorten(strings.Join(parts, ", "), 200) + "\n")
	if s.Measured == 0 {
		return
	}
	st := &s.Stats
	if st.Changed == 0 {
		a.print(fmt.Sprintf("cost: none, all %s values come back to the bit\n", comma(st.Count)))
		return
	}
	a.print(fmt.Sprintf("cost: %s of %s values changed, %s, RMS error %s, largest %s\n", verify.Percent(st.Changed, st.Count), comma(st.Count),
		verify.SNRText(st.SNR()), verify.Short(st.RMSE()), verify.Short(st.MaxAbs)))
	a.print(fmt.Sprintf("range: %s overflowed, %s became zero, %s became subnormal; %s NaN, %s Inf\n",
		comma(st.Overflowed), comma(st.Flushed), comma(st.Subnormal), comma(st.NaNOut), comma(st.InfOut)))
	for _, r := range verify.Worst(records, 3) {
		a.print(fmt.Sprintf("worst: %s: %s\n", cutMiddle(printable(r.Name), 60), harm(r.Stats)))
	}
}

// harm says what a tensor lost: first what left the range, which no error of
// finite values shows.
func harm(st *tensor.Stats) string {
	var parts []string
	for _, c := range []struct {
		n    int64
		what string
	}{{st.NaNLost, "NaN lost"}, {st.NaNMade, "became NaN"}, {st.Overflowed, "overflowed"}} {
		if c.n > 0 {
			parts = append(parts, comma(c.n)+" "+c.what)
		}
	}
	switch {
	case st.MaxIndex >= 0:
		parts = append(parts, fmt.Sprintf("%s, error %s at [%d]: %s became %s", verify.SNRText(st.SNR()),
			verify.Short(st.MaxAbs), st.MaxIndex, verify.Exact(st.MaxRef), verify.Exact(st.MaxGot)))
	case len(parts) == 0:
		parts = append(parts, comma(st.Changed)+" values that are not finite, or their signs, changed")
	}
	return strings.Join(parts, ", ")
}

func (a *app) reportPlan(c *demi.Checkpoint, p *demi.Plan, j *job) error {
	d, err := p.Document(c)
	if err != nil {
		return err
	}
	if j.output != "" {
		if err := writeFile(j.output, func(w io.Writer) error { return encodeJSON(w, d) }); err != nil {
			return err
		}
	}
	if a.json {
		return a.writeJSON(d)
	}
	if a.verbose {
		a.print(presetText(d.Options.Preset))
	}
	t := table.NewWriter()
	t.SetStyle(verify.PlainStyle())
	t.AppendHeader(table.Row{"tensor", "from", "to", "bytes", "reason"})
	t.SetColumnConfigs(verify.RightAlign(4))
	for _, x := range d.Tensors {
		if x.Source != "" {
			x.Reason += ", from " + x.Source
		}
		to := x.To
		if x.Undecided {
			to = "?"
		}
		t.AppendRow(table.Row{printable(x.Name), typeName(x.From, a.width()), typeName(to, a.width()), x.Out, printable(x.Reason)})
	}
	a.print(snip(fitText(verify.Render(t), a.width(), leastBeside), a.width()))
	a.printDropped(d.Dropped)
	a.printLeftovers(c, d)
	out := fmt.Sprintf("%s out (%s)", formatBytes(d.Out), verify.Percent(d.Out, d.In))
	if d.Least != nil {
		out = fmt.Sprintf("%s to %s out, %s undecided", formatBytes(*d.Least), formatBytes(*d.Most), english.Plural(p.Undecided(), "tensor", ""))
	}
	files, err := plannedFiles(c, p, j)
	if err != nil {
		return err
	}
	a.print(fmt.Sprintf("%s in, %s%s; nothing has been written\n", formatBytes(d.In), out, files))
	return a.outErr
}

// plannedFiles says into how many files a set would be cut, and why; nothing of
// one file that is no set, or while types are undecided.
func plannedFiles(c *demi.Checkpoint, p *demi.Plan, j *job) (string, error) {
	limit := j.create.MaxShard
	if j.dst == toStdout || limit < 0 || p.Undecided() > 0 || demi.FormatOf(j.dst) != "" && limit == 0 && !p.Options.KeepSplit {
		return "", nil
	}
	files, err := p.Files(j.dst, c, &j.create)
	if err != nil {
		return "", err
	}
	why := "--keep-split"
	if !p.Options.KeepSplit {
		why = "--max-shard-size " + strings.ReplaceAll(formatBytes(cmp.Or(limit, demi.DefaultMaxShard)), " ", "")
	}
	return fmt.Sprintf(" in %s (%s)", english.Plural(len(files), "file", ""), why), nil
}
