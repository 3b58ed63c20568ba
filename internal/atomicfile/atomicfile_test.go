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

// What another program has put there meanwhile is not replaced.
func TestCommitLeavesWhatHasComeSince(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	f, err := Create(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, []byte("other"), 0o666))
	require.ErrorIs(t, f.Commit(), fs.ErrExist)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "other", string(got))
	require.Len(t, entries(t, filepath.Dir(name)), 1)

	f, err = Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Commit(), "it was there before")
}

func TestOneWriter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	f, err := Create(name)
	require.NoError(t, err)
	_, err = Create(name)
	require.ErrorIs(t, err, ErrBusy)
	f.Abort()
	f, err = Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
}

// A process that has ended early leaves a staging file. If it was between the
// two steps of taking the name, the file has two.
func TestStaleStage(t *testing.T) {
	dir := t.TempDir()
	name, stage := filepath.Join(dir, "out"), filepath.Join(dir, ".out.partial")
	require.NoError(t, os.WriteFile(stage, []byte("half of it"), 0o666))
	f, err := Create(name)
	require.NoError(t, err)
	_, err = f.Write([]byte("all"))
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	require.NoError(t, os.Link(name, stage))
	f, err = Create(name)
	require.NoError(t, err)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "all", string(got))
	f.Abort()
	require.Equal(t, []string{"out"}, entries(t, dir))

	require.NoError(t, os.Symlink(name, stage))
	_, err = Create(name)
	require.Error(t, err, "a link at the place of the staging file")
}

func TestPermissionsStay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(name, nil, 0o640))
	f, err := Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode())
}

func TestJournal(t *testing.T) {
	parent := t.TempDir()
	name := filepath.Join(parent, "out")
	d, err := CreateDir(name)
	require.NoError(t, err)
	require.Empty(t, d.Notes())
	require.NoError(t, d.Note([]byte("first")))
	require.NoError(t, os.WriteFile(d.Path("f"), []byte("x"), 0o666))
	require.NoError(t, d.Note([]byte("second\nline")))
	_, err = CreateDir(name)
	require.ErrorIs(t, err, ErrBusy)
	_, err = d.journal.Write([]byte("torn"))
	require.NoError(t, err)
	d.Leave()

	d, err = CreateDir(name)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("first\n"), []byte("second line\n")}, d.Notes())
	require.FileExists(t, d.Path("f"))
	require.NoError(t, d.Note([]byte("third")))
	d.Leave()
	d, err = CreateDir(name)
	require.NoError(t, err)
	require.Len(t, d.Notes(), 3)
	require.NoError(t, d.Reset())
	require.Empty(t, entries(t, d.Path("")))
	d.Leave()
	d, err = CreateDir(name)
	require.NoError(t, err)
	require.Empty(t, d.Notes())
	require.NoError(t, os.WriteFile(d.Path("f"), []byte("x"), 0o666))
	d.Leave()
	_, err = CreateDir(name)
	require.ErrorContains(t, err, "no journal")
	require.NoError(t, os.RemoveAll(filepath.Join(parent, ".out.partial")))
	d, err = CreateDir(name)
	require.NoError(t, err)
	d.Abort()
	require.Empty(t, entries(t, parent))
}

// What a process leaves that is killed after its last step but one.
func TestTidy(t *testing.T) {
	parent := t.TempDir()
	name := filepath.Join(parent, "out")
	left := func(what string) func(string, ...string) {
		return func(path string, want ...string) {
			Tidy(path)
			require.Equal(t, want, entries(t, parent), what)
		}
	}
	d, err := CreateDir(name)
	require.NoError(t, err)
	require.NoError(t, d.Note([]byte("x")))
	left("in use")(name, ".out.journal", ".out.partial")
	require.NoError(t, os.WriteFile(d.Path("f"), []byte("x"), 0o666))
	d.Leave()
	left("a run can go on")(name, ".out.journal", ".out.partial")
	require.NoError(t, os.Rename(d.Path(""), name))
	left("all has its name")(name+"/", "out")

	d, err = CreateDir(name)
	require.NoError(t, err)
	require.NoError(t, d.Note([]byte("x")))
	d.Leave()
	left("all has been moved, and not all that was is removed")(name, ".out.journal", ".out.partial", "out")
	require.NoError(t, os.Remove(filepath.Join(parent, ".out.partial")))
	left("all has been moved")(name, "out")

	file := filepath.Join(parent, "file")
	f, err := Create(file)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	require.NoError(t, os.Link(file, filepath.Join(parent, ".file.partial")))
	left("the second name")(file, "file", "out")
	f, err = Create(file)
	require.NoError(t, err)
	left("in use")(file, ".file.partial", "file", "out")
	f.Abort()
}

func TestMerge(t *testing.T) {
	parent := t.TempDir()
	name := filepath.Join(parent, "out")
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	for _, file := range []string{"shard", "old", "mine"} {
		write(filepath.Join(name, file), "old")
	}
	d, err := CreateDir(name)
	require.NoError(t, err)
	require.NoError(t, d.Note([]byte("x")))
	write(d.Path("sub/other"), "new")
	write(d.Path("index"), "new")
	write(filepath.Join(name, "shard"), "new") // moved by a run that was interrupted
	d.Leave()
	d, err = CreateDir(name)
	require.NoError(t, err)
	require.NoError(t, d.Merge([]string{"shard", "sub/other", "index"}, []string{"old", "absent"}))
	require.Equal(t, []string{"out"}, entries(t, parent))
	require.Equal(t, []string{"index", "mine", "shard", "sub"}, entries(t, name))
	got, err := os.ReadFile(filepath.Join(name, "shard"))
	require.NoError(t, err)
	require.Equal(t, "new", string(got))

	d, err = CreateDir(name)
	require.NoError(t, err)
	require.NoError(t, d.Note([]byte("x")))
	require.Error(t, d.Merge([]string{"nowhere"}, nil))
	d, err = CreateDir(name)
	require.NoError(t, err)
	require.Len(t, d.Notes(), 1, "the journal stays")
	d.Abort()
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
