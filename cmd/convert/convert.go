package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// convertFlags are the flags of a conversion, as text.
type convertFlags struct {
	dtype, round, overflow, subnormals, to string
	onNaN, preset, plan                    string
	output                                 string // for a plan
	drop                                   []string
	ema                                    string
	tie, untie                             bool
	mixed                                  bool
	seed                                   uint64
	keep                                   []string
	pure, force, containerOnly             bool
	order                                  string
	addFormat, keepSplit                   bool
	maxShard                               string
	level                                  string
	align                                  int64
	dryRun, restore, single, keepConfig    bool
	ifExists, report                       string
	verify                                 bool
	table                                  tableFlags
	auto                                   autoFlags
}

func convertCommand(a *app) *cobra.Command { return convertCommandOf(a, new(convertFlags)) }

func convertCommandOf(a *app, f *convertFlags) *cobra.Command {
	c := &cobra.Command{
		Args: exactArgs("SRC DST", 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.convert(cmd, f, args[0], args[1]) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.dtype, "dtype", "exact", "what floating-point tensors become: exact, auto, keep, bf16, f16, f32, f64")
	f.auto.add(fs)
	fs.StringVar(&f.round, "round", "nearest-even", "rounding: "+strings.Join(kernels.Roundings(), ", "))
	fs.Uint64Var(&f.seed, "seed", 0, "seed of stochastic rounding")
	fs.StringVar(&f.overflow, "on-overflow", "ieee", "values beyond the range: ieee, saturate, error, keep (the tensor as it is)")
	fs.StringVar(&f.onNaN, "on-nan", "keep", "NaN in a tensor whose type changes: keep, error (nothing is written)")
	fs.StringVar(&f.subnormals, "subnormals", "keep", "results that are subnormal in the new type: keep, flush (to zero)")
	fs.StringArrayVar(&f.keep, "keep", nil, "rule regex=type for tensor names; may be repeated, the first match wins")
	fs.StringVar(&f.preset, "preset", demi.NoPreset, "rules for a kind of model, which come after those of --keep: "+presetNames())
	fs.StringArrayVar(&f.drop, "drop", nil, "leave out the tensors whose names match this expression; may be repeated")
	fs.StringVar(&f.ema, "ema", "keep", "running averages of weights: keep, use (in place of the weights), drop")
	fs.BoolVar(&f.tie, "tie", false, "write equal tensors once, the others as aliases in the metadata")
	fs.BoolVar(&f.untie, "untie", false, "make tensors of the aliases in the metadata of SRC")
	fs.BoolVar(&f.pure, "pure", false, "cast every floating-point tensor, without exceptions")
	fs.BoolVar(&f.mixed, "mixed", false, "exact: BF16 or F16 for each tensor, whichever holds its values, not one of them for all")
	fs.StringVar(&f.to, "to", "", "format of the output: safetensors, gguf, demi (default by the extension of DST, else that of SRC)")
	fs.BoolVar(&f.containerOnly, "container-only", false, "allow safetensors <-> GGUF, which leaves tensor names and layouts as they are")
	fs.StringVar(&f.order, "order", "aligned", "of tensors in safetensors: aligned (as many on cache lines as the format allows), canonical (as the reference implementation writes)")
	fs.BoolVar(&f.addFormat, "add-format", true, "give safetensors the metadata format = pt, which loaders ask for, if they have no such key")
	fs.StringVar(&f.maxShard, "max-shard-size", "", "size of a shard, such as 5GB or 2GiB (default 5GB when DST is a directory, else one file)")
	fs.BoolVar(&f.keepSplit, "keep-split", false, "shards that hold the tensors that those of SRC hold, whatever their size")
	fs.BoolVar(&f.single, "single-file", false, "one file, whatever its size, when DST is a directory")
	fs.BoolVar(&f.keepConfig, "no-update-config", false, "copy config.json as it is")
	fs.Int64Var(&f.align, "align", 0, "alignment of tensors in a GGUF file (default 32) or a .demi store (default 64)")
	fs.StringVar(&f.level, "level", "fast", "compression of a .demi store: "+strings.Join(codec.Levels(), ", "))
	fs.StringVar(&f.ifExists, "if-exists", "error", "when DST exists: error, skip (if it was made by the same command under skip), replace")
	fs.BoolVarP(&f.force, "force", "f", false, "the same as --if-exists replace")
	fs.BoolVar(&f.restore, "restore", false, "write the files again that the store SRC was made from with --dtype keep, byte for byte")
	fs.StringVar(&f.plan, "plan", "", "carry out a plan that demi plan --json has printed, instead of the options of a new one")
	fs.BoolVar(&f.verify, "verify", false, "read the output again and compare it with the source")
	addTable(fs, &f.table)
	addReport(fs, &f.report)
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the plan and write nothing")
	return c
}

// dashes lets people write --max_memory for --max-memory, and --outtype as
// other converters call it.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if name == "outtype" {
		name = "dtype"
	}
	return pflag.NormalizedName(name)
}

