package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestReference: the reference is what the commands say now.
func TestReference(t *testing.T) {
	have, err := os.ReadFile("../../docs/reference.md")
	require.NoError(t, err)
	want := reference(newRoot(&app{stdout: io.Discard, stderr: io.Discard}))
	if d := cmp.Diff(strings.Split(string(have), "\n"), strings.Split(want, "\n")); d != "" {
		t.Fatalf("docs/reference.md is stale: run go generate ./cmd/convert\n%s", d)
	}
}

// TestManPages: a page has the date of its commit and every flag.
func TestManPages(t *testing.T) {
	root := newRoot(&app{stdout: io.Discard, stderr: io.Discard})
	for _, c := range publicCommands(root) {
		page := manPage(c, build{version: "v0.1.0", date: "2026-12-03T07:42:40Z"})
		require.Contains(t, page, ` 1 "2026-12-03" "demi v0.1.0" "User Commands"`+"\n")
		for name := range helpFlags(c) {
			require.Contains(t, page, roff("--"+name))
		}
	}
}

// TestRoff: a text cannot be a request of troff, and its hyphens are those that
// are typed.
func TestRoff(t *testing.T) {
	require.Equal(t, `\&.SH \-\-x`+"\n"+`\&'a \eb`, roff(".SH --x\n'a \\b"))
}
