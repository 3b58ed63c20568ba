//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignals stops a conversion at several moments: nothing may be left.
func TestSignals(t *testing.T) {
	for i, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTERM} {
		dir := t.TempDir()
		src, out := filepath.Join(dir, "src.safetensors"), filepath.Join(dir, "out")
		sparse(t, src, 4<<30)
		require.NoError(t, os.Mkdir(out, 0o777))
		cmd := demiCommand(t, src, filepath.Join(out, "dst.safetensors"), "--dtype", "bf16", "--max-memory", "2MiB")
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(60+80*i) * time.Millisecond)
		require.NoError(t, cmd.Process.Signal(s))
		err := cmd.Wait()
		require.Error(t, err)
		require.Equal(t, 128+int(s), cmd.ProcessState.ExitCode())
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}