func exactArgs(what string, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if len(args) == 0 && !cmd.HasParent() {
			return pflag.ErrHelp
		}
		return argumentsError(cmd, what, n, args)
	}
}

// options turns flags into options.
func (f *convertFlags) options(dst string) (o demi.Options, err error) {
	check := func(e error) {
		if err == nil && e != nil {
			err = usageError{e}
		}
	}
	var e error
	if o.Target, e = demi.ParseTarget(f.dtype); e != nil {
		e = hinted(e, "the smallest types are bf16 and f16: demi does not quantise")
	}
	check(e)
	o.Rounding, e = kernels.ParseRounding(f.round)
	check(e)
	o.Overflow, e = demi.ParseOverflow(f.overflow)
	check(e)
	o.Flush, e = oneOf("--subnormals", f.subnormals, "keep", "flush")
	check(e)
	for _, k := range f.keep {
		r, e := demi.ParseRule(k)
		check(e)
		o.Rules = append(o.Rules, r)
	}
	for _, text := range f.drop {
		re, e := regexp.Compile(text)
		if e != nil {
			e = fmt.Errorf("--drop %q: %w", text, e)
		}
		check(e)
		o.Drop = append(o.Drop, re)
	}
	o.EMA, e = demi.ParseEMAPolicy(f.ema)
	check(e)
	o.Tie, o.Untie = f.tie, f.untie
	o.Format = demi.FormatOf(dst)
	if f.to != "" {
		o.Format, e = demi.ParseFormat(f.to)
		check(e)
	}
	o.Canonical, e = oneOf("--order", f.order, "aligned", "canonical")
	check(e)
	o.Seed, o.Pure, o.ContainerOnly = f.seed, f.pure, f.containerOnly
	o.NoFormat, o.KeepSplit = !f.addFormat, f.keepSplit
	o.Mixed, o.Preset, o.OnNaN = f.mixed, f.preset, demi.NaNPolicy(f.onNaN)
	check(f.auto.set(&o))
	check(o.Validate())
	return o, err
}

// oneOf reads a flag of two values, and reports whether it is the second.
func oneOf(flag, value, no, yes string) (bool, error) {
	if value != no && value != yes {
		return false, usagef("unknown %s %q (%s, %s)", flag, value, no, yes)
	}
	return value == yes, nil
}

func (f *convertFlags) create() (o demi.CreateOptions, err error) {
	if o.IfExists, err = demi.ParseIfExists(f.ifExists); err != nil {
		return o, usageError{err}
	}
	if f.force {
		o.IfExists = demi.Replace
	}
	o.Align = f.align
	if f.align < 0 || f.align&(f.align-1) != 0 {
		return o, usagef("--align %d is not a power of two", f.align)
	}
	if o.Level, err = codec.ParseLevel(f.level); err != nil {
		return o, usageError{err}
	}
	o.KeepConfig = f.keepConfig
	switch {
	case f.single && f.maxShard != "", f.single && f.keepSplit, f.keepSplit && f.maxShard != "":
		return o, usagef("of --single-file, --keep-split and --max-shard-size only one can be")
	case f.single:
		o.MaxShard = -1
	case f.maxShard != "":
		o.MaxShard, err = parseBytes("--max-shard-size", f.maxShard)
	}
	return o, err
}

