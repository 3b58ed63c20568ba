package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func verifyCommand(a *app) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify REF GOT",
		Short: "Measure GOT against REF, tensor by tensor",
		Long: `Compares two checkpoints by the names of their tensors, whatever they are stored
in, and prints the error of every tensor. Differing values are a result, not a
failure; the exit code is 1 if a limit is violated, if tensors are missing,
additional or of another shape, if stored bytes that are not floating-point
values differ, or if GOT is a store whose own figures are not those found.`,
		Example: `  demi verify model.safetensors model-bf16.safetensors --worst 10
  demi verify model.safetensors model.gguf --map auto --rule auto
  demi verify model.safetensors half.demi --min-snr 50 --no-overflow --report cost.html`,
		Args: exactArgs("REF GOT", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.verify(cmd.Context(), args[0], args[1], &f, cmd.Flags().Changed("round"))
		},
	}
	f.add(c.Flags())
	addTable(c.Flags(), &f.table)
	addReport(c.Flags(), &f.report)
	addCheck(a, c)
	return c
}

func (a *app) verify(ctx context.Context, refPath, gotPath string, f *verifyFlags, roundSet bool) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := checkReport(f.report, ""); err != nil {
		return err
	}
	ref, err := a.open(ctx, refPath)
	if err != nil {
		return err
	}
	defer ref.Close()
	got, err := a.open(ctx, gotPath)
	if err != nil {
		return err
	}
	defer got.Close()
	f.title = shown(refPath) + " → " + shown(gotPath)
	c := &comparison{ref: ref, got: got, flags: f}
	if err := c.prepare(a, roundSet); err != nil {
		return err
	}
	m := a.verifyMeter(&c.options, ref)
	c.report, err = verify.Measure(ctx, c.from, c.to, &c.options)
	m.stop()
	if err != nil {
		return err
	}
	c.judge()
	for _, r := range f.limits.Unused(c.report) {
		a.warn([]string{fmt.Sprintf("no tensor has the limits of the entry %q", r.Match)})
	}
	if err := a.reportComparison(c); err != nil {
		return err
	}
	return c.verdict()
}

// A comparison is one run of verify.
type comparison struct {
	ref, got *demi.Checkpoint
	flags    *verifyFlags
	options  verify.Options
	stored   []tensor.Record // what GOT carries of itself
	from, to tensor.Source   // REF and GOT under the same names
	mapping  *verify.Mapping // of --map auto, else nil
	unsure   map[string]bool // tensors whose layout may differ

	report     *verify.Report
	checked    int // tensors whose stored figures were compared
	violations []verify.Violation
}

// prepare makes the options. GOT may say itself how it was rounded.
func (c *comparison) prepare(a *app, roundSet bool) (err error) {
	if err := c.names(); err != nil {
		return err
	}
	if len(c.flags.maps) == 0 { // a store has the names of what it was made from
		if c.stored, err = c.got.Records(); err != nil {
			return err
		}
	}
	run, err := a.runOptions()
	if err != nil {
		return err
	}
	buffers, err := run.Buffers(c.ref, c.got)
	if err != nil {
		return err
	}
	f := c.flags
	mode := kernels.Mode{Rounding: f.rounding}
	for i := range c.stored {
		if r, err := kernels.ParseRounding(c.stored[i].Rounding); err == nil && !roundSet {
			mode.Rounding = r
			break
		}
	}
	c.options = verify.Options{
		Workers: run.Workers, MaxMemory: buffers, Mode: mode, Explain: f.rule != "",
		Detail:       f.detail || f.limits.NeedDetail() || strings.EqualFold(filepath.Ext(f.report), ".html"),
		AllowMissing: matcher(f.missing), AllowExtra: matcher(f.extra), Uncertain: c.uncertain,
	}
	return nil
}

// names gives the tensors of both the same names.
func (c *comparison) names() (err error) {
	c.from, c.to = c.ref.Untied(), c.got.Untied()
	if f := c.flags; len(f.renamings) > 0 {
		if c.from, err = verify.Rename(c.from, f.renamings); err != nil {
			return usageError{fmt.Errorf("--map: %w", err)}
		}
	}
	if c.flags.mapAuto {
		if c.from, c.to, c.mapping, err = verify.MapNames(c.from, c.to); err != nil {
			return err
		}
		c.unsure = make(map[string]bool, len(c.mapping.Uncertain))
		for _, name := range c.mapping.Uncertain {
			c.unsure[name] = true
		}
	}
	return nil
}

// uncertain tells whether the layout of a tensor may differ.
func (c *comparison) uncertain(name string) bool { return c.unsure[name] }

// judge finds what is not as it should be.
func (c *comparison) judge() {
	var problems []verify.Problem
	c.checked, problems = c.report.CheckStored(c.stored)
	c.report.Problems = append(c.report.Problems, problems...)
	for _, v := range c.flags.limits.Check(c.report) {
		if c.uncertain(v.Tensor) {
			c.report.Allowed = append(c.report.Allowed, verify.Problem{Tensor: v.Tensor, Text: v.Limit + ": " + v.Text})
		} else {
			c.violations = append(c.violations, v)
		}
	}
	for i := range c.report.Allowed {
		if p := &c.report.Allowed[i]; c.uncertain(p.Tensor) {
			p.Text = "layout may differ: " + p.Text
		}
	}
}

// verdict is the error that decides the exit code.
func (c *comparison) verdict() error {
	if n := len(c.violations); n > 0 {
		v := c.violations[0]
		return fmt.Errorf("%w: %s, the first: tensor %q: %s: %s", errViolated, english.Plural(n, "violation", ""), v.Tensor, v.Limit, v.Text)
	}
	if n := len(c.report.Problems); n > 0 {
		p := c.report.Problems[0]
		return fmt.Errorf("%w: %s, the first: tensor %q: %s", errViolated, english.Plural(n, "problem", ""), p.Tensor, p.Text)
	}
	return nil
}

// verifyMeter shows the progress of a comparison.
func (a *app) verifyMeter(o *verify.Options, ref *demi.Checkpoint) *meter {
	var run demi.RunOptions
	m := a.newMeter(&run)
	if run.Progress == nil {
		return m
	}
	now := demi.Progress{Phase: "verify"}
	for t := range ref.Tensors() {
		now.Total += t.Info().Size
	}
	o.Progress = func(done int64) {
		now.Done = done
		run.Progress(now)
	}
	return m
}
