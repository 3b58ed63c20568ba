package verify

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/demi-weights/demi/tensor"
)

// WriteTable writes the figures of each record as a table, one line a tensor:
// how many values changed, the largest and the root mean squared error, the
// signal-to-noise ratio in dB, the mean signed error in ULP of the new type
// (away from zero), and how many values overflowed, became zero, or became
// subnormal. Columns of counts that are all zero are left out.
func WriteTable(w io.Writer, records []tensor.Record) error {
	return writeTable(w, columns, recordLines(records))
}

// WriteGroups writes the same figures of groups, one line a group.
func WriteGroups(w io.Writer, groups []Group, by By) error {
	return writeTable(w, groupColumns(by), groupLines(groups))
}

func writeTable(w io.Writer, all []column, lines []line) error {
	t := table.NewWriter()
	t.SetStyle(PlainStyle())
	var head table.Row
	var right []int
	used := usedColumns(all, lines)
	for i, c := range used {
		head = append(head, c.title)
		if c.right {
			right = append(right, i+1)
		}
	}
	t.AppendHeader(head)
	t.SetColumnConfigs(RightAlign(right...))
	for i := range lines {
		var row table.Row
		for _, c := range used {
			row = append(row, c.cell(&lines[i]))
		}
		t.AppendRow(row)
	}
	_, err := io.WriteString(w, Render(t))
	return err
}

// PlainStyle is the look of all tables: columns two spaces apart, no lines.
func PlainStyle() table.Style {
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Format.Header = text.FormatDefault
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}

// RightAlign aligns columns of figures, numbered from 1.
func RightAlign(numbers ...int) (configs []table.ColumnConfig) {
	for _, n := range numbers {
		configs = append(configs, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	return configs
}

// Render returns a table as lines without blanks at their ends.
func Render(t table.Writer) string {
	var b strings.Builder
	for line := range strings.Lines(t.Render()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// A line of a table is a tensor or a group of them.
type line struct {
	name, kind string
	tensors    int
	values     int64
	in, out    int64          // bytes
	stats      *tensor.Stats  // nil if nothing was measured
	largest    string         // the tensor that has the largest error
	record     *tensor.Record // nil for a group
	part       string         // of a tensor, where it is shown
	detail     *Details       // likewise; nil if not measured
}

func recordLines(records []tensor.Record) []line {
	lines := make([]line, len(records))
	for i := range records {
		r := &records[i]
		lines[i] = line{r.Name, typeCell(r), 1, elements(r.Shape), r.SizeIn, r.SizeOut, r.Stats, r.Name, r, "", nil}
	}
	return lines
}

func groupLines(groups []Group) []line {
	lines := make([]line, len(groups))
	for i := range groups {
		g := &groups[i]
		lines[i] = line{g.Name, "", g.Tensors, g.Stats.Count, g.BytesIn, g.BytesOut, nil, g.Largest, nil, "", nil}
		if g.Measured > 0 {
			lines[i].stats = &g.Stats
		}
	}
	return lines
}

// A column is one figure of a line.
type column struct {
	title    string
	right    bool
	optional bool // left out if all cells are "0"
	cell     func(l *line) string
}

var columns = []column{
	{"tensor", false, false, func(l *line) string { return l.name }},
	{"type", false, false, func(l *line) string { return l.kind }},
	{"values", true, false, func(l *line) string { return strconv.FormatInt(l.values, 10) }},
	{"changed", true, false, figure(func(s *tensor.Stats) string { return Percent(s.Changed, s.Count) })},
	{"max error", true, false, figure(func(s *tensor.Stats) string { return Short(s.MaxAbs) })},
	{"RMS error", true, false, figure(func(s *tensor.Stats) string { return Short(s.RMSE()) })},
	{"SNR dB", true, false, figure(func(s *tensor.Stats) string { return Decibel(s.SNR()) })},
	{"bias ULP", true, false, figure(func(s *tensor.Stats) string { return fmt.Sprintf("%+.4f", s.BiasAway()) })},
	{"overflow", true, true, count(func(s *tensor.Stats) int64 { return s.Overflowed })},
	{"to zero", true, true, count(func(s *tensor.Stats) int64 { return s.Flushed })},
	{"subnormal", true, true, count(func(s *tensor.Stats) int64 { return s.Subnormal })},
	{"NaN", true, true, count(func(s *tensor.Stats) int64 { return s.NaNOut })},
	{"NaN lost", true, true, count(func(s *tensor.Stats) int64 { return s.NaNLost + s.NaNMade })},
	{"Inf", true, true, count(func(s *tensor.Stats) int64 { return s.InfOut })},
}

// groupColumns are those of groups: without a type, with a number of tensors.
func groupColumns(by By) []column {
	name, tensors := columns[0], column{"tensors", true, false, func(l *line) string { return strconv.Itoa(l.tensors) }}
	name.title = string(by)
	return slices.Concat([]column{name, tensors}, columns[2:])
}

func usedColumns(all []column, lines []line) (used []column) {
	for _, c := range all {
		keep := !c.optional
		for i := 0; i < len(lines) && !keep; i++ {
			s := c.cell(&lines[i])
			keep = s != "0" && s != noFigure
		}
		if keep {
			used = append(used, c)
		}
	}
	return used
}

// noFigure stands in for the figures of a tensor that was not measured.
const noFigure = "-"

func figure(f func(s *tensor.Stats) string) func(l *line) string {
	return func(l *line) string {
		if l.stats == nil {
			return noFigure
		}
		return f(l.stats)
	}
}

func count(f func(s *tensor.Stats) int64) func(l *line) string {
	return figure(func(s *tensor.Stats) string { return strconv.FormatInt(f(s), 10) })
}

func typeCell(r *tensor.Record) string {
	if r.From == r.To {
		return r.From
	}
	return r.From + " -> " + r.To
}

func elements(shape []int64) int64 { return tensor.Info{Shape: shape}.Elements() }

// Percent returns n of total as a percentage with at most two decimals that
// is "0 %" and "100 %" only where that is exact. It may be more than 100.
func Percent(n, total int64) string {
	if n == 0 || total == 0 {
		return "0 %"
	}
	if n == total {
		return "100 %"
	}
	p := 100 * float64(n) / float64(total)
	if n < total {
		p = min(p, 99.99)
	}
	return fmt.Sprintf("%.2f %%", max(p, 0.01))
}

// Short returns a figure with four significant digits.
func Short(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

// Exact returns the shortest number that reads back as f: as a float32 if it
// is one.
func Exact(f float64) string {
	if float64(float32(f)) == f {
		return strconv.FormatFloat(f, 'g', -1, 32)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Decibel returns a ratio in dB with one decimal; "exact" where nothing
// differs.
func Decibel(db float64) string {
	if math.IsInf(db, 1) {
		return "exact"
	}
	return fmt.Sprintf("%.1f", db)
}

// SNRText returns a signal-to-noise ratio for a sentence: "SNR 55.7 dB", or
// "SNR exact".
func SNRText(db float64) string {
	if math.IsInf(db, 1) {
		return "SNR exact"
	}
	return "SNR " + Decibel(db) + " dB"
}
