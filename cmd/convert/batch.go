package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/batch"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// batchFlags are those of plan that make a plan of tasks.
type batchFlags struct {
	tasks        int
	list, output string
	scan         bool
}

func (b *batchFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&b.tasks, "tasks", 0, "make a plan of so many tasks, for demi run and demi merge; it reads headers alone")
	f.StringVar(&b.list, "list", "", "with --tasks: a file of lines SRC<tab>DST, for many checkpoints, in place of the arguments")
	f.StringVarP(&b.output, "output", "o", "", "write the plan to this file")
	f.BoolVar(&b.scan, "scan", false, "with --tasks: read the values that decide now, not in tasks of their own")
}

// check refuses what does not go together.
func (b *batchFlags) check(cmd *cobra.Command, f *convertFlags) error {
	if b.output != "" {
		if err := checkWritable("--output", b.output, "", planBeginning); err != nil {
			return err
		}
	}
	switch set := cmd.Flags(); {
	case !set.Changed("tasks") && (b.list != "" || b.scan):
		return usagef("--list and --scan are for a plan of tasks: --tasks says of how many")
	case !set.Changed("tasks"):
		return nil
	case b.tasks < 1 || b.tasks > batch.MaxTasks:
		return usagef("--tasks %d: that is from 1 to %d", b.tasks, batch.MaxTasks)
	case b.output == "":
		return usagef("a plan of tasks goes to a file: --output plan.json")
	case f.plan != "" || set.Changed(explain) || f.restore:
		return usagef("--plan, --explain and --restore do not go with --tasks")
	case f.tie:
		return usagef("--tie is for one process, which looks for equal tensors in all files: it does not go with --tasks")
	case b.scan && unscanned(set):
		return usagef("of --scan and --no-scan only one can be")
	}
	return nil
}

// A pair is a source and its destination.
type pair struct{ src, dst string }

