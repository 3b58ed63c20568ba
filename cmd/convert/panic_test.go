package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A panicking source is one whose data cannot be read without a panic.
type panicking struct{ tensor.Source }

func (panicking) Data(int) io.ReaderAt { return panicking{} }

func (panicking) ReadAt([]byte, int64) (int, error) { panic("a fault in the test") }

// mainThatPanics is the program with such sources.
func mainThatPanics() {
	opened = func(c *demi.Checkpoint) *demi.Checkpoint { return demi.FromSource(panicking{c.Source()}, c.Format()) }
	main()
}

// TestPanicInAWorker: a panic in a goroutine that works ends in exit 70, with a
// report, and leaves nothing.
func TestPanicInAWorker(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src.safetensors")
	sparse(t, src, 16<<20)
	program, err := exec.LookPath("demi-that-panics") // testscript.Main puts it there
	require.NoError(t, err)
	for _, args := range [][]string{
		{src, filepath.Join(dir, "dst.safetensors"), "--dtype", "bf16"},
		{src, filepath.Join(dir, "dst.demi"), "--dtype", "f16"},
		{src, filepath.Join(dir, "dst"), "--dtype", "f16"},
		{src, filepath.Join(dir, "dst.safetensors")},
		{"inspect", "--scan", src},
		{"verify", src, src},
	} {
		cmd := exec.Command(program, append(args, "--json")...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.Error(t, cmd.Run())
		require.Equal(t, 70, cmd.ProcessState.ExitCode(), "%v\n%s", args, errs.String())
		require.Contains(t, errs.String(), "panic: a fault in the test")
		require.Contains(t, errs.String(), "panic_test.go", "where it came from")
		require.Contains(t, errs.String(), "Please report it")
		require.Contains(t, out.String(), `"class": "internal"`)
		require.NoFileExists(t, filepath.Join(dir, "dst.safetensors"))
		require.NoFileExists(t, filepath.Join(dir, "dst.demi"))
		require.NoDirExists(t, filepath.Join(dir, "dst"))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*.partial"))
	require.NoError(t, err)
	require.Empty(t, left)
}
