package verify

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// csvHead are the columns of WriteCSV.
var csvHead = []string{
	"name", "from", "to", "reason", "shape", "bytes_in", "bytes_out", "rounding", "overflow", "flush", "seed", "hash",
	"count", "changed", "overflowed", "flushed", "subnormal", "nan_in", "nan_out", "nan_lost", "nan_made", "inf_in", "inf_out",
	"finite", "sum_err2", "sum_ref2", "sum_ref_er", "ulp_up", "ulp_away", "max_abs", "max_index", "max_ref", "max_got",
	"rmse", "snr_db", "cosine", "bias_up_ulp", "bias_away_ulp",
}

// WriteCSV writes the records as comma-separated values (RFC 4180), one row a
// tensor below a row of the names that the figures have in JSON. Dimensions are
// divided by "x". A figure that is no finite number, or of a tensor that was not
// measured, is empty. Names are written as name gives them; nil means as they
// are.
func WriteCSV(w io.Writer, records []tensor.Record, name func(string) string) error {
	out := csv.NewWriter(w)
	out.Write(csvHead) //nolint:errcheck // Error has the first one
	for i := range records {
		row := csvRow(&records[i])
		if name != nil {
			row[0] = name(row[0])
		}
		out.Write(row) //nolint:errcheck // as above
	}
	out.Flush()
	return out.Error()
}

func csvRow(r *tensor.Record) []string {
	var dims []string
	for _, d := range r.Shape {
		dims = append(dims, strconv.FormatInt(d, 10))
	}
	row := []string{r.Name, r.From, r.To, r.Reason, strings.Join(dims, "x"), fmt.Sprint(r.SizeIn), fmt.Sprint(r.SizeOut),
		r.Rounding, r.Overflow, fmt.Sprint(r.Flush), fmt.Sprint(r.Seed), r.Hash.String()}
	s := r.Stats
	if s == nil {
		return append(row, make([]string, len(csvHead)-len(row))...)
	}
	for _, n := range []int64{s.Count, s.Changed, s.Overflowed, s.Flushed, s.Subnormal, s.NaNIn, s.NaNOut, s.NaNLost, s.NaNMade, s.InfIn, s.InfOut, s.Finite} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	row = append(row, csvFloat(s.SumErr2), csvFloat(s.SumRef2), csvFloat(s.SumRefEr), fmt.Sprint(s.ULPUp), fmt.Sprint(s.ULPAway))
	row = append(row, csvFloat(s.MaxAbs), fmt.Sprint(s.MaxIndex), csvFloat(s.MaxRef), csvFloat(s.MaxGot))
	return append(row, csvFloat(s.RMSE()), csvFloat(s.SNR()), csvFloat(s.Cosine()), csvFloat(s.BiasUp()), csvFloat(s.BiasAway()))
}

func csvFloat(f float64) string {
	if finite(f) == nil {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// worstShown is how many of the worst tensors a report for people begins with.
const worstShown = 10

// WriteMarkdown writes, for a page that people read, the totals of the records
// and tables with the columns of WriteTable: of the tensors that lost most, if
// there are more than a few, of layers, of parts, and of all tensors.
func WriteMarkdown(w io.Writer, records []tensor.Record, problems []Problem) error {
	s := Summarize(records)
	var b strings.Builder
	fmt.Fprintf(&b, "%d tensors, %d bytes became %d (%s).\n\n", s.Tensors, s.BytesIn, s.BytesOut, Percent(s.BytesOut, s.BytesIn))
	b.WriteString("| from | to | tensors | bytes in | bytes out |\n|---|---|--:|--:|--:|\n")
	for _, t := range s.Types {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", mdText(t.From), mdText(t.To), t.Tensors, t.BytesIn, t.BytesOut)
	}
	if st := &s.Stats; s.Measured > 0 {
		fmt.Fprintf(&b, "\n%d of %d values changed (%s); %s, RMS error %s, largest error %s; %d overflowed, %d became zero.\n",
			st.Changed, st.Count, Percent(st.Changed, st.Count), SNRText(st.SNR()), Short(st.RMSE()), Short(st.MaxAbs), st.Overflowed, st.Flushed)
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "\nProblem: %s: %s\n", mdText(p.Tensor), mdText(p.Text))
	}
	if len(records) > worstShown {
		mdTable(&b, "Worst tensors", columns, recordLines(Worst(records, worstShown)))
	}
	mdTable(&b, "Layers", groupColumns(ByLayer), groupLines(GroupBy(records, ByLayer)))
	mdTable(&b, "Parts", groupColumns(ByPart), groupLines(GroupBy(records, ByPart)))
	mdTable(&b, "Tensors", columns, recordLines(records))
	_, err := io.WriteString(w, b.String())
	return err
}

// mdTable writes a table below its heading; nothing if it has no lines.
func mdTable(b *strings.Builder, heading string, all []column, lines []line) {
	if len(lines) == 0 {
		return
	}
	used := usedColumns(all, lines)
	head, rule := "\n## "+heading+"\n\n|", "|"
	for _, c := range used {
		head += " " + c.title + " |"
		if c.right {
			rule += "--:|"
		} else {
			rule += "---|"
		}
	}
	b.WriteString(head + "\n" + rule + "\n")
	for i := range lines {
		b.WriteString("|")
		for _, c := range used {
			b.WriteString(" " + mdText(c.cell(&lines[i])) + " |")
		}
		b.WriteString("\n")
	}
}

// mdText makes a text from a file plain in Markdown, on one line.
func mdText(s string) string {
	q := strconv.Quote(s)
	s = q[1 : len(q)-1]
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", "&", "&amp;", "[", `\[`).Replace(s)
}
