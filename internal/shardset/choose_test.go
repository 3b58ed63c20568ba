package shardset_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

const (
	m1, m2 = "m-00001-of-00002.x", "m-00002-of-00002.x"
	m9     = "m-00009-of-00009.x"
	ix     = "m.x.index.json"
)

// options take an index whose text is the names of its files.
func options(ignore bool) *shardset.Options {
	return &shardset.Options{IgnoreIndex: ignore, MaxIndex: 100, Parse: func(text []byte) ([]string, error) {
		if string(text) == "bad" {
			return nil, errors.New("not an index")
		}
		return strings.Fields(string(text)), nil
	}}
}

// TestChoose: which files a path stands for, and what is wrong with them:
// those that are missing, left over, or in two sets.
func TestChoose(t *testing.T) {
	whole := []string{m1, m2, ix}
	for _, c := range []struct {
		name   string
		files  []string // in the directory; indexes name both shards
		path   string
		ignore bool
		class  string // of the error
		want   string // the files, or a part of the error
		warn   string // a part of the only warning
	}{
		{"whole", whole, "", false, "", m1 + " " + m2, ""},
		{"by index", whole, ix, false, "", m1 + " " + m2, ""},
		{"by shard", whole, m2, false, "", m1 + " " + m2, ""},
		{"shards without index", whole[:2], "", false, "", m1 + " " + m2, ""},
		{"a shard without index", whole[:2], m2, false, "", m1 + " " + m2, ""},
		{"one file", []string{"y.x"}, "", false, "", "y.x", ""},
		{"one of many files", append(whole, "y.x"), "y.x", false, "", "y.x", ""},
		{"a file of another kind", append(whole, "y.z"), "y.z", false, "", "y.z", ""},
		{"hidden files", append(whole, "._m.x", ".y.x.index.json"), "", false, "", m1 + " " + m2, ""},
		{"index of any name", []string{m1, m2, "other.json"}, "other.json", false, "", m1 + " " + m2, ""},

		{"nothing", nil, "", false, "absent", "no .x file", ""},
		{"no such path", nil, "y.x", false, "absent", "y.x", ""},
		{"no file of the stem", []string{"y.x", ix}, ix, true, "absent", "no m.x file", ""},
		{"missing by index", []string{m1, ix}, "", false, "format", ix + ": invalid file: 1 of 2 parts are missing: " + m2, ""},
		{"missing by name", []string{m2}, m2, false, "format", "1 of 2 parts are missing: " + m1, ""},
		{"missing by the name of the first", []string{m1}, m1, false, "format", "1 of 2 parts are missing: " + m2, ""},
		{"missing in directory", []string{m2}, "", false, "format", "1 of 2 parts are missing: " + m1, ""},
		{"missing, index ignored", []string{m2, ix}, ix, true, "format", "1 of 2 parts are missing: " + m1, ""},

		{"two sets", []string{m1, m2, "all.x"}, "", false, "unsupported", "2 models and no index that decides, name one of them: all.x, m-*-of-00002.x", ""},
		{"two counts", []string{m1, m2, "m-00001-of-00001.x"}, "", false, "unsupported", "m-*-of-00001.x, m-*-of-00002.x", ""},
		{"two sets, one of the stem", append(whole, "all.x"), ix, true, "", m1 + " " + m2, ""},
		{"two indexes", append(whole, "y.x.index.json"), "", false, "unsupported", "2 indexes, name one of them: " + ix + ", y.x.index.json", ""},
		{"two indexes, ignored", append(whole, "y.x.index.json"), "", true, "", m1 + " " + m2, ""},
		{"left over", append(whole, "all.x", m9), "", false, "", m1 + " " + m2, ix + " does not name all.x, " + m9 + ": left out"},
		{"left over by name", append(whole, m9), m9, false, "format", ix + " does not name this part, but " + m1 + ", " + m2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(m1+"\n"+m2), 0o600))
			}
			check := func(got *shardset.Choice, err error) {
				t.Helper()
				if c.class != "" {
					require.Equal(t, c.class == "absent", errors.Is(err, os.ErrNotExist))
					require.True(t, c.class == "absent" || c.class == class(err), "%v", err)
					require.ErrorContains(t, err, c.want)
					return
				}
				require.NoError(t, err)
				for i := range got.Files {
					got.Files[i] = filepath.Base(got.Files[i])
				}
				require.Equal(t, c.want, strings.Join(got.Files, " "))
				require.Equal(t, c.warn != "", len(got.Warnings) == 1)
				require.Contains(t, strings.Join(got.Warnings, " "), c.warn)
			}
			o := options(c.ignore)
			check(sets.Choose(filepath.Join(dir, c.path), o))
			o.FS = os.DirFS(dir)
			check(sets.Choose(path.Join(".", c.path), o))
		})
	}
}

// TestChooseWithoutIndexes: a kind that has none takes names alone, and what
// is named like an index for a file.
func TestChooseWithoutIndexes(t *testing.T) {
	fsys := fstest.MapFS{"d/" + m1: {}, "d/" + m2: {}, "d/" + ix: {Data: []byte("x")}, "d/other.json": {}, "e/" + m1: {}, "e/all.x": {}}
	o := &shardset.Options{FS: fsys}
	for path, want := range map[string][]string{
		"d": {"d/" + m1, "d/" + m2}, "d/" + m2: {"d/" + m1, "d/" + m2}, "d/" + ix: {"d/" + ix}, "d/other.json": {"d/other.json"}, "e/all.x": {"e/all.x"},
	} {
		got, err := sets.Choose(path, o)
		require.NoError(t, err)
		require.Equal(t, &shardset.Choice{Files: want}, got)
	}
	_, err := sets.Choose("e", o)
	require.ErrorContains(t, err, "directory has 2 models, name one of them: all.x, m-*-of-00002.x")
	_, err = sets.Choose("e/"+m1, o)
	require.ErrorContains(t, err, "1 of 2 parts are missing: "+m2)
}

// TestChooseIndex: an index that cannot be read is named by the error.
func TestChooseIndex(t *testing.T) {
	name := filepath.Join(t.TempDir(), ix)
	choose := func(text string) error {
		require.NoError(t, shardset.WriteIndex(name, []byte(text)))
		_, err := sets.Choose(name, options(false))
		return err
	}
	require.Equal(t, &tensor.FileError{File: name, Offset: -1, Err: errors.New("not an index")}, choose("bad"))
	err := choose(strings.Repeat(" ", 101))
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, name+": limit exceeded: index of 101 bytes, the limit is 100")
	require.NoError(t, choose(strings.Repeat(" ", 100)))
}
