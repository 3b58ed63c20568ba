package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestCommitReplaces(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	f, err := Create(name)
	require.NoError(t, err)
	defer f.Abort()
	require.NoError(t, f.Allocate(4))
	_, err = f.WriteAt([]byte("cd"), 2)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("ab"), 0)
	require.NoError(t, err)
	old, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(old), "nothing changes before Commit")
	require.NoError(t, f.Commit())
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "abcd", string(got))
	require.Equal(t, []string{"out"}, entries(t, dir))
	require.Error(t, f.Commit(), "a second Commit")
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	f.Abort()
	f.Abort()
	require.Empty(t, entries(t, dir))
	_, err = f.Write(nil)
	require.Error(t, err)
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Create(filepath.Join(dir, "absent", "out"))
	require.ErrorIs(t, err, os.ErrNotExist)

	name := filepath.Join(dir, "out")
	require.NoError(t, os.Mkdir(name, 0o700)) // a directory cannot be replaced by a file
	f, err := Create(name)
	require.NoError(t, err)
	err = f.Commit()
	require.ErrorContains(t, err, name)
	require.Equal(t, []string{"out"}, entries(t, dir))
}

func TestLongName(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("n", 250))
	f, err := Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	require.Len(t, entries(t, dir), 1)
}

// What another process has put there meanwhile is not replaced.
func TestCommitLeavesWhatHasComeSince(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	first, err := Create(name)
	require.NoError(t, err)
	second, err := Create(name)
	require.NoError(t, err)
	_, err = first.Write([]byte("first"))
	require.NoError(t, err)
	require.NoError(t, first.Commit())
	require.ErrorIs(t, second.Commit(), fs.ErrExist)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "first", string(got))
	require.Len(t, entries(t, filepath.Dir(name)), 1)

	third, err := Create(name)
	require.NoError(t, err)
	require.NoError(t, third.Commit(), "it was there before")
}

func TestDir(t *testing.T) {
	parent := t.TempDir()
	name := filepath.Join(parent, "out")
	d, err := CreateDir(name + "/")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.Path("f"), []byte("x"), 0o666))
	require.NoFileExists(t, name)
	require.NoError(t, d.Commit())
	require.FileExists(t, filepath.Join(name, "f"))
	d.Abort()
	require.FileExists(t, filepath.Join(name, "f"), "Abort after Commit does nothing")
	require.ErrorIs(t, d.Commit(), fs.ErrClosed)

	d, err = CreateDir(name)
	require.NoError(t, err)
	require.Error(t, d.Commit(), "it is there and not empty")
	empty := filepath.Join(parent, "empty")
	require.NoError(t, os.Mkdir(empty, 0o777))
	d, err = CreateDir(empty)
	require.NoError(t, err)
	require.NoError(t, d.Commit())
	require.NoError(t, os.Remove(empty))
	d, err = CreateDir(name)
	require.NoError(t, err)
	d.Abort()
	require.Len(t, entries(t, parent), 1)
}
