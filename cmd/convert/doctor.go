package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/doctor"
)

func doctorCommand(a *app) *cobra.Command {
	var o doctor.Options
	var fix bool
	c := &cobra.Command{
		Use:   "doctor DIR|FILE...",
		Short: "Say what is wrong with a checkpoint, and mend it",
		Long: `Looks at a file, or at all files of a directory, and prints one line for every
fault, with what to do about it. Headers, indexes and the configuration are
read, the values with --scan alone; nothing in a file is run.

--fix does the repairs that lose nothing: it writes safetensors again with an
aligned header and the metadata that loaders ask for, makes an index from the
headers of its shards, corrects the type in config.json, and removes what demi
has left of an output that was not completed.

The exit code is 1 if there are errors or warnings; notes alone do not count.`,
		Example: `  demi doctor ./model
  demi doctor --fix ./model
  demi doctor --scan --json model-00001-of-00003.safetensors`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hinted(usagef("%s takes DIR or FILE, as many as you like, and was given none", cmd.CommandPath()), cmd.CommandPath()+" --help has examples")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := a.runOptions()
			if err != nil {
				return err
			}
			meter := a.newMeter(&run)
			defer meter.stop()
			o.Workers, o.MaxMemory = run.Workers, run.MaxMemory
			if o.Workers == 0 {
				o.Workers = min(8, 2*runtime.GOMAXPROCS(0)) // as for all commands
			}
			if run.Progress != nil {
				o.Progress = func(p doctor.Progress) {
					run.Progress(demi.Progress{Phase: "scan", Done: p.Done, Total: p.Total, Tensor: p.File})
				}
			}
			return a.doctor(cmd.Context(), args, &o, fix, meter)
		},
	}
	c.Flags().BoolVar(&o.Scan, "scan", false, "read the values, for NaN and Inf, and compare checksums")
	c.Flags().BoolVar(&fix, "fix", false, "do the repairs that lose nothing")
	return c
}

// An examination is what doctor prints as JSON.
type examination struct {
	Version  int               `json:"version"`
	Command  string            `json:"command"`
	Program  string            `json:"program"`
	Paths    []string          `json:"paths"`
	Findings []examinedFinding `json:"findings"`
	Repairs  []doctor.Repair   `json:"repairs"` // what --fix has done
	Summary  examinedSummary   `json:"summary"`
}

type examinedFinding struct {
	doctor.Finding
	Offset *int64 `json:"offset,omitempty"`
}

type examinedSummary struct {
	Files    int   `json:"files"`
	Tensors  int   `json:"tensors"`
	Bytes    int64 `json:"tensor_bytes"`
	Errors   int   `json:"errors"`
	Warnings int   `json:"warnings"`
	Notes    int   `json:"notes"`
	Fixable  int   `json:"fixable"`
}

func (a *app) doctor(ctx context.Context, paths []string, o *doctor.Options, fix bool, meter *meter) error {
	x := &examination{Version: documentVersion, Command: "doctor", Program: program(), Paths: paths}
	examine := doctor.Examine
	if fix {
		examine = doctor.Fix
	}
	for _, path := range paths {
		if demi.IsURL(path) {
			return usagef("doctor looks at files on this machine, not at %s", path)
		}
		r, err := examine(ctx, path, o)
		meter.stop()
		if err != nil {
			if r != nil && !a.json { // what was done before it failed
				a.printRepairs(r.Repairs)
			}
			return sourceError(err)
		}
		x.add(r)
	}
	if a.json {
		if err := a.writeJSON(x); err != nil {
			return err
		}
	} else if err := a.printExamination(x); err != nil {
		return err
	}
	if bad := x.Summary.Errors + x.Summary.Warnings; bad > 0 {
		f := x.Findings[0]
		return fmt.Errorf("%w: %s, the first: %s: %s", errViolated, english.Plural(bad, "error or warning", "errors and warnings"), f.File, f.Text)
	}
	return nil
}

// add adds the report on one path.
func (x *examination) add(r *doctor.Report) {
	s := &x.Summary
	s.Files, s.Tensors, s.Bytes = s.Files+r.Files, s.Tensors+r.Tensors, s.Bytes+r.Bytes
	x.Repairs = append(x.Repairs, r.Repairs...)
	for _, f := range r.Findings {
		e := examinedFinding{Finding: f}
		if f.Offset >= 0 {
			e.Offset = &f.Offset
		}
		x.Findings = append(x.Findings, e)
		switch f.Severity {
		case doctor.Error:
			s.Errors++
		case doctor.Warning:
			s.Warnings++
		default:
			s.Notes++
		}
		if f.Fixable {
			s.Fixable++
		}
	}
}

func (a *app) printRepairs(repairs []doctor.Repair) {
	for _, r := range repairs {
		a.print(fmt.Sprintf("fixed    %s: %s\n", printable(r.File), printable(r.Text)))
	}
}

// printExamination prints a line for each repair and each finding; with -q
// nothing but errors and warnings.
func (a *app) printExamination(x *examination) error {
	if !a.quiet {
		a.printRepairs(x.Repairs)
	}
	for _, f := range x.Findings {
		if a.quiet && !f.Bad() {
			continue
		}
		a.print(findingLine(&f) + "\n")
	}
	if a.quiet {
		return a.outErr
	}
	s := x.Summary
	a.print(fmt.Sprintf("%s, %s, %s bytes: ", english.Plural(s.Files, "file", ""), english.Plural(s.Tensors, "tensor", ""), comma(s.Bytes)))
	switch {
	case len(x.Findings) == 0:
		a.print("nothing is wrong\n")
	case s.Fixable > 0:
		a.print(fmt.Sprintf("%s, %s, %s; --fix can do %d of them\n", english.Plural(s.Errors, "error", ""), english.Plural(s.Warnings, "warning", ""), english.Plural(s.Notes, "note", ""), s.Fixable))
	default:
		a.print(fmt.Sprintf("%s, %s, %s\n", english.Plural(s.Errors, "error", ""), english.Plural(s.Warnings, "warning", ""), english.Plural(s.Notes, "note", "")))
	}
	return a.outErr
}

// findingLine is one line for a finding.
func findingLine(f *examinedFinding) string {
	line := fmt.Sprintf("%-8s %s: ", f.Severity, printable(f.File))
	if f.Tensor != "" {
		line += fmt.Sprintf("tensor %q: ", f.Tensor)
	}
	if f.Offset != nil {
		line += fmt.Sprintf("byte %d: ", *f.Offset)
	}
	line += fmt.Sprintf("%s (%s); %s", printable(f.Text), f.Code, printable(f.Fix))
	if f.Fixable {
		line += ", or --fix"
	}
	return line
}