// pairs returns the jobs that were asked for, with absolute paths.
func (b *batchFlags) pairs(args []string) (list []pair, err error) {
	if b.list == "" {
		return absolute([]pair{{args[0], args[1]}})
	}
	f, err := os.Open(b.list)
	if err != nil {
		return nil, sourceError(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		src, dst, ok := strings.Cut(line, "\t")
		if !ok || src == "" || dst == "" || strings.Contains(dst, "\t") {
			return nil, usagef("%s, line %d: %q is not SRC<tab>DST", b.list, n, line)
		}
		list = append(list, pair{src, dst})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", b.list, err)
	}
	return absolute(list)
}

// absolute makes paths absolute, and refuses an output that two jobs have.
func absolute(list []pair) ([]pair, error) {
	seen := map[string]string{}
	for i := range list {
		for _, path := range []*string{&list[i].src, &list[i].dst} {
			if !utf8.ValidString(*path) {
				return nil, usagef("%q is not UTF-8, in which a plan is written", *path)
			}
			if demi.IsURL(*path) || *path == toStdout {
				continue
			}
			abs, err := filepath.Abs(*path)
			if err != nil {
				return nil, err
			}
			*path = abs
		}
		p := list[i]
		place := resolved(p.dst)
		if other, ok := seen[place]; ok {
			return nil, usagef("%s is the destination of %s and of %s", place, shown(other), shown(p.src))
		}
		seen[place] = p.src
	}
	return list, nil
}

// resolved returns a path without symbolic links, as far as it is there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// planTasks makes a plan of tasks. A checkpoint for which there can be none does
// not keep the others out of it.
func (a *app) planTasks(cmd *cobra.Command, f *convertFlags, b *batchFlags, args []string) error {
	list, err := b.pairs(args)
	if err != nil {
		return err
	}
	var builder batch.Builder
	var first error
	failed := 0
	for _, p := range list {
		err := a.planJob(cmd, f, b, p, &builder)
		if cause := context.Cause(cmd.Context()); cause != nil {
			return cause
		}
		if err == nil {
			continue
		}
		if b.list == "" || classify(err) == classUsage {
			return err
		}
		failed++
		if first == nil {
			first = err
		}
		a.warn([]string{fmt.Sprintf("%s: %v", shown(p.src), err)})
		failure := failureOf(err)
		if err := builder.AddFailed(&batch.Job{Source: p.src, Output: p.dst, Failure: &failure}); err != nil {
			return err
		}
	}
	plan, err := builder.Write(b.output, b.tasks)
	if err != nil {
		return err
	}
	if err := a.reportTasks(plan, b.output, len(list), failed); err != nil || first == nil {
		return err
	}
	return told{fmt.Errorf("%d of %d checkpoints are not in the plan; the first: %w", failed, len(list), first)}
}

// planJob adds one conversion to a plan of tasks.
func (a *app) planJob(cmd *cobra.Command, f *convertFlags, b *batchFlags, of pair, builder *batch.Builder) error {
	if of.dst == toStdout {
		return usagef("tasks write files, not to stdout")
	}
	j, c, p, err := a.prepare(cmd, f, of.src, of.dst)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	job, err := batch.NewJob(of.src, of.dst, p, c, &j.create)
	if err != nil {
		return err
	}
	if j.create.IfExists == demi.Skip {
		done, err := demi.Finished(of.dst, p, c, &j.create)
		if err != nil {
			return err
		}
		if job.Skipped = done; done {
			return builder.AddFailed(job)
		}
	}
	if _, err := a.sink(j, p, c); err != nil {
		return outputHint(err, of.src, of.dst)
	}
	if b.scan && p.Undecided() > 0 {
		meter := a.newMeter(&j.run)
		defer meter.stop()
		if err := p.Decide(cmd.Context(), c, &j.run); err != nil {
			return err
		}
		if job, err = batch.NewJob(of.src, of.dst, p, c, &j.create); err != nil {
			return err
		}
	}
	return builder.Add(job, p, c)
}

// failureOf is what a plan says of an error.
func failureOf(err error) batch.Failure {
	var f *batch.Failure
	if errors.As(err, &f) {
		return *f
	}
	c := classify(err)
	return batch.Failure{Class: c.Name, Exit: c.Code, Retry: c.Retry, Message: err.Error()}
}

// told is an error of which stdout has said all: it is not told there again.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

// A tasksDocument is what plan prints of a plan of tasks.
type tasksDocument struct {
	Version  int         `json:"version"`
	Command  string      `json:"command"` // "tasks"
	Program  string      `json:"program"`
	Plan     string      `json:"plan"`
	Phase    batch.Phase `json:"phase"`
	Tasks    int         `json:"tasks"`
	Jobs     int         `json:"jobs"`
	Failed   int         `json:"failed"` // of the jobs
	Files    int         `json:"files"`  // of the outputs; 0 until the values have been read
	Least    int64       `json:"least_bytes"`
	Most     int64       `json:"most_bytes"` // of a task
	Warnings []string    `json:"warnings,omitempty"`
}

func newTasksDocument(p *batch.Plan, path string) *tasksDocument {
	d := &tasksDocument{Version: documentVersion, Command: "tasks", Program: program(), Plan: path, Phase: p.Phase, Tasks: len(p.Tasks)}
	for k, t := range p.Tasks {
		if k == 0 {
			d.Least = t.Bytes
		}
		d.Least, d.Most = min(d.Least, t.Bytes), max(d.Most, t.Bytes)
		for _, w := range t.Work {
			d.Files += len(w.Files)
		}
	}
	return d
}

func (a *app) reportTasks(p *batch.Plan, path string, jobs, failed int) error {
	d := newTasksDocument(p, path)
	d.Jobs, d.Failed, d.Warnings = jobs, failed, a.warnings
	if a.json {
		return a.writeJSON(d)
	}
	if a.quiet {
		return nil
	}
	work := english.Plural(d.Files, "file", "") + " to write"
	if d.Phase == batch.Scan {
		work = "values to read first"
	}
	a.print(fmt.Sprintf("%s: %s, %s, %s of %s to %s\n", printable(path), english.Plural(jobs, "checkpoint", ""), work,
		english.Plural(d.Tasks, "task", ""), formatBytes(d.Least), formatBytes(d.Most)))
	if d.Phase == batch.Convert && d.Files < d.Tasks {
		a.print(fmt.Sprintf("a file is not divided: %s nothing to do (a smaller --max-shard-size makes more files)\n",
			english.Plural(d.Tasks-d.Files, "task has", "tasks have")))
	}
	a.print(nextSteps(d))
	return a.outErr
}

// nextSteps says what to do with a plan.
func nextSteps(d *tasksDocument) string {
	flag := ""
	if d.Phase == batch.Scan {
		flag = " --scan"
	}
	return fmt.Sprintf("next: demi run%s %s --index I, for I from 0 to %d; then demi merge%s %s\n", flag, printable(d.Plan), d.Tasks-1, flag, printable(d.Plan))
}

// indexVariables are where schedulers say which task of several a process is:
// Kubernetes (Indexed Jobs) and Slurm (job arrays).
var indexVariables = []string{"JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID"}

func runCommand(a *app) *cobra.Command {
	index, scan := 0, false
	c := &cobra.Command{
		Use:   "run PLAN",
		Short: "Run a task of a plan that demi plan --tasks has made",
		Long: `demi run writes the files of one task of a plan, each beside its destination, with
a receipt; demi merge puts them together when all tasks have been run. Tasks may
run at the same time, on machines that share a file system, and again: what is
complete is not done again.

The index of the task is that of --index, or of ` + strings.Join(indexVariables, " or ") + `.`,
		Example: `  demi plan ./model ./model-bf16 --dtype bf16 --tasks 4 -o plan.json
  demi run plan.json --index 0`,
		Args: exactArgs("PLAN", 1),
	}
	c.Flags().IntVar(&index, "index", 0, "number of the task, from 0")
	c.Flags().BoolVar(&scan, "scan", false, "read the values that decide, in a plan that has not been decided")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("index") {
			var err error
			if index, err = indexFrom(os.Getenv); err != nil {
				return err
			}
		}
		return a.runTask(cmd.Context(), args[0], index, scan)
	}
	return c
}

