//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignals stops conversions at random moments: there is nothing at DST, and
// of a file nothing beside it either.
func TestSignals(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src.safetensors")
	sparse(t, src, 4<<30)
	signals := []syscall.Signal{syscall.SIGTERM}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) { // the program ignores what this one was told to
			signals = append(signals, s)
		}
	}
	for i := range 12 {
		out := t.TempDir()
		dst := filepath.Join(out, []string{"dst.safetensors", "dst.demi", "dst"}[i%3])
		s, wait := signals[rand.IntN(len(signals))], time.Duration(rand.IntN(250_000))*time.Microsecond
		t.Logf("%v after %v: %s", s, wait, filepath.Base(dst))
		cmd := demiCommand(t, src, dst, "--dtype", "bf16", "--max-memory", "4MiB", "--json")
		require.NoError(t, cmd.Start())
		time.Sleep(wait)
		require.NoError(t, cmd.Process.Signal(s))
		require.Error(t, cmd.Wait())
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() { // it came before the program knew what to do about signals
			require.Equal(t, s, status.Signal())
		} else {
			require.Equal(t, 128+int(s), status.ExitStatus())
		}
		require.NoFileExists(t, dst)
		require.NoDirExists(t, dst)
		if filepath.Ext(dst) != "" {
			entries, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Empty(t, entries)
		}
	}
}

// TestIgnoredSignals: under nohup the end of a session does not end the work.
func TestIgnoredSignals(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src.safetensors")
	sparse(t, src, 1<<30)
	dst := filepath.Join(t.TempDir(), "dst.safetensors")
	demi := demiCommand(t, src, dst, "--dtype", "bf16", "--max-memory", "4MiB")
	cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`}, demi.Args...)...)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // it works, or has ended
		entries, err := os.ReadDir(filepath.Dir(dst))
		return err == nil && len(entries) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.NoError(t, cmd.Wait())
	require.FileExists(t, dst)
}
