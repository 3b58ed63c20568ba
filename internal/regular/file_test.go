package regular

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// TestTrees: both kinds of tree say the same.
func TestTrees(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "b"), []byte("bytes"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "a"), nil, 0o666))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, c := range []struct {
		tree Tree
		sub  string
	}{
		{Tree{}, filepath.Join(dir, "sub")},
		{Tree{os.DirFS(dir)}, "sub"},
		{Tree{root.FS()}, "sub"},
		{Tree{fstest.MapFS{"sub/a": {}, "sub/b": {Data: []byte("bytes")}}}, "sub"},
	} {
		entries, err := c.tree.ReadDir(c.sub)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		name := c.tree.Join(c.sub, "b")
		require.Equal(t, c.sub, c.tree.Dir(name))
		st, err := c.tree.Stat(name)
		require.NoError(t, err)
		require.EqualValues(t, 5, st.Size())
		f, err := c.tree.Open(name)
		require.NoError(t, err)
		require.EqualValues(t, 5, f.Size())
		p := make([]byte, 4)
		n, err := f.ReadAt(p, 2)
		require.Equal(t, "tes", string(p[:n]))
		require.Equal(t, io.EOF, err)
		require.NoError(t, f.Close())
		_, err = f.ReadAt(p, 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
		_, err = c.tree.Open(c.sub)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		_, err = c.tree.Open(c.tree.Join(c.sub, "c"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// A slow file lets its reads end when it is told to.
type slow struct {
	fs.File
	reading, end chan struct{}
	closed       atomic.Int64
}

func (s *slow) ReadAt(p []byte, off int64) (int, error) {
	s.reading <- struct{}{}
	<-s.end
	if s.closed.Load() > 0 {
		return 0, errors.New("read of what is closed")
	}
	return len(p), nil
}
func (s *slow) Close() error { s.closed.Add(1); return nil }

// TestCountedCloses: the files of a file system need not bear a Close while
// they are read.
func TestCountedCloses(t *testing.T) {
	s := &slow{reading: make(chan struct{}), end: make(chan struct{})}
	f, err := newFile("name", s, 3)
	require.NoError(t, err)
	require.Nil(t, f.Map())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
				t.Error(err)
			}
		})
		<-s.reading
	}
	require.NoError(t, f.Close())
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Zero(t, s.closed.Load())
	close(s.end)
	wg.Wait()
	require.EqualValues(t, 1, s.closed.Load())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
	require.EqualValues(t, 1, s.closed.Load())
}

// front is a file without ReadAt.
type front struct {
	fs.File
	closed bool
}

func (f *front) Close() error { f.closed = true; return nil }

func TestWithoutReadAt(t *testing.T) {
	file := &front{}
	_, err := newFile("name", file, 3)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "name: not supported: a checkpoint is read at random places, and files of this file system (*regular.front) have no ReadAt")
	require.True(t, file.closed)
}

// TestMapping: memory lives until the file is closed and the last slice is
// released, and nothing outside it is given out.
func TestMapping(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	want := bytes.Repeat([]byte("0123456789"), 1000)
	require.NoError(t, os.WriteFile(name, want, 0o666))
	f, size, err := Open(name)
	require.NoError(t, err)
	require.EqualValues(t, len(want), size)
	m := f.Map()
	require.NotNil(t, m)
	for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, size + 1}, {size, 1}, {size + 1, 0}, {1 << 62, 1 << 62}} {
		_, err := m.Hold(r[0], r[1])
		require.ErrorIs(t, err, tensor.ErrTruncated, r)
		_, _, ok := m.Bytes(r[0], r[1])
		require.False(t, ok)
	}
	p, release, ok := m.Bytes(10, 5)
	require.True(t, ok)
	require.Equal(t, 5, cap(p))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				q, err := m.Hold(0, size)
				if err != nil {
					return
				}
				if !bytes.Equal(want, q) {
					t.Error("other bytes")
				}
				m.Release()
			}
		})
	}
	require.NoError(t, f.Close())
	wg.Wait()
	_, err = m.Hold(0, 1)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Equal(t, "01234", string(p))
	release()
	release()

	var none *Mapping
	_, _, ok = none.Bytes(0, 0)
	require.False(t, ok)
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o666))
	f, _, err = Open(empty)
	require.NoError(t, err)
	require.Nil(t, f.Map())
	require.NoError(t, f.Close())
}