// indexFrom returns the index that a scheduler has given.
func indexFrom(getenv func(string) string) (int, error) {
	for _, name := range indexVariables {
		if text := getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return 0, usagef("%s is %q, which is no index of a task", name, text)
			}
			return n, nil
		}
	}
	return 0, usagef("which task? --index says it, or %s", strings.Join(indexVariables, " or "))
}

// runner returns what carries plans out.
func (a *app) runner() (*batch.Runner, error) {
	run, err := a.runOptions()
	return &batch.Runner{
		Open: func(ctx context.Context, source string, o *demi.PlanOptions) (*demi.Checkpoint, error) {
			a.lenient, a.dequant = o.Lenient, o.Dequantize
			return a.open(ctx, source)
		},
		Classify: failureOf,
		Warn:     func(text string) { a.warn([]string{text}) },
		Options:  run,
	}, err
}

// A runDocument is what run prints as JSON.
type runDocument struct {
	Version  int         `json:"version"`
	Command  string      `json:"command"` // "run"
	Program  string      `json:"program"`
	Phase    batch.Phase `json:"phase"`
	Task     int         `json:"task"`
	Tasks    int         `json:"tasks"`
	Work     []runWork   `json:"work"`
	Warnings []string    `json:"warnings,omitempty"`
	Seconds  float64     `json:"seconds"`
}

// A runWork is what became of a file, or of what is to be read of a checkpoint.
type runWork struct {
	Source  string          `json:"src"`
	Output  string          `json:"dst"`
	File    string          `json:"file,omitempty"`
	Status  string          `json:"status"` // "done", "kept", "failed"
	Tensors int             `json:"tensors"`
	Summary *verify.Summary `json:"summary,omitempty"` // of the tensors of the file
	Error   *batch.Failure  `json:"error,omitempty"`
}

