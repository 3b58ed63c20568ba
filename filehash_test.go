package demi_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// TestHashFiles compares the hashes of a set with those of its files, whatever the
// workers, and sees its progress.
func TestHashFiles(t *testing.T) {
	c := open(t, filepath.Join(charlmDir, "sharded"))
	var want []string
	total := int64(0)
	for _, s := range c.Sections() {
		text, err := os.ReadFile(s.File)
		require.NoError(t, err)
		want = append(want, fmt.Sprintf("%x", sha256.Sum256(text)))
		total += s.Size
	}
	for _, workers := range []int{1, 8} {
		var last demi.Progress
		o := &demi.RunOptions{Workers: workers, Progress: func(p demi.Progress) { last = p }}
		got, err := demi.HashFiles(context.Background(), o, c, demi.FromSource(new(mem).f32("w", 1), demi.GGUF), c)
		require.NoError(t, err)
		require.Equal(t, [][]string{want, {}, want}, got)
		require.Equal(t, demi.Progress{Phase: "hash", Done: 2 * total, Total: 2 * total}, last)
	}
	_, err := demi.HashFiles(context.Background(), &demi.RunOptions{MaxMemory: 1000}, c)
	require.ErrorIs(t, err, tensor.ErrLimit)
	stopped, stop := context.WithCancel(context.Background())
	stop()
	_, err = demi.HashFiles(stopped, nil, c)
	require.ErrorIs(t, err, context.Canceled)
}

func TestHashOfChangedFile(t *testing.T) {
	for _, change := range []int64{-1, 1, 5 << 20} {
		name := filepath.Join(t.TempDir(), "m.safetensors")
		text, err := os.ReadFile(filepath.Join(charlmDir, "model.safetensors"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, text, 0o666))
		c := open(t, name)
		require.NoError(t, os.Truncate(name, int64(len(text))+change))
		_, err = demi.HashFiles(context.Background(), nil, c)
		require.ErrorIs(t, err, tensor.ErrChanged)
		require.ErrorContains(t, err, name)
	}
}