// A job is one conversion, with its flags read.
type job struct {
	src, dst string
	options  demi.Options
	create   demi.CreateOptions
	run      demi.RunOptions
	verify   bool
	report   string
	output   string // of a plan
	hash     bool   // the files, for a document
	source   []demi.FileIdentity
	meter    *meter
	table    tableFlags
}

// modelHash is the key in which ModelSpec has the hash of all tensor data, which
// is another one when types or order change.
const modelHash = "modelspec.hash_sha256"

// toStdout is the DST that means standard output.
const toStdout = "-"

func (a *app) newJob(f *convertFlags, src, dst string) (j *job, err error) {
	j = &job{src: src, dst: dst, verify: f.verify, report: f.report, output: f.output, table: f.table}
	j.hash = a.json || strings.EqualFold(filepath.Ext(f.report), ".json")
	if err = j.check(f); err != nil {
		return nil, err
	}
	if j.options, err = f.options(dst); err != nil {
		return nil, err
	}
	j.options.Lenient = a.lenient
	if j.create, err = f.create(); err != nil {
		return nil, err
	}
	j.create.Warn = func(text string) { a.warn([]string{text}) }
	if j.run, err = a.runOptions(); err != nil {
		return nil, err
	}
	if m := j.run.MaxMemory; j.verify && m > 0 && m < recheckMemory {
		return nil, usagef("--verify needs a --max-memory of 2MiB or more")
	}
	if dst == toStdout {
		err = a.reserveStdout()
	}
	return j, err
}

// check refuses what does not go together.
func (j *job) check(f *convertFlags) error {
	switch {
	case j.verify && j.dst == toStdout:
		return usagef("--verify and an output to stdout do not go together: it cannot be read again")
	case demi.IsURL(j.dst):
		return usagef("DST is a URL: only SRC can be one")
	case f.keepSplit && j.dst == toStdout:
		return usagef("--keep-split and an output to stdout do not go together: that is one file")
	case f.dryRun && (j.verify || j.report != "" || j.table.asked()):
		return usagef("--verify, --report, --by and --worst are for a conversion, not for a plan")
	}
	if err := j.table.check(); err != nil {
		return err
	}
	return checkReport(j.report, j.dst)
}

// reserveStdout keeps stdout for the output.
func (a *app) reserveStdout() error {
	if a.json {
		return usagef("--json and an output to stdout do not go together")
	}
	if isTerminal(a.stdout) {
		return usagef("stdout is a terminal: weights are no sight")
	}
	a.text = a.stderr
	return nil
}

// prepare reads the flags, opens the source and makes a plan of headers, or
// loads one: none for --restore. The checkpoint is the caller's to close, also if there is an
// error.
func (a *app) prepare(cmd *cobra.Command, f *convertFlags, src, dst string) (j *job, c *demi.Checkpoint, p *demi.Plan, err error) {
	if err := f.checkPlan(cmd.Flags()); err != nil {
		return nil, nil, nil, err
	}
	if j, err = a.newJob(f, src, dst); err != nil {
		return nil, nil, nil, err
	}
	d, err := a.readPlan(f, cmd.Flags())
	if err != nil {
		return nil, nil, nil, err
	}
	if c, err = a.open(cmd.Context(), src); err != nil {
		return nil, nil, nil, sourceHint(cmd, err, src, dst)
	}
	if f.restore {
		return j, c, nil, nil
	}
	if p, err = f.newPlan(c, dst, j.options, d); err != nil {
		return nil, c, nil, err
	}
	a.warnOf(p)
	return j, c, p, checkFlags(cmd.Flags(), p.Options.Format)
}

