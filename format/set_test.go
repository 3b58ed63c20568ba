package format_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// writeSet writes the model of the tests below: four files.
func writeSet(t *testing.T) (dir string, m *model) {
	dir, m = t.TempDir(), keptSet()
	m.add("d", tensor.BF16, []byte{}, 0)
	m.add("e", tensor.U8, noise(100, 1), 100)
	m.records = recordsOf(m)
	require.NoError(t, m.write(format.CreateSet(dir, "model", 50, nil), 7))
	return dir, m
}

func TestSetRoundTrip(t *testing.T) {
	dir, m := writeSet(t)
	paths := []string{dir, filepath.Join(dir, "model.demi.index.json")}
	for no := 1; no <= 4; no++ {
		paths = append(paths, format.ShardName(filepath.Join(dir, "model"), no, 4))
	}
	for _, path := range paths {
		for _, o := range []*format.Options{nil, {IgnoreIndex: true}, {Map: true}} {
			s, err := format.OpenSet(path, o)
			require.NoError(t, err, path)
			m.requireHolds(t, s)
			require.NoError(t, s.Verify(context.Background(), 1))
			require.Len(t, s.Files(), 4)
			require.Empty(t, s.Warnings())
			records, err := s.Records()
			require.NoError(t, err)
			require.Equal(t, m.records, records)
			x, ok := s.Lookup("e")
			require.True(t, ok)
			require.EqualValues(t, 100, x.Info().Size)
			require.NoError(t, s.Close())
		}
	}
	s, err := format.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.EqualValues(t, 80+40+20+100, s.Index().Metadata.TotalSize)
	require.Len(t, s.Index().Metadata.Digests, 4)
}

func TestOneShard(t *testing.T) {
	dir, m := t.TempDir(), keptSet()
	require.NoError(t, m.write(format.CreateSet(dir, "model", 0, nil), 1<<20))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	s, err := format.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	m.requireHolds(t, s)
	one, err := os.ReadFile(filepath.Join(dir, "model.demi"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, m.bytes(t, nil)))
}

// TestSetRefusals: sets that are not whole or not of one piece.
func TestSetRefusals(t *testing.T) {
	index := func(t *testing.T, dir string, change func(x map[string]any)) {
		name := filepath.Join(dir, "model.demi.index.json")
		p, err := os.ReadFile(name)
		require.NoError(t, err)
		var x map[string]any
		require.NoError(t, json.Unmarshal(p, &x))
		change(x)
		p, err = json.Marshal(x)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, p, 0o644))
	}
	weights := func(x map[string]any) map[string]any { return x["weight_map"].(map[string]any) }
	for want, damage := range map[string]func(t *testing.T, dir string){
		"1 of 4 files are missing: model-00002-of-00004.demi": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "model-00002-of-00004.demi")))
		},
		"1 file has another digest: model-00003-of-00004.demi": func(t *testing.T, dir string) {
			m := &model{}
			m.add("c", tensor.BF16, noise(20, 99), 2, 5)
			m.add("d", tensor.BF16, []byte{}, 0)
			require.NoError(t, m.write(format.Create(filepath.Join(dir, "model-00003-of-00004.demi"), nil), 1<<20))
		},
		`1 tensor of the index is in no file: "zz"`: func(t *testing.T, dir string) {
			index(t, dir, func(x map[string]any) { weights(x)["zz"] = "model-00001-of-00004.demi" })
		},
		`1 tensor of the files is not in the index: "a"`: func(t *testing.T, dir string) {
			index(t, dir, func(x map[string]any) {
				delete(weights(x), "a")
				weights(x)["b"] = "model-00001-of-00004.demi"
			})
		},
		"leaves the directory": func(t *testing.T, dir string) {
			index(t, dir, func(x map[string]any) { weights(x)["a"] = "../model-00001-of-00004.demi" })
		},
		"weight_map is missing": func(t *testing.T, dir string) {
			index(t, dir, func(x map[string]any) { delete(x, "weight_map") })
		},
		"2 indexes": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "other.demi.index.json"), []byte("{}"), 0o644))
		},
	} {
		dir, _ := writeSet(t)
		damage(t, dir)
		_, err := format.OpenSet(dir, nil)
		require.ErrorContains(t, err, want)
		var place *tensor.FileError
		require.ErrorAs(t, err, &place)
	}
	dir, m := writeSet(t)
	require.NoError(t, m.write(format.CreateSet(dir, "model", 120, nil), 1<<20))
	_, err := format.OpenSet(dir, &format.Options{IgnoreIndex: true})
	require.ErrorContains(t, err, "2 models")
	s, err := format.OpenSet(dir, nil)
	require.NoError(t, err)
	require.Len(t, s.Warnings(), 1, "files of the set before")
	require.NoError(t, s.Close())
	_, err = format.OpenSet(t.TempDir(), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = format.OpenSet(filepath.Join(dir, "none.demi"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestTwoModels: files of two models of the same shape are no set, whether there
// is an index, with digests or without, or none.
func TestTwoModels(t *testing.T) {
	other := keptSet()
	other.data[0] = bytes.Clone(other.data[0])
	other.data[0][3] ^= 1
	for _, indexed := range []bool{true, false} {
		for _, o := range []*format.Options{nil, {IgnoreIndex: true}} {
			for no := 1; no <= 3; no++ {
				a, b := t.TempDir(), t.TempDir()
				require.NoError(t, keptSet().write(format.CreateSet(a, "m", 50, nil), 1<<20))
				require.NoError(t, other.write(format.CreateSet(b, "m", 50, nil), 1<<20))
				index := filepath.Join(a, "m.demi.index.json")
				text, err := os.ReadFile(index)
				require.NoError(t, err)
				var x map[string]any
				require.NoError(t, json.Unmarshal(text, &x))
				delete(x["metadata"].(map[string]any), "digests")
				text, err = json.Marshal(x)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(index, text, 0o600))
				if !indexed {
					require.NoError(t, os.Remove(index))
				}
				s, err := format.OpenSet(a, o)
				require.NoError(t, err)
				require.NoError(t, s.Close())

				require.NoError(t, os.Rename(format.ShardName(filepath.Join(b, "m"), no, 3), format.ShardName(filepath.Join(a, "m"), no, 3)))
				_, err = format.OpenSet(a, o)
				require.ErrorIs(t, err, tensor.ErrFormat)
				require.ErrorContains(t, err, "of another model than")
			}
		}
	}
}

// TestWrongMembers: files that say they are others, and those that say nothing.
func TestWrongMembers(t *testing.T) {
	copied := func(from, to string) {
		p, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, p, 0o600))
	}
	linked := func(no int) string { return format.ShardName(filepath.Join(keptDir, "linked", "model"), no, 3) }
	dir := t.TempDir()
	two := func(no int) string { return format.ShardName(filepath.Join(dir, "m"), no, 2) }
	copied(linked(1), two(1))
	copied(linked(3), two(2))
	_, err := format.OpenSet(dir, nil)
	require.ErrorContains(t, err, "one of 3 files of a set, and here there are 2")

	dir = t.TempDir()
	m := &model{}
	m.add("z", tensor.U8, noise(3, 1), 3)
	require.NoError(t, m.write(format.Create(format.ShardName(filepath.Join(dir, "m"), 1, 3), nil), 1<<20))
	for no := 2; no <= 3; no++ {
		copied(linked(no), format.ShardName(filepath.Join(dir, "m"), no, 3))
	}
	_, err = format.OpenSet(dir, nil)
	require.ErrorContains(t, err, "file 1 of the set does not say so")

	dir = t.TempDir()
	one := filepath.Join(dir, "one.demi")
	copied(linked(2), one)
	s, err := format.OpenSet(one, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Warnings(), 1)
	require.Contains(t, s.Warnings()[0], "file 2 of 3 of a set")
}