func newRunWork(d *batch.Done) runWork {
	w := runWork{Source: shown(d.Job.Source), Output: d.Job.Output, File: d.File, Status: "kept", Tensors: d.Tensors + len(d.Records)}
	if d.Written {
		w.Status = "done"
	}
	if d.Records != nil {
		w.Summary = verify.Summarize(d.Records)
	}
	if d.Err != nil {
		f := failureOf(d.Err)
		w.Status, w.Error = "failed", &f
	}
	return w
}

// text returns the line for a reader.
func (w *runWork) text() string {
	what := printable(w.Source) + " -> " + printable(w.Output)
	if w.File != "" {
		what += ": " + printable(w.File)
	}
	status := map[string]string{"done": "written", "kept": "was there", "failed": "failed"}[w.Status]
	switch {
	case w.Error != nil:
		return fmt.Sprintf("%s: failed: %s\n", what, printableLines(w.Error.Message))
	case w.Summary == nil:
		if w.Status == "done" {
			status = "read"
		}
		return fmt.Sprintf("%s: %s, %s\n", what, english.Plural(w.Tensors, "tensor", ""), status)
	}
	return fmt.Sprintf("%s: %s, %s, %s\n", what, english.Plural(w.Tensors, "tensor", ""), formatBytes(w.Summary.BytesOut), status)
}

func (a *app) runTask(ctx context.Context, path string, index int, scan bool) error {
	r, err := a.runner()
	if err != nil {
		return err
	}
	meter := a.newMeter(&r.Options)
	defer meter.stop()
	d := &runDocument{Version: documentVersion, Command: "run", Program: program(), Task: index, Work: []runWork{}}
	do := r.Task
	if scan {
		do = r.Scan
	}
	p, err := do(ctx, path, index, func(done *batch.Done) error {
		d.Work = append(d.Work, newRunWork(done))
		return nil
	})
	meter.stop()
	if err != nil && len(d.Work) == 0 {
		return planError(err)
	}
	d.Phase, d.Tasks, d.Warnings, d.Seconds = p.Phase, len(p.Tasks), a.warnings, time.Since(a.started).Seconds()
	if printErr := a.printRun(d); printErr != nil {
		return printErr
	}
	if err != nil {
		return told{err}
	}
	return nil
}

func (a *app) printRun(d *runDocument) error {
	switch {
	case a.json:
		return a.writeJSON(d)
	case a.quiet:
		return nil
	}
	for k := range d.Work {
		a.print(d.Work[k].text())
	}
	if len(d.Work) == 0 {
		a.print(fmt.Sprintf("task %d of %d: there is nothing to do\n", d.Task, d.Tasks))
	}
	return a.outErr
}

// planError marks errors about a plan as those of its user or of input.
func planError(err error) error {
	switch {
	case errors.Is(err, batch.ErrNoTask):
		return usageError{err}
	case errors.Is(err, batch.ErrPhase):
		return hinted(usageError{err}, "demi run --scan for each index, then demi merge --scan")
	case errors.Is(err, fs.ErrNotExist):
		return sourceError(err)
	}
	return err
}

func mergeCommand(a *app) *cobra.Command {
	scan, check := false, false
	c := &cobra.Command{
		Use:   "merge PLAN",
		Short: "Put together what the tasks of a plan have written",
		Long: `demi merge puts the files that the tasks of a plan have written into their places:
each output appears complete, as with demi SRC DST, or not at all. A checkpoint
that is not complete does not keep the others. It may be repeated.

With --json it prints a line of JSON for each checkpoint.`,
		Example: `  demi merge plan.json`,
		Args:    exactArgs("PLAN", 1),
	}
	c.Flags().BoolVar(&scan, "scan", false, "decide the plan by what the tasks of demi run --scan have read")
	c.Flags().BoolVar(&check, "verify", false, "read the outputs again and compare them with their sources")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if scan && check {
			return usagef("--scan and --verify do not go together: there is no output yet")
		}
		if scan {
			return a.mergeScan(cmd.Context(), args[0])
		}
		return a.merge(cmd.Context(), args[0], check)
	}
	return c
}

