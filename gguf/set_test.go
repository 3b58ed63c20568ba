package gguf_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// TestSetRoundTrip writes random models as sets and reads them from any shard.
func TestSetRoundTrip(t *testing.T) {
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := filepath.Join(root, fmt.Sprint(run))
		require.NoError(t, os.Mkdir(dir, 0o777))
		m := drawModel(t)
		limit := rapid.Int64Range(1, 2000).Draw(t, "limit")
		require.NoError(t, m.write(gguf.CreateSet(filepath.Join(dir, "m"), limit, nil), 50))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		shards, err := gguf.Split(m.infos, limit, nil)
		require.NoError(t, err)
		require.Len(t, entries, len(shards))
		paths := []string{dir}
		for _, e := range entries {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
		for _, path := range paths {
			s, err := gguf.OpenSet(path, nil)
			require.NoError(t, err)
			requireModel(t, m, m.meta, s)
			require.Empty(t, s.Warnings())
			for i, shard := range shards {
				require.Len(t, s.Files()[i].Tensors(), shard.To-shard.From)
				require.True(t, shard.To > shard.From || len(m.infos) == 0, "no shard is empty")
				require.True(t, shard.Size <= limit || shard.To-shard.From == 1)
			}
			require.NoError(t, s.Close())
		}
	})
}

// three is a set of three tensors in three shards.
func three(t *testing.T) (dir string, m *model) {
	m = &model{meta: tensor.Metadata{{Key: "general.name", Value: "three"}, {Key: "split.count", Value: uint16(9)}}}
	for i := range 3 {
		m.add(tensor.Info{Name: fmt.Sprint("t", i), DType: tensor.F32, Shape: []int64{8}}, bytes.Repeat([]byte{byte(i)}, 32))
	}
	dir = t.TempDir()
	require.NoError(t, m.write(gguf.CreateSet(filepath.Join(dir, "m.gguf"), 32, nil), 8))
	return dir, m
}

func TestSetKeys(t *testing.T) {
	dir, _ := three(t)
	for no := range 3 {
		f, err := gguf.Open(filepath.Join(dir, gguf.ShardName("m", no+1, 3)), nil)
		require.NoError(t, err)
		defer f.Close()
		want := tensor.Metadata{{Key: "split.no", Value: uint16(no)}, {Key: "split.tensors.count", Value: int32(3)}, {Key: "split.count", Value: uint16(3)}}
		if no == 0 {
			want = append(tensor.Metadata{{Key: "general.name", Value: "three"}}, want...)
		}
		require.Equal(t, want, f.Meta())
	}
	s, err := gguf.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, tensor.Metadata{{Key: "general.name", Value: "three"}}, s.Meta())
	file, at := s.Place(2)
	require.Equal(t, filepath.Join(dir, "m-00003-of-00003.gguf"), file)
	require.NotZero(t, at)
}

// shardFile writes a shard by hand: one tensor of the name given, and the keys
// that are not nil.
func shardFile(t *testing.T, path, name string, no, count, total any, extra ...tensor.Entry) {
	t.Helper()
	m := &model{}
	for _, e := range []tensor.Entry{{Key: "split.no", Value: no}, {Key: "split.count", Value: count}, {Key: "split.tensors.count", Value: total}} {
		if e.Value != nil {
			m.meta = append(m.meta, e)
		}
	}
	m.meta = append(m.meta, extra...)
	m.add(tensor.Info{Name: name, DType: tensor.I8, Shape: []int64{3}}, []byte("abc"))
	require.NoError(t, m.write(gguf.Create(path, nil), 10))
}

// TestSetRefused puts a wrong second shard into a set of three (U33, U34).
func TestSetRefused(t *testing.T) {
	two, num, total := uint16(1), uint16(3), int32(3)
	for _, c := range []struct {
		name, tensor     string
		no, count, total any
		want             string
	}{
		{"wrong number", "x", uint16(2), num, total, "split.no is 2, the name says 1"},
		{"number from 1", "x", uint16(2), num, total, "counted from 0"},
		{"no number", "x", nil, num, total, "split.no is missing, the name says 1"},
		{"wrong count", "x", two, uint16(4), total, "split.count is 4, the name says 3"},
		{"no count", "x", two, nil, total, "split.count is missing, the name says 3"},
		{"wrong total", "x", two, num, int32(4), "split.tensors.count is 4, the set has 3 tensors"},
		{"number is text", "x", "1", num, total, `split.no is "1", want a number`},
		{"number is negative", "x", int16(-1), num, total, "split.no is -1, want a number"},
		{"number is a list", "x", gguf.Strings("a"), num, total, "an array of 1 string"},
		{"number is a float", "x", float32(1.5), num, total, "split.no is 1.5, want a number"},
		{"tensor twice", "t0", two, num, total, `duplicate tensor name "t0": it is also in`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := three(t)
			bad := filepath.Join(dir, gguf.ShardName("m", 2, 3))
			shardFile(t, bad, c.tensor, c.no, c.count, c.total)
			_, err := gguf.OpenSet(filepath.Join(dir, gguf.ShardName("m", 3, 3)), nil)
			require.ErrorIs(t, err, tensor.ErrFormat)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, bad)
		})
	}
}

