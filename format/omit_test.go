package format_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// writeOne writes one file of the set of m, whose files have one tensor each.
func writeOne(t *testing.T, m *model, file int) (name string) {
	dir := t.TempDir()
	s := format.CreateSet(dir, "m", 1, nil)
	defer s.Abort()
	files, err := s.Files(m.infos, m.meta)
	require.NoError(t, err)
	for k := range files {
		if k != file {
			s.Omit(k)
		}
	}
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.Error(t, s.Write((file+1)%len(m.infos), 0, m.data[(file+1)%len(m.infos)]), "of an omitted file")
	require.NoError(t, s.Write(file, 0, m.data[file]))
	require.ErrorContains(t, s.Finish(m.records), "omitted")
	require.NoError(t, s.FinishFile(file, m.records[file:file+1]))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return filepath.Join(dir, files[file].Name)
}

// TestOmit: files that were written one by one, each without the others, become
// the set that is written at once, byte for byte.
func TestOmit(t *testing.T) {
	m := keptSet()
	m.records = recordsOf(m)
	want, got := t.TempDir(), t.TempDir()
	require.NoError(t, m.write(format.CreateSet(want, "m", 1, nil), 1<<20))
	for _, file := range []int{2, 0, 1} {
		name := writeOne(t, m, file)
		require.NoError(t, os.Rename(name, filepath.Join(got, filepath.Base(name))))
	}
	_, err := format.OpenSet(got, nil)
	require.ErrorIs(t, err, tensor.ErrFormat, "links are pending")

	before := unlinked(t, got)
	s := format.CreateSet(got, "m", 1, nil)
	for file := range m.infos {
		s.Keep(file)
	}
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.NoError(t, s.Finish(m.records))
	require.Equal(t, before, unlinked(t, got))
	requireSameFiles(t, want, got)
	set, err := format.OpenSet(got, nil)
	require.NoError(t, err)
	defer set.Close()
	m.requireHolds(t, set)
}

// unlinked returns the digests of files without their links.
func unlinked(t *testing.T, dir string) (list []tensor.Hash) {
	names, err := filepath.Glob(filepath.Join(dir, "*.demi"))
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, name := range names {
		f, err := format.Open(name, nil)
		require.NoError(t, err)
		d, err := f.UnlinkedDigest()
		require.NoError(t, err)
		list = append(list, d)
		require.NoError(t, f.Close())
	}
	return list
}

// TestOmitOfAnotherModel: a file with a link that is not pending must have its
// place.
func TestOmitOfAnotherModel(t *testing.T) {
	m, other := keptSet(), keptSet()
	m.records = recordsOf(m)
	other.data[0] = append([]byte{1}, other.data[0][1:]...)
	got := t.TempDir()
	require.NoError(t, other.write(format.CreateSet(got, "m", 1, nil), 1<<20))
	for _, file := range []int{0, 1} {
		name := writeOne(t, m, file)
		require.NoError(t, os.Rename(name, filepath.Join(got, filepath.Base(name))))
	}
	s := format.CreateSet(got, "m", 1, nil)
	defer s.Abort()
	for file := range m.infos {
		s.Keep(file)
	}
	require.NoError(t, s.Begin(m.infos, m.meta))
	require.ErrorIs(t, s.Finish(m.records), tensor.ErrChanged)
}

func requireSameFiles(t *testing.T, want, got string) {
	t.Helper()
	entries, err := os.ReadDir(want)
	require.NoError(t, err)
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(want, e.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(got, e.Name()))
		require.NoError(t, err)
		require.Equal(t, a, b, e.Name())
	}
	others, err := os.ReadDir(got)
	require.NoError(t, err)
	require.Len(t, others, len(entries))
}
