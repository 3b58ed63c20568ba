package main

import (
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/verify"
)

// flagValues returns what a shell offers after a flag.
func flagValues() map[string][]string {
	var overflows, formats, presets []string
	for _, o := range demi.Overflows() {
		overflows = append(overflows, string(o))
	}
	for _, f := range demi.Formats() {
		formats = append(formats, string(f))
	}
	for _, p := range demi.Presets() {
		presets = append(presets, p.Name)
	}
	return map[string][]string{
		"dtype":       {"exact", "auto", "keep", "bf16", "f16", "f32", "f64"},
		"round":       kernels.Roundings(),
		"to":          formats,
		"on-overflow": overflows,
		"dequantize":  {"none", "scaled", "all"},
		"ema":         {"keep", "use", "drop"},
		"on-nan":      {"keep", "error"},
		"subnormals":  {"keep", "flush"},
		"order":       {"aligned", "canonical"},
		"rule":        {"auto"},
		"level":       codec.Levels(),
		"preset":      presets,
		"by":          verify.Bys(),
		"progress":    progressModes,
		"if-exists":   {string(demi.Fail), string(demi.Skip), string(demi.Replace)},
	}
}

// completeFlags tells the shell which values flags take, of c and the commands
// below it.
func completeFlags(c *cobra.Command) {
	for flag, values := range flagValues() {
		if c.LocalFlags().Lookup(flag) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // registered twice: a fault of this program
		}
	}
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
}
