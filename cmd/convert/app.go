package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/ordered"
)

// An app is what the commands share: where they write, and the flags that all
// of them know.
type app struct {
	stdout, stderr io.Writer
	text           io.Writer // where reports go: stdout, unless that is the output

	json     bool
	verbose  bool
	quiet    bool
	lenient  bool
	dequant  string
	workers  int
	memory   string
	progress string
	tier     string

	started  time.Time
	warnings []string
	outErr   error // the first of writing to stdout
}

func newRoot(a *app) *cobra.Command {
	c := convertCommand(a)
	c.Use = "demi SRC DST"
	c.Short = "Make model weights half their size, and know what it costs"
	c.Version = thisBuild().String()
	c.SetVersionTemplate("{{.Version}}\n")
	c.Long = `demi reads a checkpoint (safetensors, PyTorch, GGUF or .demi: a file, a shard, an
index, a directory, or the URL of one), converts its floating-point tensors to
BF16, F16, F32 or F64, writes it again, and reports what that cost.

By default (--dtype exact) a tensor is narrowed only if every value comes back
to the bit when it is widened again.`
	c.Example = `  demi model.safetensors model-bf16.safetensors --dtype bf16
  demi ./llama ./llama-f16 --dtype f16 --round nearest-even -v
  demi advise model.safetensors
  demi inspect model.gguf
  demi verify model.safetensors model-bf16.safetensors`
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(a.stdout)
	c.SetErr(a.stderr)
	c.SetGlobalNormalizationFunc(dashes)
	c.SetFlagErrorFunc(flagError)
	c.SuggestionsMinimumDistance = near
	c.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.start(cmd.Flags()) }
	a.addFlags(c)
	c.Flags().Bool("version", false, "print the version") // as cobra knows it, in our words

	explicit := convertCommand(a)
	explicit.Use = "convert SRC DST"
	explicit.Short = "The same as demi SRC DST, for a SRC named like a command"
	c.AddCommand(explicit, planCommand(a), runCommand(a), mergeCommand(a), adviseCommand(a), inspectCommand(a), verifyCommand(a), doctorCommand(a))
	c.AddCommand(manCommand(c))
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // the first word may be a file, not only a command
	}
	completeFlags(c)
	return c
}

func (a *app) addFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON document on stdout, also on failure")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print a line for every tensor")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing but errors")
	f.BoolVar(&a.lenient, "lenient", false, "accept trailing bytes and unknown element types, and say so")
	f.StringVar(&a.dequant, "dequantize", "none", "read quantised tensors as the FP32 values they stand for: none, scaled (FP8 must have scales), all; alone it means scaled")
	f.Lookup("dequantize").NoOptDefVal = "scaled"
	f.IntVarP(&a.workers, "jobs", "j", 0, "goroutines that work (default twice the processors, at most 8)")
	f.StringVar(&a.memory, "max-memory", "", "limit of all buffers, such as 64MiB (default 1GiB, or half the memory limit of the cgroup if that is less)")
	f.StringVar(&a.progress, "progress", "auto", "progress on stderr: auto (in a terminal), plain, json (a line each), none")
	f.StringVar(&a.tier, "cpu", "", "force a tier of kernels: generic, avx2, avx512, neon")
	f.Lookup("cpu").Hidden = true
}

// start checks what all commands share.
func (a *app) start(set *pflag.FlagSet) error {
	a.started = time.Now()
	if err := notEmpty(set); err != nil {
		return err
	}
	if err := cpu.Limit(a.tier); err != nil {
		return usageError{err}
	}
	if _, err := demi.ParseDequantize(a.dequant); err != nil {
		return usageError{err}
	}
	if !slices.Contains(progressModes, a.progress) {
		return usagef("unknown --progress %q (%s)", a.progress, strings.Join(progressModes, ", "))
	}
	if a.workers < 0 || a.workers > 4096 {
		return usagef("-j %d is not a number of workers", a.workers)
	}
	return nil
}

// notEmpty refuses flags that were given an empty text, as a variable of a
// script is that was never set: to take it for the default would be to leave
// out the plan or the limits that were meant.
func notEmpty(set *pflag.FlagSet) (err error) {
	set.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = usagef("--%s has no value", f.Name)
		}
	})
	return err
}

// warn prints what is not an error but worth knowing.
func (a *app) warn(texts []string) {
	a.warnings = append(a.warnings, texts...)
	if a.quiet {
		return
	}
	for _, t := range texts {
		fmt.Fprintln(a.stderr, "demi: warning:", printableLines(t))
	}
}

// fail reports an error and returns its exit code.
func (a *app) fail(err error) int {
	class := classify(err)
	if (a.quiet && !a.json || !errors.Is(err, errViolated)) && !errors.Is(err, syscall.EPIPE) { // who has closed the pipe does not want to hear of it
		fmt.Fprintln(a.stderr, "demi:", printableLines(err.Error()))
		var panicked *ordered.PanicError
		if errors.As(err, &panicked) {
			fmt.Fprintf(a.stderr, "This is a fault of demi, not of your files. Please report it with:\n%s", panicked.Stack)
		}
		if h := hint(err); h != "" && !strings.Contains(err.Error(), h) {
			fmt.Fprintln(a.stderr, "hint:", printableLines(h))
		}
		if a.json && !errors.As(err, new(told)) {
			a.writeFailure(err, class)
		}
	}
	return class.Code
}