func TestSetNames(t *testing.T) {
	m := &model{}
	m.add("\xff", tensor.U8, []byte{1}, 1)
	m.requireHolds(t, mustOpen(t, m.bytes(t, nil)))
	m.add("b", tensor.U8, []byte{1}, 1)
	require.ErrorContains(t, m.write(format.CreateSet(t.TempDir(), "m", 1, nil), 1), "UTF-8")
	require.ErrorContains(t, m.write(format.CreateSet(t.TempDir(), "nul", 100, nil), 1), "reserved")
}

// TestIndexFileNames: only plain names of our files are taken; those of
// internal/shardset, but for the extension alone.
func TestIndexFileNames(t *testing.T) {
	for name, want := range map[string]error{
		"m.demi": nil, "..demi": nil, "../m.demi": tensor.ErrFormat, "nul.demi": tensor.ErrFormat,
		"": tensor.ErrUnsupported, ".": tensor.ErrUnsupported, ".demi": tensor.ErrUnsupported, "m.bin": tensor.ErrUnsupported,
	} {
		_, err := format.ParseIndex(fmt.Appendf(nil, `{"weight_map": {"w": %q}}`, name))
		require.ErrorIs(t, err, want, name)
	}
}

// TestNothingLeft: an output that is given up leaves no file.
func TestNothingLeft(t *testing.T) {
	m := keptSet()
	for name, end := range map[string]func(s *format.Sink) error{
		"abort":   func(s *format.Sink) error { s.Abort(); return nil },
		"missing": func(s *format.Sink) error { err := s.Finish(nil); s.Abort(); return err },
	} {
		dir := t.TempDir()
		for _, s := range []*format.Sink{format.Create(filepath.Join(dir, "a.demi"), nil), format.CreateSet(dir, "m", 1, nil)} {
			require.NoError(t, s.Begin(m.infos, m.meta))
			require.NoError(t, s.Write(0, 0, m.data[0]))
			if err := end(s); name == "missing" {
				require.ErrorContains(t, err, "byte 0 of 40 has not been written")
			}
			require.Error(t, s.Write(1, 0, m.data[1]))
			require.Error(t, s.Finish(nil))
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}
