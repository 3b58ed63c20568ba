//go:build unix

package doctor_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPipes: a pipe without a writer is not opened, whatever its name.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	names := []string{"model.safetensors", "m.gguf", "pytorch_model.bin", indexName, "config.json", "tokenizer.json", ".x.safetensors.partial", ".x.journal"}
	for _, name := range names {
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o666))
	}
	require.Equal(t, []string{"error/not-a-file", "error/not-a-file", "error/not-a-file", "error/not-a-file", "error/unreadable", "note/other-weights"}, shown(examine(t, dir, nil)))
	for _, name := range names {
		examine(t, filepath.Join(dir, name), nil)
	}
}