// warnOf says what is strange about a plan.
func (a *app) warnOf(p *demi.Plan) {
	for _, r := range p.UnusedRules() {
		a.warn([]string{"no tensor has a name for the rule " + r.String()})
	}
	for _, re := range p.UnusedDrops() {
		a.warn([]string{"no tensor has a name to drop by " + re.String()})
	}
	if _, has := p.Meta.Get(modelHash); has {
		a.warn([]string{"the metadata " + modelHash + " is copied as it is: it is the hash of the source, not of the output"})
	}
}

func (a *app) convert(cmd *cobra.Command, f *convertFlags, src, dst string) error {
	j, c, p, err := a.prepare(cmd, f, src, dst)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	if f.restore {
		return a.restore(cmd, c, j)
	}
	if j.create.IfExists == demi.Skip {
		if done, err := demi.Finished(dst, p, c, &j.create); done || err != nil {
			return errors.Join(err, a.reportSkip(j))
		}
	}
	sink, err := a.sink(j, p, c) // before the scan: a mistake in DST should not cost one
	if err != nil {
		return outputHint(err, src, dst)
	}
	if unscanned(cmd.Flags()) {
		return a.reportPlan(c, p, j)
	}
	if j.source, err = c.Identity(); err != nil {
		return err
	}
	j.meter = a.newMeter(&j.run)
	defer j.meter.stop()
	if err := p.Decide(cmd.Context(), c, &j.run); err != nil {
		return err
	}
	if f.dryRun {
		j.meter.stop()
		return a.reportPlan(c, p, j)
	}
	records, err := demi.Convert(cmd.Context(), c, sink, p, &j.run)
	if err != nil {
		return err
	}
	return a.reportConversion(cmd.Context(), c, p, records, j)
}

func (a *app) sink(j *job, p *demi.Plan, c *demi.Checkpoint) (tensor.Sink, error) {
	if j.dst == toStdout {
		return demi.NewWriter(a.stdout, p, c, &j.create), nil
	}
	return demi.Create(j.dst, p, c, &j.create)
}

// restoreFlags are those that go with --restore.
var restoreFlags = []string{"restore", "if-exists", "force", "json", "verbose", "quiet", "jobs", "max-memory", "progress", "cpu", "lenient"}

func (a *app) restore(cmd *cobra.Command, c *demi.Checkpoint, j *job) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(restoreFlags, f.Name) {
			err = usagef("--%s and --restore do not go together: the files come back as they were", f.Name)
		}
	})
	if err == nil && j.dst == toStdout {
		err = usagef("--restore writes files, not to stdout")
	}
	if err != nil {
		return err
	}
	paths, err := demi.Restore(cmd.Context(), c, j.dst, &j.create)
	if err != nil {
		return err
	}
	return a.reportRestore(j, paths)
}

// checkFlags refuses flags that the output format has no use for, which its
// user may be counting on.
func checkFlags(set *pflag.FlagSet, f demi.Format) error {
	for _, x := range []struct {
		flag    string
		formats []demi.Format
	}{
		{"level", []demi.Format{demi.Demi}}, {"align", []demi.Format{demi.GGUF, demi.Demi}},
		{"order", []demi.Format{demi.Safetensors}}, {"add-format", []demi.Format{demi.Safetensors}},
	} {
		if set.Changed(x.flag) && !slices.Contains(x.formats, f) {
			return usagef("--%s means nothing for a %s output", x.flag, f)
		}
	}
	if align, _ := set.GetInt64("align"); f == demi.Demi && align != 0 && (align < format.MinAlign || align > format.MaxAlign) {
		return usagef("--align %d: that of a store is from %d to %d", align, format.MinAlign, format.MaxAlign)
	}
	return nil
}

func (a *app) runOptions() (o demi.RunOptions, err error) {
	o.Workers, o.MaxMemory = a.workers, defaultMemory()
	if a.memory != "" {
		o.MaxMemory, err = parseBytes("--max-memory", a.memory)
	}
	if err == nil {
		collectAt(o.MaxMemory)
	}
	return o, err
}
