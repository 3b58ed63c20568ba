package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryIsBounded converts one large tensor to each kind of output: the
// program stays within what it was allowed, and 64 MiB for itself.
func TestMemoryIsBounded(t *testing.T) {
	size, limit := int64(1<<30), int64(128<<20)
	if testing.Short() {
		size, limit = 256<<20, 48<<20
	}
	src := filepath.Join(t.TempDir(), "src.safetensors")
	sparse(t, src, size)
	mixed := filepath.Join(filepath.Dir(src), "mixed.safetensors") // zeros take no room in a queue
	manyTensors(t, mixed, 64, 1<<20)
	for _, x := range []struct {
		src, dst string
		flags    []string
	}{
		{src, "a.safetensors", []string{"--dtype", "bf16"}},
		{src, "b.safetensors", []string{"--dtype", "exact"}},
		{src, "c.safetensors", []string{"--dtype", "bf16", "--verify"}},
		{src, "d.gguf", []string{"--dtype", "f16", "--container-only"}},
		{src, "e.demi", []string{"--dtype", "bf16"}},
		{src, "f.demi", []string{"--dtype", "keep"}}, // an archive
		{src, "g.demi", []string{"--dtype", "bf16", "--level", "small"}},
		{src, "h", []string{"--dtype", "bf16"}},
		{src, "-", []string{"--dtype", "bf16"}},
		{src, "-", []string{"--dtype", "bf16", "--to", "demi"}},
		{mixed, "i.demi", []string{"--dtype", "keep"}},
		{mixed, "j.demi", []string{"--dtype", "bf16", "--level", "small"}},
		{mixed, "-", []string{"--dtype", "keep"}},
	} {
		dir := t.TempDir()
		dst := x.dst
		if dst != toStdout {
			dst = filepath.Join(dir, dst)
		}
		args := append([]string{x.src, dst, "-j", "8", "--max-memory", fmt.Sprint(limit)}, x.flags...)
		rss := peakMemory(t, demiCommand(t, args...))
		t.Logf("%s %v: peak RSS %d MiB", x.dst, x.flags, rss>>20)
		require.Less(t, rss, limit+(64<<20), "%v", x)
		require.NoError(t, os.RemoveAll(dir))
	}
}

// peakMemory runs a command, without its output, and returns the most memory
// that it had: at least as much as this process has, from which it is forked.
func peakMemory(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	var text bytes.Buffer
	cmd.Stderr = &text
	require.NoError(t, cmd.Run(), "%s", &text)
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}
