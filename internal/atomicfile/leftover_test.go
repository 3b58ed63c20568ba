package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeftovers: what a staging has left is found and removed, what one uses is
// not, and what may be somebody else's is not either.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"model.partial", ".partial", ".journal", ".hidden", "a.journal"} {
		require.NoError(t, os.WriteFile(path(name), nil, 0o666))
	}
	require.NoError(t, os.Symlink("model.partial", path(".link.partial")))
	require.NoError(t, os.WriteFile(path(".old.partial"), []byte("x"), 0o666))
	require.NoError(t, os.WriteFile(path(".lone.journal"), []byte("x"), 0o666))
	require.NoError(t, os.MkdirAll(path(".foreign.partial/sub"), 0o777))
	left, err := CreateDir(path("out"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(left.Path("shard"), []byte("x"), 0o666))
	require.NoError(t, left.Note([]byte("note")))
	left.Leave()
	file, err := Create(path("now"))
	require.NoError(t, err)
	used, err := CreateDir(path("used"))
	require.NoError(t, err)

	list, err := Leftovers(dir)
	require.NoError(t, err)
	got := map[string]Leftover{}
	for _, l := range list {
		got[l.Name] = l
	}
	require.Equal(t, map[string]Leftover{
		"old":     {"old", path(".old.partial"), "", false},
		"lone":    {"lone", "", path(".lone.journal"), false},
		"foreign": {"foreign", path(".foreign.partial"), "", true},
		"out":     {"out", path(".out.partial"), path(".out.journal"), true},
		"now":     {"now", path(".now.partial"), "", false},
		"used":    {"used", path(".used.partial"), path(".used.journal"), true},
	}, got)
	for _, name := range []string{"old", "lone", "out"} {
		require.False(t, got[name].Busy(), name)
		require.NoError(t, got[name].Remove(), name)
		require.Error(t, got[name].Remove(), "twice")
	}
	for _, name := range []string{"now", "used"} {
		require.True(t, got[name].Busy(), name)
		require.ErrorIs(t, got[name].Remove(), ErrBusy, name)
	}
	require.Error(t, got["foreign"].Remove())
	file.Abort()
	used.Abort()
	list, err = Leftovers(dir)
	require.NoError(t, err)
	require.Equal(t, []Leftover{got["foreign"]}, list)
}
