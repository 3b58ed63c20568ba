package format_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

func TestShardName(t *testing.T) {
	require.Equal(t, "d/model-00002-of-00013.demi", format.ShardName("d/model", 2, 13))
	require.Equal(t, "d/model.demi.index.json", format.IndexName("d/model"))
	stem, no, count, ok := format.ParseShardName("d/m-x-00002-of-00013.demi")
	require.True(t, ok)
	require.Equal(t, []any{"d/m-x", 2, 13}, []any{stem, no, count})
	for _, name := range []string{"", "model.demi", "m-00000-of-00002.demi", "m-00003-of-00002.demi", "m-1-of-2.demi", "m-00001-of-+0002.demi", "of-00002.demi"} {
		_, _, _, ok := format.ParseShardName(name)
		require.False(t, ok, name)
	}
}

func TestSplitShards(t *testing.T) {
	runs := func(limit int64, sizes ...int64) string {
		var infos []tensor.Info
		for i, n := range sizes {
			infos = append(infos, tensor.Info{Name: fmt.Sprint("t", i), Size: n})
		}
		shards, warnings := format.SplitShards(infos, limit)
		var out []string
		for _, s := range shards {
			out = append(out, fmt.Sprintf("%d-%d:%d", s.From, s.To, s.Size))
		}
		return strings.Join(append(out, warnings...), " ")
	}
	require.Equal(t, "0-1:6 1-3:8 3-6:10", runs(10, 6, 6, 2, 6, 2, 2))
	require.Equal(t, `0-1:4 1-2:11 2-3:4 tensor "t1" of 11 bytes is larger than the limit of 10 for a shard`, runs(10, 4, 11, 4))
	require.Equal(t, "0-3:12", runs(0, 4, 4, 4))
	require.Equal(t, "0-0:0", runs(10))
}

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
		"1 files have another digest: model-00003-of-00004.demi": func(t *testing.T, dir string) {
			m := &model{}
			m.add("c", tensor.BF16, noise(20, 99), 2, 5)
			m.add("d", tensor.BF16, []byte{}, 0)
			require.NoError(t, m.write(format.Create(filepath.Join(dir, "model-00003-of-00004.demi"), nil), 1<<20))
		},
		`1 tensors of the index are in no file: "zz"`: func(t *testing.T, dir string) {
			index(t, dir, func(x map[string]any) { weights(x)["zz"] = "model-00001-of-00004.demi" })
		},
		`1 tensors of the files are not in the index: "a"`: func(t *testing.T, dir string) {
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

func TestSetNames(t *testing.T) {
	m := &model{}
	m.add("\xff", tensor.U8, []byte{1}, 1)
	m.requireHolds(t, mustOpen(t, m.bytes(t, nil)))
	m.add("b", tensor.U8, []byte{1}, 1)
	require.ErrorContains(t, m.write(format.CreateSet(t.TempDir(), "m", 1, nil), 1), "UTF-8")
	require.ErrorContains(t, m.write(format.CreateSet(t.TempDir(), "nul", 100, nil), 1), "reserved")
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
