package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var flagName = regexp.MustCompile("`(?:-[a-z], )?--([a-z][a-z-]*)")

// documented returns the flags that a page of docs explains: in the first
// column of a table, in a paragraph that lists them, or in the lines of usage.
func documented(t *testing.T, page string) map[string]bool {
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	set := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "| `"):
			line, _, _ = strings.Cut(line[2:], " | ")
		case strings.HasPrefix(line, "    demi "):
			line = strings.ReplaceAll(line, " --", "`--")
		case !strings.HasPrefix(line, "Flags"):
			continue
		}
		for _, m := range flagName.FindAllStringSubmatch(line, -1) {
			set[m[1]] = true
		}
	}
	return set
}

// helpFlags returns the flags that the help of c shows, with those of all
// commands.
func helpFlags(c *cobra.Command) map[string]bool {
	set := map[string]bool{}
	add := func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			set[f.Name] = true
		}
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	return set
}

// TestFlagsAreDocumented holds the help of each command against the pages that
// explain flags: none is missing here or there.
func TestFlagsAreDocumented(t *testing.T) {
	root := newRoot(&app{stdout: io.Discard, stderr: io.Discard})
	cli := documented(t, "cli.md")
	own := map[string]map[string]bool{"verify": documented(t, "verify.md"), "doctor": documented(t, "doctor.md")}
	known := map[string]bool{}
	for _, c := range append(root.Commands(), root) {
		for name := range helpFlags(c) {
			known[name] = true
			assert.True(t, cli[name] || own[c.Name()][name], "%s --%s is not in docs", c.CommandPath(), name)
		}
	}
	for name := range cli {
		assert.True(t, known[name], "docs/cli.md explains --%s, which there is not", name)
	}
	for command, page := range own {
		c, _, err := root.Find([]string{command})
		require.NoError(t, err)
		for name := range page {
			assert.True(t, helpFlags(c)[name], "docs/%s.md explains --%s, which %s does not have", command, name, command)
		}
	}
}
