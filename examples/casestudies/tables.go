package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A table is text in Markdown.
type table struct{ strings.Builder }

// row writes a line of cells.
func (t *table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(t, "| %v ", c)
	}
	t.WriteString("|\n")
}

// head writes what comes before the rows.
func (t *table) head(caption string, columns ...any) {
	fmt.Fprintf(t, "*%s*\n\n", caption)
	t.row(columns...)
	t.WriteString("|---|" + strings.Repeat("--:|", len(columns)-1) + "\n")
}

// sizeTable has the sizes, from headers.
func sizeTable(s *study) (string, error) {
	list, read, err := sizes(s.all)
	if err != nil {
		return "", err
	}
	var t table
	t.head(fmt.Sprintf("%s (%s): sizes, from headers alone; bytes of values read for it: %d", s.name, s.about, read),
		"class", "tensors", "parameters", "FP32", "FP16 or BF16")
	for _, x := range list {
		t.row(x.class, x.tensors, humanize.Comma(x.parameters), bytes(x.fp32), bytes(x.half))
	}
	return t.String(), nil
}

// synthetic says, at the head of each table of values, what they are.
func (s *study) synthetic(of string) string {
	text := s.name + ": " + of + ", of synthetic weights"
	if s.what != "" {
		text += ": " + s.what
	}
	return text
}

// errorTables have the errors by class, and those of the whole by rounding.
func errorTables(s *study) (string, error) {
	var classes, whole table
	classes.head(s.synthetic("errors by class, rounded to nearest-even"),
		"class", "F16: SNR dB", "max error", "to zero", "subnormal", "BF16: SNR dB", "max error", "to zero", "`auto` takes")
	whole.head(s.synthetic("errors of the whole"),
		"type, rounding", "changed", "SNR dB", "RMS error", "max error", "overflow", "to zero", "subnormal", "bias, ULP away from zero")
	for _, r := range []kernels.Rounding{kernels.NearestEven, kernels.TowardZero, kernels.Stochastic} {
		a, err := advise(s.measured(), r)
		if err != nil {
			return "", err
		}
		if r == kernels.NearestEven {
			for _, c := range byClass(s.measured(), a) {
				f, b := &c.f16.Stats, &c.bf16.Stats
				classes.row(c.class, snr(f), number(f.MaxAbs), f.Flushed, f.Subnormal, snr(b), number(b.MaxAbs), b.Flushed, took(c.to))
			}
			fmt.Fprintf(&classes, "\nAdvice: `--dtype %s`: %s. One type for all: `--dtype %s`: %s.\n",
				a.Choice.Target, a.Choice.Reason, a.OneType.Target, a.OneType.Reason)
			whole.figures("auto, "+r.String(), a, demi.Auto)
		}
		whole.figures("F16, "+r.String(), a, demi.To(tensor.F16))
		whole.figures("BF16, "+r.String(), a, demi.To(tensor.BF16))
	}
	return classes.String() + "\n" + whole.String(), nil
}

// figures writes what a target costs the whole.
func (t *table) figures(name string, a *demi.Advice, target demi.Target) {
	i := slices.IndexFunc(a.Targets, func(c demi.TargetCost) bool { return c.Target == target })
	st, f := &a.Targets[i].Summary.Stats, a.Targets[i].Figures
	t.row(name, fmt.Sprintf("%.2f %%", 100*float64(st.Changed)/float64(st.Count)), snr(st), number(*f.RMSE), number(st.MaxAbs),
		st.Overflowed, st.Flushed, st.Subnormal, fmt.Sprintf("%+.4f", f.BiasAway))
}

// storeTable has the bytes of stores.
func storeTable(s *study) (string, error) {
	var t table
	t.head(s.synthetic("stores"), "`--dtype`", "tensors", "of FP32", "`.demi`, `fast`", "of FP32", "`.demi`, `small`", "of FP32")
	whole := int64(0)
	for _, target := range []demi.Target{demi.Keep, demi.To(tensor.F16), demi.To(tensor.BF16), demi.Auto} {
		tensors, fast, err := stored(s.measured(), target, codec.Fast)
		if err != nil {
			return "", err
		}
		_, small, err := stored(s.measured(), target, codec.Small)
		if err != nil {
			return "", err
		}
		whole = cmp.Or(whole, tensors)
		cells := []any{target}
		for _, n := range []int64{tensors, fast, small} {
			cells = append(cells, bytes(n), fmt.Sprintf("%.1f %%", 100*float64(n)/float64(whole)))
		}
		t.row(cells...)
	}
	return t.String(), nil
}

func snr(s *tensor.Stats) string { return verify.Decibel(s.SNR()) }

func number(x float64) string { return fmt.Sprintf("%.3g", x) }

// bytes writes a size in decimal units, with a digit more than humanize does.
func bytes(n int64) string {
	v, unit := humanize.ComputeSI(float64(n))
	if n < 1000 {
		return fmt.Sprint(n, " B")
	}
	return fmt.Sprintf("%.4g %sB", v, unit)
}

// took says which types auto takes for how many tensors.
func took(to map[tensor.DType]int) string {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(to)) {
		parts = append(parts, fmt.Sprint(to[d], " ", d))
	}
	return strings.Join(parts, ", ")
}