// A mergeLine is what merge prints of a checkpoint.
type mergeLine struct {
	Version  int             `json:"version"`
	Command  string          `json:"command"` // "merge"
	Program  string          `json:"program"`
	Source   string          `json:"src"`
	Output   string          `json:"dst"`
	Status   string          `json:"status"` // "merged", "skipped", "failed"; of a scan "decided"
	Files    int             `json:"files"`
	Verified bool            `json:"verified,omitempty"`
	Summary  *verify.Summary `json:"summary,omitempty"`
	Error    *batch.Failure  `json:"error,omitempty"`
}

func newMergeLine(m *batch.Merged, status string) *mergeLine {
	l := &mergeLine{Version: documentVersion, Command: "merge", Program: program(), Source: shown(m.Job.Source), Output: m.Job.Output, Status: status, Files: m.Files, Verified: m.Verified}
	if m.Records != nil {
		l.Summary = verify.Summarize(m.Records)
	}
	if m.Skipped {
		l.Status = "skipped"
	}
	if m.Err != nil {
		f := failureOf(m.Err)
		l.Status, l.Error = "failed", &f
	}
	return l
}

func (l *mergeLine) text() string {
	what := printable(l.Source) + " -> " + printable(l.Output)
	s := l.Summary
	switch {
	case l.Error != nil:
		return fmt.Sprintf("%s: failed: %s\n", what, printableLines(l.Error.Message))
	case l.Status == "skipped":
		return what + ": it was there already\n"
	case s == nil:
		return fmt.Sprintf("%s: %s\n", what, l.Status)
	}
	text := fmt.Sprintf("%s: %s, %s of %s", what, english.Plural(l.Files, "file", ""), formatBytes(s.BytesOut), formatBytes(s.BytesIn))
	if s.Stats.Changed > 0 {
		text += fmt.Sprintf(", SNR %.1f dB", s.Stats.SNR())
	}
	if l.Verified {
		text += ", verified"
	}
	return text + "\n"
}

func (a *app) printMerged(l *mergeLine) error {
	switch {
	case a.json:
		text, err := json.Marshal(l, jsonText())
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(append(text, '\n'))
		return err
	case a.quiet:
		return nil
	}
	a.print(l.text())
	return a.outErr
}

func (a *app) merge(ctx context.Context, path string, check bool) error {
	r, err := a.runner()
	if err != nil {
		return err
	}
	if check {
		r.Verify = a.verifyMerged
	}
	lines := 0
	_, err = r.Merge(ctx, path, func(m *batch.Merged) error {
		lines++
		return a.printMerged(newMergeLine(m, "merged"))
	})
	if err != nil && lines > 0 {
		return told{err}
	}
	return planError(err)
}

func (a *app) verifyMerged(ctx context.Context, c *demi.Checkpoint, j *batch.Job, p *demi.Plan, records []tensor.Record) error {
	run, err := a.runOptions()
	if err != nil {
		return err
	}
	out, err := demi.Open(outputOf(j.Output), &demi.OpenOptions{Lenient: a.lenient})
	if err != nil {
		return fmt.Errorf("the output was written, but: %w", err)
	}
	defer out.Close()
	return recheck(ctx, c, out, p, records, run)
}

func (a *app) mergeScan(ctx context.Context, path string) error {
	r, err := a.runner()
	if err != nil {
		return err
	}
	lines := 0
	p, err := r.MergeScan(ctx, path, func(m *batch.Merged) error {
		lines++
		return a.printMerged(newMergeLine(m, "decided"))
	})
	if err == nil && !a.quiet && !a.json {
		a.print(nextSteps(newTasksDocument(p, path)))
		return a.outErr
	}
	if err != nil && lines > 0 {
		return told{err}
	}
	return planError(err)
}
