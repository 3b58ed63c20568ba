package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// adviseFlags are the flags of a conversion that have a say in its figures.
var adviseFlags = []string{
	"round", "seed", "subnormals", "keep", "preset", "pure", "to", "container-only", "max-rel-err", "target-size",
}

func adviseCommand(a *app) *cobra.Command {
	f := new(convertFlags)
	all := convertCommandOf(a, f).Flags()
	f.dtype = string(demi.Auto)
	c := &cobra.Command{
		Use:   "advise SRC",
		Short: "Measure what F16, BF16 and auto would cost, and say which to take",
		Long: `Reads all values once and measures what --dtype exact, f16, bf16 and auto would
cost each tensor and the whole: the figures that a conversion reports, to the
bit. The tensors that F16 costs most come first; -v prints all.`,
		Example: `  demi advise model.safetensors
  demi advise ./model --preset llm --json`,
		Args: exactArgs("SRC", 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.advise(cmd, f, args[0], "") },
	}
	c.Flags().SortFlags = false
	for _, name := range adviseFlags {
		c.Flags().AddFlag(all.Lookup(name))
	}
	return c
}

// explain is the flag of plan that makes it advise.
const explain = "explain"

// An adviceDocument is what advise prints as JSON.
type adviceDocument struct {
	Version int               `json:"version"`
	Command string            `json:"command"`
	Program string            `json:"program"`
	Options *demi.PlanOptions `json:"options"`
	Inputs  []demi.Section    `json:"inputs"`
	*demi.Advice
	Warnings []string `json:"warnings"`
	Seconds  float64  `json:"seconds"`
}

// advise measures src for a conversion to dst, which may be "".
func (a *app) advise(cmd *cobra.Command, f *convertFlags, src, dst string) error {
	o, err := f.options(dst)
	if err != nil {
		return err
	}
	o.Lenient = a.lenient
	run, err := a.runOptions()
	if err != nil {
		return err
	}
	c, err := a.open(cmd.Context(), src)
	if err != nil {
		return err
	}
	defer c.Close()
	meter := a.newMeter(&run)
	defer meter.stop()
	v, err := demi.Advise(cmd.Context(), c, o, &run)
	if err != nil {
		return err
	}
	meter.stop()
	if a.json {
		return a.writeJSON(adviceDocument{
			Version: documentVersion, Command: "advise", Program: program(), Options: a.optionsDocument(o),
			Inputs: c.Sections(), Advice: v, Warnings: c.Warnings(), Seconds: time.Since(a.started).Seconds(),
		})
	}
	if a.quiet {
		return nil
	}
	return a.printAdvice(src, v)
}

// adviceRows is the number of tensors that advise prints without -v.
const adviceRows = 20

func (a *app) printAdvice(src string, v *demi.Advice) error {
	rows := slices.Clone(v.Tensors)
	slices.SortStableFunc(rows, worse)
	listed := rows
	if !a.verbose {
		listed = rows[:min(adviceRows, len(rows))]
	}
	a.print(a.fit(adviceTable(listed)))
	if more := len(rows) - len(listed); more > 0 {
		a.print(fmt.Sprintf("and %s more tensors (-v)\n", comma(int64(more))))
	}
	s := v.Targets[0].Summary
	a.print(fmt.Sprintf("\n%s: %s, %s\n\n", printable(shown(src)), english.Plural(s.Tensors, "tensor", ""), formatBytes(s.BytesIn)))
	a.print(verify.Render(targetTable(v.Targets)))
	a.print("\n" + wrap(fmt.Sprintf("take --dtype %s: %s", v.Choice.Target, printable(v.Choice.Reason))))
	a.print(wrap(fmt.Sprintf("one type for all: --dtype %s: %s", v.OneType.Target, printable(v.OneType.Reason))))
	return a.outErr
}

// wrap breaks a line at 80 columns.
func wrap(s string) string {
	var b strings.Builder
	for line := range strings.Lines(text.WrapSoft(s, 80)) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// worse sorts tensors by what F16 does to them (BF16 to those that are F16):
// overflow first, then a rising SNR.
func worse(x, y demi.TensorAdvice) int {
	if len(x.Trials) == 0 || len(y.Trials) == 0 {
		return cmp.Compare(len(y.Trials), len(x.Trials))
	}
	a, b := &x.Trials[0].Stats, &y.Trials[0].Stats
	return cmp.Or(cmp.Compare(b.Overflowed, a.Overflowed), cmp.Compare(a.SNR(), b.SNR()))
}

// reasonWidth makes a line of advice fit into 80 columns, with a short name.
const reasonWidth = 33

func adviceTable(rows []demi.TensorAdvice) table.Writer {
	t := newTable("tensor", "from", "F16 dB", "BF16 dB", "auto", "because")
	t.SetColumnConfigs(append(verify.RightAlign(3, 4), table.ColumnConfig{Number: 6, WidthMax: reasonWidth, WidthMaxEnforcer: text.WrapSoft}))
	for i := range rows {
		x := &rows[i]
		t.AppendRow(table.Row{printable(x.Name), x.Type, decibel(x, tensor.F16), decibel(x, tensor.BF16), x.To,
			printable(strings.TrimPrefix(x.Reason, "auto: "))})
	}
	return t
}

// decibel returns the SNR of a type that was tried.
func decibel(x *demi.TensorAdvice, d tensor.DType) string {
	if t := x.Trial(d); t != nil {
		return verify.Decibel(t.Stats.SNR())
	}
	return unknown
}

func targetTable(targets []demi.TargetCost) table.Writer {
	t := newTable("--dtype", "bytes", "of it", "changed", "SNR dB", "RMS error", "overflow", "to zero")
	t.SetColumnConfigs(verify.RightAlign(2, 3, 4, 5, 6, 7, 8))
	for i := range targets {
		s := targets[i].Summary
		if targets[i].Refused != "" {
			t.AppendRow(table.Row{targets[i].Target, unknown, unknown, unknown, unknown, unknown, unknown, unknown})
			continue
		}
		t.AppendRow(table.Row{
			targets[i].Target, formatBytes(s.BytesOut), verify.Percent(s.BytesOut, s.BytesIn), verify.Percent(s.Stats.Changed, s.Stats.Count),
			verify.Decibel(s.Stats.SNR()), verify.Short(s.Stats.RMSE()), comma(s.Stats.Overflowed), comma(s.Stats.Flushed),
		})
	}
	return t
}