func TestSetFirstShardCounts(t *testing.T) {
	dir, _ := three(t)
	shardFile(t, filepath.Join(dir, gguf.ShardName("m", 1, 3)), "x", uint16(0), uint16(3), nil)
	_, err := gguf.OpenSet(dir, nil)
	require.ErrorContains(t, err, "split.tensors.count is missing, the set has 3 tensors")
	// other integer types, and no total in a later shard, are fine
	shardFile(t, filepath.Join(dir, gguf.ShardName("m", 1, 3)), "x", uint64(0), int8(3), uint32(3), tensor.Entry{Key: "k", Value: "v"})
	shardFile(t, filepath.Join(dir, gguf.ShardName("m", 2, 3)), "y", uint64(1), int8(3), nil, tensor.Entry{Key: "k", Value: "w"}, tensor.Entry{Key: "other", Value: "v"})
	s, err := gguf.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Warnings(), 1)
	require.Contains(t, s.Warnings()[0], `another value: "k"`)
	require.Equal(t, tensor.Metadata{{Key: "k", Value: "v"}, {Key: "other", Value: "v"}}, s.Meta())
}

func TestSetMissing(t *testing.T) {
	dir, _ := three(t)
	require.NoError(t, os.Remove(filepath.Join(dir, gguf.ShardName("m", 2, 3))))
	for _, path := range []string{dir, filepath.Join(dir, gguf.ShardName("m", 3, 3))} {
		_, err := gguf.OpenSet(path, nil)
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.ErrorContains(t, err, "1 of 3 shards")
		require.ErrorContains(t, err, "m-00002-of-00003.gguf")
	}
	lone := filepath.Join(t.TempDir(), gguf.ShardName("m", 7, 20))
	shardFile(t, lone, "x", uint16(6), uint16(20), nil)
	_, err := gguf.OpenSet(lone, nil)
	require.ErrorContains(t, err, "m-00011-of-00020.gguf and 9 more")
	_, err = gguf.OpenSet(filepath.Join(dir, "absent.gguf"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSetOfOne(t *testing.T) {
	dir := t.TempDir()
	_, err := gguf.OpenSet(dir, nil)
	require.ErrorContains(t, err, "no .gguf file")
	m := small()
	require.NoError(t, m.write(gguf.CreateSet(filepath.Join(dir, "a.gguf"), 0, nil), 9))
	require.FileExists(t, filepath.Join(dir, "a.gguf"), "one shard is a plain file")
	s, err := gguf.OpenSet(dir, nil)
	require.NoError(t, err)
	requireModel(t, m, m.meta, s)
	require.NoError(t, s.Close())

	shardFile(t, filepath.Join(dir, "b.gguf"), "x", uint16(0), uint16(0), int32(1)) // as merged files are
	_, err = gguf.OpenSet(dir, nil)
	require.ErrorContains(t, err, "2 models")
	s, err = gguf.OpenSet(filepath.Join(dir, "b.gguf"), nil)
	require.NoError(t, err)
	require.Empty(t, s.Meta())
	require.NoError(t, s.Close())

	shardFile(t, filepath.Join(dir, "c.gguf"), "x", uint16(0), uint16(2), int32(1))
	_, err = gguf.OpenSet(filepath.Join(dir, "c.gguf"), nil)
	require.ErrorContains(t, err, "split.count is 2, but the name is not like")
}

// TestSetWarnings checks that a warning of a shard names it.
func TestSetWarnings(t *testing.T) {
	dir, _ := three(t)
	second := filepath.Join(dir, gguf.ShardName("m", 2, 3))
	p, err := os.ReadFile(second)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(second, append(p, 0), 0o666))
	s, err := gguf.OpenSet(second, nil)
	require.NoError(t, err)
	require.Equal(t, []string{second + ": 1 bytes follow the last tensor and its padding"}, s.Warnings())
	require.NoError(t, s.Close())
	require.Error(t, s.Close(), "a second Close")
	_, err = s.Data(0).ReadAt(make([]byte, 1), 0)
	require.Error(t, err, "a read after Close")
	require.NoError(t, os.WriteFile(second, p[:100], 0o666))
	_, err = gguf.OpenSet(dir, nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	require.ErrorContains(t, err, second)
}

// TestSetAppearsBackwards: the shards take their names from the last one to
// the first, without which none of them can be opened; if one cannot, those
// before it are gone again.
func TestSetAppearsBackwards(t *testing.T) {
	m := &model{}
	for i := range 3 {
		m.add(tensor.Info{Name: fmt.Sprint(i), DType: tensor.I8, Shape: []int64{32}}, make([]byte, 32))
	}
	all := []string{"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}
	for last := range all {
		dir := t.TempDir()
		for _, blocked := range all[:last+1] {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, blocked, "in the way"), 0o777)) // no file takes the name of a directory
		}
		require.ErrorContains(t, m.write(gguf.CreateSet(filepath.Join(dir, "m"), 32, nil), 32), all[last])
		require.Equal(t, all[:last+1], entries(t, dir), "only what was there before")
	}
	dir := t.TempDir()
	require.NoError(t, m.write(gguf.CreateSet(filepath.Join(dir, "m"), 32, nil), 32))
	require.Equal(t, all, entries(t, dir))
}
