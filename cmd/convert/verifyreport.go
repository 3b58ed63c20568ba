package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi/verify"
)

// A verdict is what a document of verify has beside figures.
type verdict struct {
	Limits     bool               `json:"limits_set"` // whether there were any
	Violations []verify.Violation `json:"violations"`
	Allowed    []verify.Problem   `json:"allowed"`               // missing and additional tensors that may be so, and what may be another layout
	Mapping    *verify.Mapping    `json:"mapping,omitempty"`     // of --map auto
	Stored     int                `json:"stored_figures"`        // tensors whose figures were compared with those that GOT carries
	Explained  *explained         `json:"explanation,omitempty"` // of --rule auto
}

// explained says which rules explain all tensors; without any, Unexplained is
// the first tensor that has no rule, "" if each has one of its own.
type explained struct {
	Rules       []string `json:"rules"`
	Unexplained string   `json:"unexplained,omitempty"`
}

func (c *comparison) newVerdict() *verdict {
	v := &verdict{Limits: !c.flags.limits.Empty(), Violations: c.violations, Allowed: c.report.Allowed, Mapping: c.mapping, Stored: c.checked}
	if c.options.Explain {
		v.Explained = &explained{}
		v.Explained.Rules, v.Explained.Unexplained = c.report.Explained()
	}
	return v
}

func (a *app) reportComparison(c *comparison) error {
	r, f := c.report, c.flags
	d := &document{
		Version: documentVersion, Command: "verify", Program: program(), Inputs: newFiles(c.ref), Outputs: newFiles(c.got),
		Summary: verify.Summarize(r.Records), Groups: verify.NewGroups(r.Records), Tensors: r.Rows(), Problems: r.Problems, Warnings: a.warnings,
		Seconds: time.Since(a.started).Seconds(), records: r.Records, title: f.title, verdict: c.newVerdict(),
	}
	if err := writeReport(f.report, d); err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(d)
	}
	if a.quiet {
		return nil
	}
	a.table(r.Records, f.table)
	a.printSummary(d.Summary, r.Records)
	if c.options.Detail {
		a.printDetails(r)
	}
	a.printBias(r)
	if c.options.Explain {
		a.printExplained(r, d.Explained)
	}
	a.printVerdict(c, d.verdict)
	return a.outErr
}

// printVerdict says what is not as it should be.
func (a *app) printVerdict(c *comparison, v *verdict) {
	if m := v.Mapping; m != nil {
		a.print(fmt.Sprintf("mapped: %s of Hugging Face and GGUF (%s): %d with rows in another order, %d norms with 1 added, %d whose layout may differ\n",
			english.Plural(m.Renamed, "tensor", ""), cmp.Or(printable(m.Family), "of no known architecture"), m.Permuted, m.Shifted, len(m.Uncertain)))
	}
	for _, p := range c.report.Problems {
		a.print(fmt.Sprintf("problem: %s: %s\n", printable(p.Tensor), printable(p.Text)))
	}
	for _, p := range v.Allowed {
		a.print(fmt.Sprintf("allowed: %s: %s\n", printable(p.Tensor), printable(p.Text)))
	}
	if v.Stored > 0 {
		a.print(fmt.Sprintf("stored figures: those of %s were compared\n", english.Plural(v.Stored, "tensor", "")))
	}
	switch {
	case !v.Limits:
		a.print("limits: none set\n")
	case len(v.Violations) == 0:
		a.print("limits: all met\n")
	}
	for _, x := range v.Violations {
		a.print(fmt.Sprintf("violated: %s: %s: %s\n", printable(x.Tensor), x.Limit, x.Text))
	}
}

// printBias names the tensors whose errors lean to one side.
func (a *app) printBias(r *verify.Report) {
	var names, sides []string
	for i := range r.Records {
		s := r.Records[i].Stats
		if s == nil {
			continue
		}
		side := verify.Biased(s)
		if i < len(r.Details) {
			side = r.Details[i].OneSided(s)
		}
		if side != "" {
			names, sides = append(names, r.Records[i].Name), append(sides, side)
		}
	}
	if len(names) > 0 {
		a.print(fmt.Sprintf("biased: the errors of %s lean to one side; the first is %s, %s\n",
			english.Plural(len(names), "tensor", ""), printable(names[0]), sides[0]))
	}
}

// printExplained says which rounding the values come from.
func (a *app) printExplained(r *verify.Report, all *explained) {
	switch {
	case len(all.Rules) > 0:
		a.print(fmt.Sprintf("rule: every value is what %s gives\n", strings.Join(verify.Simplest(all.Rules), ", or ")))
		return
	case all.Unexplained == "":
		a.print("rule: no single one; each tensor has one of its own (--json lists them)\n")
		return
	}
	left := 3
	for i, e := range r.Explanations {
		if e == nil || e.Deviation == nil {
			continue
		}
		if left--; left < 0 {
			a.print("rule: more tensors are not explained (--json lists them)\n")
			return
		}
		d := e.Deviation
		a.print(fmt.Sprintf("rule: none explains %s: at [%d] %s became %s, where %s gives %s\n", printable(shorten(r.Records[i].Name, 60)),
			d.Index, verify.Exact(d.Ref), verify.Exact(d.Got), d.Rule, verify.Exact(d.Want)))
	}
}

// printDetails sums up what --detail has measured.
func (a *app) printDetails(r *verify.Report) {
	var ulps [verify.ULPBuckets]int64
	var pairs, saturated int64
	worst, merged, top := -1, -1, -1
	for i, d := range r.Details {
		if d == nil {
			continue
		}
		for k, n := range d.ULPs {
			ulps[k] += n
			pairs += n
		}
		saturated += d.Saturated
		if d.MaxRelIndex >= 0 && (worst < 0 || d.MaxRel > r.Details[worst].MaxRel) {
			worst = i
		}
		if d.DistinctGot < d.DistinctRef && (merged < 0 || d.DistinctGot*r.Details[merged].DistinctRef < r.Details[merged].DistinctGot*d.DistinctRef) {
			merged = i
		}
		if d.Top < d.TopK && (top < 0 || d.Top < r.Details[top].Top) {
			top = i
		}
	}
	name := func(i int) string { return printable(shorten(r.Records[i].Name, 60)) }
	a.print(fmt.Sprintf("errors: %s none, %s up to 1/2 ULP, %s up to 1, %s more; %s saturated\n", verify.Percent(ulps[0], pairs),
		verify.Percent(ulps[1], pairs), verify.Percent(ulps[2], pairs), verify.Percent(pairs-ulps[0]-ulps[1]-ulps[2], pairs), comma(saturated)))
	if worst >= 0 {
		d := r.Details[worst]
		a.print(fmt.Sprintf("largest relative error: %s in %s at [%d]: %s became %s\n", verify.Short(d.MaxRel), name(worst), d.MaxRelIndex,
			verify.Exact(d.MaxRelRef), verify.Exact(d.MaxRelGot)))
	}
	if merged >= 0 {
		d := r.Details[merged]
		a.print(fmt.Sprintf("fewest distinct values: %s has %s of %s, among %s elements\n", name(merged), comma(d.DistinctGot), comma(d.DistinctRef), comma(d.DistinctOf)))
	}
	if top >= 0 {
		d := r.Details[top]
		a.print(fmt.Sprintf("largest elements: of the %d of %s %d are still among them\n", d.TopK, name(top), d.Top))
	}
}
