package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/verify"
)

// verifyFlags are the flags of a comparison.
type verifyFlags struct {
	round, report string
	table         tableFlags
	title         string // of a report
}

func verifyCommand(a *app) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify REF GOT",
		Short: "Measure GOT against REF, tensor by tensor",
		Long: `Compares two checkpoints by the names of their tensors, whatever they are stored
in, and prints the error of every tensor. Differing values are a result, not a
failure; the exit code is 1 if tensors are missing, additional or of another
shape, or if stored bytes that are not floating-point values differ.`,
		Args: exactArgs("REF GOT", 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd, args[0], args[1], &f) },
	}
	c.Flags().StringVar(&f.round, "round", "nearest-even", "how GOT was rounded, which decides what counts as overflow")
	addTable(c.Flags(), &f.table)
	addReport(c.Flags(), &f.report)
	addCheck(a, c)
	return c
}

func (a *app) verify(cmd *cobra.Command, refPath, gotPath string, f *verifyFlags) error {
	r, err := kernels.ParseRounding(f.round)
	if err != nil {
		return usageError{err}
	}
	f.title = shown(refPath) + " → " + shown(gotPath)
	if err := f.table.check(); err != nil {
		return err
	}
	if err := checkReport(f.report, "", refPath, gotPath); err != nil {
		return err
	}
	ref, err := a.open(cmd.Context(), refPath)
	if err != nil {
		return err
	}
	defer ref.Close()
	got, err := a.open(cmd.Context(), gotPath)
	if err != nil {
		return err
	}
	defer got.Close()
	run, err := a.runOptions()
	if err != nil {
		return err
	}
	buffers, err := run.Buffers(ref, got)
	if err != nil {
		return err
	}
	o := verify.Options{Workers: run.Workers, MaxMemory: buffers, Mode: kernels.Mode{Rounding: r}}
	m := a.verifyMeter(&o, ref)
	records, problems, err := verify.Compare(cmd.Context(), ref.Source(), got.Source(), &o)
	m.stop()
	if err != nil {
		return err
	}
	if err := a.reportComparison(ref, got, records, problems, f); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %d problems, the first: tensor %q: %s", errViolated, len(problems), problems[0].Tensor, problems[0].Text)
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
