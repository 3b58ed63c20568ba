package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go run . man --markdown ../../docs

// reference returns docs/reference.md: what the commands say of themselves.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("<!-- Written by go generate ./cmd/convert: change the texts there. -->\n\n# Reference\n\n" +
		"Every command and every flag, as `--help` has them; [cli.md](cli.md) explains them, with examples and exit codes.\n")
	for _, c := range publicCommands(root) {
		referenceOf(&b, c)
	}
	b.WriteString("\n## Flags of all commands\n")
	markdownFlags(&b, root.PersistentFlags())
	return b.String()
}

func referenceOf(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s:\n\n    %s [flags]\n", c.CommandPath(), markdown(c.Short), synopsis(c))
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", markdown(c.Long))
	}
	if c.Example != "" {
		b.WriteString("\nExamples:\n\n")
		for line := range strings.Lines(c.Example) {
			b.WriteString("    " + strings.TrimSpace(line) + "\n")
		}
	}
	markdownFlags(b, c.LocalNonPersistentFlags())
}

func markdownFlags(b *strings.Builder, set *pflag.FlagSet) {
	for i, f := range flagTexts(set) {
		if i == 0 {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		fmt.Fprintf(b, "| `%s%s` | %s |\n", f.name, f.kind, markdown(f.usage))
	}
}

// markdown escapes what would be markup in a text or end the cell of a table.
func markdown(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "_", `\_`, `\`, `\\`).Replace(s)
}
