package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes what the commands say of themselves: manual pages, or
// docs/reference.md.
func manCommand(root *cobra.Command) *cobra.Command {
	var markdown bool
	c := &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages to a directory",
		Hidden: true,
		Args:   exactArgs("DIR", 1),
		RunE: func(_ *cobra.Command, args []string) error {
			pages := map[string]string{}
			if markdown {
				pages["reference.md"] = reference(root)
			} else {
				for _, c := range publicCommands(root) {
					pages[manName(c)+".1"] = manPage(c, thisBuild())
				}
			}
			return writeFiles(args[0], pages)
		},
	}
	c.Flags().BoolVar(&markdown, "markdown", false, "write reference.md instead")
	c.Flags().Lookup("markdown").Hidden = true // of use in a clone alone
	return c
}

func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// publicCommands returns root and the commands below it that have a page.
func publicCommands(root *cobra.Command) (list []*cobra.Command) {
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			list = append(list, c)
		}
	}
	return list
}

// A flagText is what a page says of a flag.
type flagText struct{ name, kind, usage string }

// flagTexts describes the flags of a set that are shown. All commands have
// --help: cobra adds it when one runs, so it is left out.
func flagTexts(set *pflag.FlagSet) (list []flagText) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		kind = strings.TrimSuffix(kind, "Array")
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch {
		case f.NoOptDefVal != "" && kind != "":
			kind = "[=" + kind + "]"
		case kind != "":
			kind = " " + kind
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		list = append(list, flagText{name, kind, usage})
	})
	return list
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// synopsis is the line of usage without the word that flags are possible.
func synopsis(c *cobra.Command) string { return strings.TrimSuffix(c.UseLine(), " [flags]") }

// manPage returns the page of a command, in the macros of man(7), with the date
// of the commit, so that the same commit gives the same page.
func manPage(c *cobra.Command, made build) string {
	var b strings.Builder
	date, _, _ := strings.Cut(made.date, "T")
	fmt.Fprintf(&b, ".TH %s 1 %q %q %q\n", strings.ToUpper(roff(manName(c))), date, strings.TrimSpace("demi "+made.version), "User Commands")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n[flags]\n", roff(synopsis(c)))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(c.Long), "\n\n", "\n.PP\n"))
	}
	manFlags(&b, "OPTIONS", c.LocalFlags())
	manFlags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	fmt.Fprintf(&b, ".SH EXIT STATUS\n%s", roff(wrap("0 ok, 1 a stated limit was violated, 2 wrong usage, 3 bad input, 4 I/O error, "+
		"5 the destination exists, 70 internal error, 129, 130 and 143 stopped by a signal")))
	manSeeAlso(&b, c)
	return b.String()
}

func manFlags(b *strings.Builder, title string, set *pflag.FlagSet) {
	for i, f := range flagTexts(set) {
		if i == 0 {
			fmt.Fprintf(b, ".SH %s\n", title)
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s", roff(f.name+f.kind), roff(wrap(f.usage)))
	}
}

// manSeeAlso names the pages of the other commands.
func manSeeAlso(b *strings.Builder, of *cobra.Command) {
	var names []string
	for _, c := range publicCommands(of.Root()) {
		if c != of {
			names = append(names, ".BR "+roff(manName(c))+" (1)")
		}
	}
	fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(names, ",\n"))
}

// roff escapes a text: hyphens stay hyphens, and no line is a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
