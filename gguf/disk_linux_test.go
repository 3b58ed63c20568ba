package gguf_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
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

// TestAppears watches a directory in which a set appears: the last shard first, for readers begin with the first one.
func TestAppears(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO)
	require.NoError(t, err)
	infos := []tensor.Info{{Name: "a", DType: tensor.I8, Shape: []int64{1}, Size: 1}, {Name: "b", DType: tensor.I8, Shape: []int64{1}, Size: 1}, {Name: "c", DType: tensor.I8, Shape: []int64{1}, Size: 1}}
	sink := gguf.CreateSet(filepath.Join(dir, "m"), 1, nil)
	require.NoError(t, sink.Begin(infos, nil))
	for i := range infos {
		require.NoError(t, sink.Write(i, 0, []byte{1}))
	}
	require.NoError(t, sink.Finish(nil))
	events := make([]byte, 4096)
	n, err := unix.Read(fd, events)
	require.NoError(t, err)
	require.Equal(t, []string{"m-00003-of-00003.gguf", "m-00002-of-00003.gguf", "m-00001-of-00003.gguf"}, movedTo(events[:n]))
}

// movedTo returns the names in a list of events: a header of 16 bytes each,
// its last four the length of the name with the zeros after it.
func movedTo(p []byte) (names []string) {
	for len(p) > unix.SizeofInotifyEvent {
		n := int(binary.NativeEndian.Uint32(p[12:]))
		names = append(names, strings.TrimRight(string(p[16:16+n]), "\x00"))
		p = p[16+n:]
	}
	return names
}
