package demi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuideShowsExamples: each block of Go in the guide is part of an example,
// line by line, so that it compiles and does what its output says.
func TestGuideShowsExamples(t *testing.T) {
	guide, err := os.ReadFile("docs/library.md")
	require.NoError(t, err)
	var examples strings.Builder
	for _, name := range []string{"example_test.go", "openfs_test.go", "example_loader_test.go"} {
		p, err := os.ReadFile(name)
		require.NoError(t, err)
		examples.WriteString(unindent(string(p)))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		require.Contains(t, examples.String(), unindent(b[1]), "is in no example")
	}
}

// unindent takes the white space before and after each line away.
func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// TestPackagesAreListed: the architecture names every package, and no other.
func TestPackagesAreListed(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	_, packages, ok := strings.Cut(string(text), "## Packages")
	require.True(t, ok)
	packages, _, ok = strings.Cut(packages, "## ")
	require.True(t, ok)
	for name := range mayImport {
		if name == "" {
			name = "demi"
		}
		if !strings.HasPrefix(name, "examples/") {
			require.Contains(t, packages, "`"+name+"`", "a package is not listed")
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(packages, -1) {
		_, known := mayImport[m[1]]
		require.True(t, known || m[1] == "demi", "there is no package %q", m[1])
	}
}

// TestChanges: each file of a change says in its first line of what kind it is,
// and has a text.
func TestChanges(t *testing.T) {
	files, err := filepath.Glob("docs/changes/*/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	form := regexp.MustCompile(`^# (added|changed|fixed|removed|security): \S.*\n\n\S`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, form, string(text), file)
	}
}
