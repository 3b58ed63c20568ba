package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMemoryIsBounded converts one large tensor to each kind of output: the
// program stays within what it was allowed, and 64 MiB for itself. Others take
// the memory of the whole model (maxtext#4071, DeepSpeed#4025, exllamav3#132).
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
		require.Less(t, rss, overhead*(limit+(64<<20)), "%v", x)
		require.NoError(t, os.RemoveAll(dir))
	}
}

// TestMemoryOfHeaders converts many tensors: their headers are within the limit,
// which is refused if it is too low for them.
func TestMemoryOfHeaders(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	src := filepath.Join(t.TempDir(), "src.safetensors")
	manyTensors(t, src, n, 4)
	limit := int64(n)*2200 + 4<<20
	for _, dst := range []string{"a.safetensors", "a.demi", "a.gguf", "a"} {
		dst = filepath.Join(t.TempDir(), dst)
		args := []string{src, dst, "--dtype", "bf16", "--container-only", "--max-memory"}
		rss := peakMemory(t, demiCommand(t, append(args, fmt.Sprint(limit))...))
		t.Logf("%s: peak RSS %d MiB, allowed %d MiB", filepath.Base(dst), rss>>20, limit>>20)
		require.Less(t, rss, overhead*(limit+(64<<20)))
		require.NoError(t, os.RemoveAll(dst))
		cmd := demiCommand(t, append(args, fmt.Sprint(int64(n)*1000))...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, classLimit.Code, cmd.ProcessState.ExitCode())
		require.Contains(t, string(out), "the headers take about")
		require.NoFileExists(t, dst)
	}
}

// peakMemory runs a command, without its output, and returns the most memory
// that it was seen to have. What the system tells of it afterwards would be no
// less than what this process has, from which it is forked.
func peakMemory(t *testing.T, cmd *exec.Cmd) (peak int64) {
	t.Helper()
	var text bytes.Buffer
	cmd.Stderr = &text
	require.NoError(t, cmd.Start())
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			require.NoError(t, err, "%s", &text)
			require.Positive(t, peak)
			return peak
		case <-time.After(2 * time.Millisecond):
			peak = max(peak, highWater(cmd.Process.Pid))
		}
	}
}

// highWater returns the most memory that a process has had since it runs its
// program, in bytes; 0 if it has ended.
func highWater(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, line, found := strings.Cut(string(text), "\nVmHWM:")
	var kib int64
	if n, _ := fmt.Sscan(line, &kib); err != nil || !found || n != 1 {
		return 0
	}
	return kib << 10
}
