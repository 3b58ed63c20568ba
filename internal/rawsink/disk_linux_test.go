package rawsink_test

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
	block := strings.Repeat("x", 4096)
	m, dir := modelOf(64, block, block), t.TempDir()
	for kind, create := range m.makers(dir) {
		sink := create()
		if sink.Ordered() {
			continue
		}
		restore := limitFiles(t, 1024)
		err := sink.Begin(m.infos(), nil)
		restore()
		require.ErrorIs(t, err, unix.EFBIG, kind)
		require.Empty(t, entries(t, dir), kind)

		sink = create()
		require.NoError(t, sink.Begin(m.infos(), nil), kind)
		require.NoError(t, sink.Write(0, 0, []byte(block)), kind)
		restore = limitFiles(t, 1024)
		err = sink.Write(1, 0, []byte(block))
		restore()
		require.ErrorIs(t, err, unix.EFBIG, kind)
		require.ErrorContains(t, err, "write "+filepath.Join(dir, kind), "the final name, not that of the staging file")
		err = sink.Finish(nil)
		require.ErrorIs(t, err, unix.EFBIG, kind)
		require.ErrorContains(t, err, "a write has failed", kind)
		sink.Abort()
		require.Empty(t, entries(t, dir), kind)
	}
}

// TestAppears watches a directory in which a set appears.
func TestAppears(t *testing.T) {
	dir := t.TempDir()
	m := modelOf(8, "a", "b", "c")
	sink := m.set(filepath.Join(dir, "m"), nil)
	require.NoError(t, sink.Begin(m.infos(), nil))
	for i, data := range m.data {
		require.NoError(t, sink.Write(i, 0, []byte(data)))
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO) // by a link or by a rename
	require.NoError(t, err)
	require.NoError(t, sink.Finish(nil))
	events := make([]byte, 4096)
	n, err := unix.Read(fd, events)
	require.NoError(t, err)
	require.Equal(t, []string{"m.2", "m.1", "m.0"}, appeared(events[:n]))
}

// appeared returns the names in a list of events: a header of 16 bytes each,
// its last four the length of the name with the zeros after it.
func appeared(p []byte) (names []string) {
	for len(p) > unix.SizeofInotifyEvent {
		n := int(binary.NativeEndian.Uint32(p[12:]))
		names = append(names, strings.TrimRight(string(p[16:16+n]), "\x00"))
		p = p[16+n:]
	}
	return names
}
