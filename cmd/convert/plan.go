package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
)

// planCommand is a conversion that stops at the plan.
func planCommand(a *app) *cobra.Command {
	flags := new(convertFlags)
	c := convertCommandOf(a, flags)
	c.Use = "plan SRC DST"
	c.Short = "Print what a conversion would do, and write nothing"
	c.Long = `demi plan prints what demi SRC DST with the same flags would do: the type of each
tensor, why, and the bytes. It reads the values where they decide.

With --json, or in the file of --output, it is a document that demi SRC DST
--plan FILE carries out, if SRC still has the same names, sizes and headers. With
--tasks it is one for demi run and demi merge, of one checkpoint or of many. With --explain it prints what demi
advise SRC would, for these flags.`
	c.Example = `  demi plan model.safetensors out.safetensors --dtype bf16 --preset llm
  demi plan model.safetensors out.safetensors -o plan.json
  demi model.safetensors out.safetensors --plan plan.json`
	f := c.Flags()
	f.Bool(noScan, false, "read headers alone, and leave undecided what the values decide")
	why := f.Bool(explain, false, "measure what exact, f16, bf16 and auto would cost each tensor, as demi advise does")
	tasks := new(batchFlags)
	tasks.add(c)
	plan, two := c.RunE, c.Args
	c.Args = func(cmd *cobra.Command, args []string) error {
		if tasks.list != "" {
			return exactArgs("no SRC and DST beside --list", 0)(cmd, args)
		}
		return two(cmd, args)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := tasks.check(cmd, flags); err != nil {
			return err
		}
		switch {
		case tasks.tasks > 0:
			return a.planTasks(cmd, flags, tasks, args)
		case *why:
			return a.advise(cmd, flags, args[0], args[1])
		}
		flags.output = tasks.output
		return plan(cmd, args)
	}
	f.Lookup("dry-run").Hidden = true
	if err := f.Set("dry-run", "true"); err != nil {
		panic(err) // a boolean flag takes "true"
	}
	return c
}

const noScan = "no-scan"

// unscanned tells whether the values are not to be read; only plan has the flag.
func unscanned(f *pflag.FlagSet) bool {
	on, err := f.GetBool(noScan)
	return err == nil && on
}

// planned are the flags whose values are in a plan.
var planned = []string{
	"dtype", "round", "seed", "on-overflow", "on-nan", "subnormals", "keep", "preset", "pure", "mixed", "to", "drop", "ema", "tie", "untie",
	"max-rel-err", "target-size", "container-only", "order", "add-format", "keep-split",
}

// checkPlan refuses flags that a plan has a say in.
func (f *convertFlags) checkPlan(set *pflag.FlagSet) error {
	if !set.Changed("plan") {
		return nil
	}
	var both []string
	for _, name := range planned {
		if set.Changed(name) {
			both = append(both, "--"+name)
		}
	}
	if len(both) > 0 {
		return usagef("%s and --plan do not go together: the plan has its own options", strings.Join(both, ", "))
	}
	return nil
}

// readPlan reads the document of --plan, which says how quantised tensors are
// read unless a flag does; nil without the flag.
func (a *app) readPlan(f *convertFlags, set *pflag.FlagSet) (*demi.PlanDocument, error) {
	if f.plan == "" {
		return nil, nil
	}
	file, err := os.Open(f.plan)
	if err != nil {
		return nil, sourceError(err)
	}
	defer file.Close()
	d, err := demi.ReadPlan(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.plan, err)
	}
	if !set.Changed("dequantize") {
		a.dequant = d.Options.Dequantize
	}
	return d, nil
}

// newPlan makes a plan of options, or of a document.
func (f *convertFlags) newPlan(c *demi.Checkpoint, dst string, o demi.Options, d *demi.PlanDocument) (*demi.Plan, error) {
	if d == nil {
		p, err := demi.NewPlan(c, o)
		return p, planHint(err, o, c.Format())
	}
	p, err := d.Plan(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.plan, err)
	}
	if p.Options.KeepSplit && (f.single || f.maxShard != "" || dst == toStdout) {
		return nil, usagef("%s was made with --keep-split, with which --single-file, --max-shard-size and an output to stdout do not go together", f.plan)
	}
	return p, nil
}

func presetNames() string {
	var names []string
	for _, p := range demi.Presets() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// presetText says what a preset keeps, or which presets there are.
func presetText(name string) string {
	var b strings.Builder
	for _, p := range demi.Presets() {
		switch {
		case p.Name == name:
			fmt.Fprintf(&b, "preset %s: %s\n", p.Name, p.Doc)
			for _, r := range p.Rules {
				fmt.Fprintf(&b, "  %s\n", r)
			}
		case name == demi.NoPreset:
			fmt.Fprintf(&b, "not used: --preset %s: %s\n", p.Name, p.Doc)
		}
	}
	return b.String()
}
