package gguf_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// limitFiles makes writes beyond a size fail, in any file of this process,
// until the function that it returns is called.
func limitFiles(t *testing.T, size uint64) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old)) }
}

// TestDiskFails: an error of the disk in Begin or in Write stays, nothing
// takes the file's name, and Abort leaves nothing.
func TestDiskFails(t *testing.T) {
	const size = 4096
	infos := []tensor.Info{{Name: "a", DType: tensor.I8, Shape: []int64{size}, Size: size}, {Name: "b", DType: tensor.I8, Shape: []int64{size}, Size: size}}
	block := make([]byte, size)
	for name, create := range map[string]func(dir string) tensor.Sink{
		"file": func(dir string) tensor.Sink { return gguf.Create(filepath.Join(dir, "m.gguf"), nil) },
		"set":  func(dir string) tensor.Sink { return gguf.CreateSet(filepath.Join(dir, "m.gguf"), 4096, nil) },
	} {
		dir := t.TempDir()
		sink := create(dir)
		restore := limitFiles(t, 1024)
		err := sink.Begin(infos, nil)
		restore()
		require.ErrorIs(t, err, unix.EFBIG, name)
		require.Empty(t, names(t, dir), name)

		sink = create(dir)
		require.NoError(t, sink.Begin(infos, nil), name)
		require.NoError(t, sink.Write(0, 0, block), name)
		restore = limitFiles(t, 1024)
		err = sink.Write(1, 0, block)
		restore()
		require.ErrorIs(t, err, unix.EFBIG, name)
		require.ErrorContains(t, err, "write "+dir, "the final name, not that of the staging file")
		require.ErrorIs(t, sink.Finish(nil), unix.EFBIG, "the error stays, %s", name)
		sink.Abort()
		require.Empty(t, names(t, dir), name)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
