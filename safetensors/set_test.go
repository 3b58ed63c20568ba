package safetensors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

func sized(sizes ...int64) (infos []tensor.Info) {
	for i, n := range sizes {
		infos = append(infos, info(fmt.Sprint("t", i), tensor.U8, n))
	}
	return infos
}

func TestDefaultShardSize(t *testing.T) {
	require.Equal(t, int64(5_000_000_000), safetensors.DefaultShardSize, "decimal, as the Hub has it")
}

// TestSetRoundTrip: a set is found by directory, by index and by each shard,
// and has what was written.
func TestSetRoundTrip(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		m, o := drawMemory(t), drawWrite(t)
		limit := rapid.Int64Range(1, 200).Draw(t, "limit")
		m.into(t, m.infos, safetensors.CreateSet(dir, "model", limit, o))
		shards, _ := safetensors.SplitShards(m.infos, limit)
		paths := []string{dir}
		for i := range shards {
			paths = append(paths, safetensors.ShardName(filepath.Join(dir, "model"), i+1, len(shards)))
		}
		if len(shards) == 1 {
			require.Equal(t, []string{"model.safetensors"}, entries(t, dir))
			paths[1] = filepath.Join(dir, "model.safetensors")
		} else {
			paths = append(paths, safetensors.IndexName(filepath.Join(dir, "model")))
			require.Len(t, entries(t, dir), len(shards)+1)
		}
		for _, path := range paths {
			requireSet(t, path, m, len(shards), o)
		}
	})
}

func requireSet(t require.TestingT, path string, m *memory, shards int, o *safetensors.WriteOptions) {
	s, err := safetensors.OpenSet(path, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, s.Warnings())
	require.Len(t, s.Files(), shards)
	require.Empty(t, cmp.Diff(m.data, content(t, s)))
	requireMeta(t, m.meta, s.Meta(), o)
	require.Equal(t, shards > 1, s.Index() != nil)
	total := int64(0)
	for i, in := range s.Tensors() {
		file, off := s.Place(i)
		total += in.Size
		require.Positive(t, off)
		if s.Index() != nil {
			require.Equal(t, s.Index().Files[in.Name], filepath.Base(file))
		}
	}
	if s.Index() != nil {
		got, ok := s.Index().TotalSize()
		require.True(t, ok)
		require.Equal(t, total, got)
	}
}

// A folder builds directories for the cases below.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) *folder { return &folder{t, t.TempDir()} }

func (d *folder) path(name string) string { return filepath.Join(d.dir, name) }

// file writes a file with tensors of one byte each, under their names.
func (d *folder) file(name string, tensors ...string) *folder {
	var infos []tensor.Info
	for _, name := range tensors {
		infos = append(infos, info(name, tensor.U8, 1))
	}
	sink := safetensors.Create(d.path(name), nil)
	require.NoError(d.t, sink.Begin(infos, nil))
	for i := range infos {
		require.NoError(d.t, sink.Write(i, 0, []byte{byte(i)}))
	}
	require.NoError(d.t, sink.Finish(nil))
	return d
}

// index writes an index: pairs of tensor and file.
func (d *folder) index(name string, pairs ...string) *folder {
	files := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = pairs[i+1]
	}
	text, err := (&safetensors.Index{Files: files}).AppendJSON(nil, int64(len(files)))
	require.NoError(d.t, err)
	require.NoError(d.t, os.WriteFile(d.path(name), text, 0o600))
	return d
}

const (
	m1, m2 = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	ix     = "model.safetensors.index.json"
)

// whole is a good set of two shards.
func (d *folder) whole() *folder {
	return d.file(m1, "a", "b").file(m2, "c").index(ix, "a", m1, "b", m1, "c", m2)
}

// TestSetCases: what a path stands for, and what is wrong with it: shards that
// are missing, left over, or not as the index says. Which files it chooses is
// tested in internal/shardset.
func TestSetCases(t *testing.T) {
	ignore := &safetensors.Options{IgnoreIndex: true}
	for _, c := range []struct {
		name  string
		build func(*folder)
		path  string
		opts  *safetensors.Options
		class string // of the error, or ok
		want  string // tensors, or a part of the error
		warn  string // a part of the only warning
	}{
		{"whole", func(d *folder) { d.whole() }, "", nil, "ok", "a b c", ""},
		{"shards without index", func(d *folder) { d.file(m1, "a").file(m2, "c") }, "", nil, "ok", "a c", ""},
		{"one file", func(d *folder) { d.file("x.safetensors", "a") }, "", nil, "ok", "a", ""},
		{"index of another stem", func(d *folder) { d.file(m1, "a").file(m2, "c").index("other.json", "c", m2) }, "other.json", nil, "ok", "c", "does not name " + m1 + ": left out"},

		{"nothing", func(d *folder) {}, "", nil, "absent", "no .safetensors file", ""},
		{"missing shard by index", func(d *folder) { d.whole(); os.Remove(d.path(m2)) }, "", nil, "format", ix + ": invalid file: 1 of 2 shards are missing: " + m2, ""},

		{"two sets", func(d *folder) { d.file(m1, "a").file(m2, "c").file("consolidated.safetensors", "a", "c") }, "", nil, "unsupported",
			"2 models and no index that decides, name one of them: consolidated.safetensors, model-*-of-00002.safetensors", ""},
		{"the index decides", func(d *folder) { d.whole().file("consolidated.safetensors", "a") }, "", nil, "ok", "a b c", "does not name consolidated.safetensors: left out"},
		{"left over by name", func(d *folder) { d.whole().file("model-00009-of-00009.safetensors", "a") }, "model-00009-of-00009.safetensors", nil, "format",
			"does not name this shard, but " + m1 + ", " + m2, ""},

		{"tensor absent", func(d *folder) { d.file(m1, "a").file(m2, "c").index(ix, "a", m1, "b", m1, "c", m2) }, "", nil, "format",
			`the index is stale: 1 tensor of the index is in no shard: "b" (in ` + m1 + `)`, ""},
		{"tensor unknown", func(d *folder) { d.file(m1, "a", "b").file(m2, "c").index(ix, "a", m1, "c", m2) }, "", nil, "format",
			`the index is stale: 1 tensor of the shards is not in the index: "b" (in ` + m1 + `)`, ""},
		{"tensor moved", func(d *folder) { d.file(m1, "a").file(m2, "b", "c").index(ix, "a", m1, "b", m1, "c", m2) }, "", nil, "format",
			`the index is stale: 1 tensor is in another shard: "b" (in ` + m2 + `, not in ` + m1 + `)`, ""},
		{"all names differ", func(d *folder) { d.whole().index(ix, "x", m1, "y", m2) }, "", nil, "format",
			`2 tensors of the index are in no shard: "x" (in ` + m1 + `), "y" (in ` + m2 + `); 3 tensors of the shards are not in the index`, ""},
		{"stale, ignored", func(d *folder) { d.whole().index(ix, "x", m1) }, "", ignore, "ok", "a b c", ""},
		{"stale, ignored by index", func(d *folder) { d.whole().index(ix, "x", m1) }, ix, ignore, "ok", "a b c", ""},
		{"stale, ignored by shard", func(d *folder) { d.whole().index(ix, "x", m1) }, m1, ignore, "ok", "a b c", ""},
		{"twice", func(d *folder) { d.file(m1, "a").file(m2, "a") }, "", nil, "format", `duplicate tensor name "a": it is also in `, ""},
		{"twice with an index", func(d *folder) { d.file(m1, "a").file(m2, "a").index(ix, "a", m1, "b", m2) }, "", nil, "format", `duplicate tensor name "a": it is also in `, ""},
		{"total_size", func(d *folder) { d.whole().rewrite(ix, `"total_size": 3`, `"total_size": 4`) }, "", nil, "ok", "a b c", "total_size is 4, the tensors have 3 bytes"},
		{"no total_size", func(d *folder) { d.whole().rewrite(ix, `"total_size": 3`, ``) }, "", nil, "ok", "a b c", ""},
		{"bad index", func(d *folder) { d.whole().rewrite(ix, m1, "../"+m1) }, "", nil, "format", "leaves the directory of the index", ""},
		{"bad shard", func(d *folder) { d.whole().rewrite(m2, "U8", "U9") }, "", nil, "unsupported", m2 + `: tensor "c"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newFolder(t)
			c.build(d)
			s, err := safetensors.OpenSet(d.path(c.path), c.opts)
			if c.class == "absent" {
				require.ErrorIs(t, err, os.ErrNotExist)
			} else {
				require.Equal(t, c.class, class(err), "%v", err)
			}
			if err != nil {
				require.ErrorContains(t, err, c.want)
				return
			}
			defer s.Close()
			requireNames(t, s, c.want)
			if c.warn == "" {
				require.Empty(t, s.Warnings())
				return
			}
			require.Len(t, s.Warnings(), 1)
			require.Contains(t, s.Warnings()[0], c.warn)
		})
	}
}

func requireNames(t *testing.T, s tensor.Source, want string) {
	t.Helper()
	var names []string
	for _, in := range s.Tensors() {
		names = append(names, in.Name)
	}
	require.Equal(t, want, strings.Join(names, " "))
}

// rewrite changes the text of a file.
func (d *folder) rewrite(name, from, to string) *folder {
	p, err := os.ReadFile(d.path(name))
	require.NoError(d.t, err)
	require.Contains(d.t, string(p), from)
	require.NoError(d.t, os.WriteFile(d.path(name), []byte(strings.ReplaceAll(string(p), from, to)), 0o600))
	return d
}

// TestSetWarnings: those of a file have its name.
func TestSetWarnings(t *testing.T) {
	d := newFolder(t).whole()
	p, err := os.ReadFile(d.path(m2))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.path(m2), append(p, 0, 0), 0o600))
	_, err = safetensors.OpenSet(d.dir, nil)
	require.ErrorContains(t, err, "2 bytes after the last tensor")
	s, err := safetensors.OpenSet(d.dir, &safetensors.Options{Lenient: true})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{d.path(m2) + ": 2 bytes after the last tensor are left out"}, s.Warnings())
}

// TestSetIndexLimit: an index counts against the limit of headers.
func TestSetIndexLimit(t *testing.T) {
	d := newFolder(t).whole()
	_, err := safetensors.OpenSet(d.dir, &safetensors.Options{MaxHeader: 100})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, ix)
}

// TestAliases: names of tied tensors in the metadata of a file and of an
// index.
func TestAliases(t *testing.T) {
	dir := t.TempDir()
	meta := tensor.Metadata{{Key: "tied", Value: "a"}, {Key: "a", Value: "c"}, {Key: "note", Value: "b c"}, {Key: "format", Value: "pt"}}
	o := &safetensors.WriteOptions{IndexMeta: []safetensors.IndexEntry{{Key: "lm_head", JSON: `"c"`}, {Key: "n", JSON: "1"}, {Key: "l", JSON: `["c"]`}}}
	sink := safetensors.CreateSet(dir, "model", 1, o)
	require.NoError(t, sink.Begin([]tensor.Info{info("a", tensor.U8, 1), info("c", tensor.U8, 1)}, meta))
	for i := range 2 {
		require.NoError(t, sink.Write(i, 0, []byte{1}))
	}
	require.NoError(t, sink.Finish(nil))
	s, err := safetensors.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, map[string]string{"tied": "a", "lm_head": "c"}, safetensors.Aliases(s))
	require.Equal(t, map[string]string{"tied": "a"}, safetensors.Aliases(s.Files()[0]))
}

// TestSetAppearsInOrder: the shards take their names first, and the index
// last; if one of them cannot, those before it are gone again.
func TestSetAppearsInOrder(t *testing.T) {
	infos := sized(1, 1, 1)
	write := func(dir string) error {
		sink := safetensors.CreateSet(dir, "model", 1, nil)
		require.NoError(t, sink.Begin(infos, nil))
		for i := range infos {
			require.ErrorContains(t, sink.Finish(nil), fmt.Sprintf(`tensor "t%d": byte 0 of 1 has not been written`, i))
			require.NoError(t, sink.Write(i, 0, []byte{1}))
		}
		return sink.Finish(nil)
	}
	all := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", ix}
	for first := range all {
		dir := t.TempDir()
		for _, blocked := range all[first:] {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, blocked, "x"), 0o700)) // no file takes the name of a directory
		}
		require.ErrorContains(t, write(dir), all[first])
		require.Equal(t, all[first:], entries(t, dir))
	}
	dir := t.TempDir()
	require.NoError(t, write(dir))
	require.Equal(t, all, entries(t, dir))
}

// TestSetRefused: what no set can be.
func TestSetRefused(t *testing.T) {
	dir := t.TempDir()
	begin := func(stem string, limit int64, o *safetensors.WriteOptions, infos []tensor.Info) error {
		return safetensors.CreateSet(dir, stem, limit, o).Begin(infos, nil)
	}
	require.ErrorContains(t, begin("nul", 1, nil, sized(1)), "reserved on Windows")
	require.ErrorContains(t, begin("a:b", 1, nil, sized(1, 1)), "characters that not every system takes")
	many := make([]int64, 100_000)
	for i := range many {
		many[i] = 1
	}
	require.ErrorContains(t, begin("model", 1, nil, sized(many...)), "100000 shards of 1 bytes, names count 99999")
	o := &safetensors.WriteOptions{IndexMeta: []safetensors.IndexEntry{{Key: "k", JSON: "{"}}}
	require.ErrorContains(t, begin("model", 1, o, sized(1, 1)), `index metadata "k" is not JSON`)
	require.Empty(t, entries(t, dir))
}

// TestShardsDisagree: metadata that the shards do not agree on is told; keys
// that only some have are not.
func TestShardsDisagree(t *testing.T) {
	dir := t.TempDir()
	for i, meta := range []tensor.Metadata{{{Key: "step", Value: "1"}, {Key: "same", Value: "s"}}, {{Key: "same", Value: "s"}, {Key: "late", Value: "a"}}, {{Key: "late", Value: "b"}, {Key: "step", Value: "2"}}} {
		sink := safetensors.Create(safetensors.ShardName(filepath.Join(dir, "model"), i+1, 3), nil)
		require.NoError(t, sink.Begin([]tensor.Info{info(fmt.Sprint("t", i), tensor.U8, 1)}, meta))
		require.NoError(t, sink.Write(0, 0, []byte{1}))
		require.NoError(t, sink.Finish(nil))
	}
	s, err := safetensors.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	third := filepath.Join(dir, "model-00003-of-00003.safetensors")
	require.Equal(t, []string{
		third + `: metadata "late" is "b", and "a" in an earlier file, which counts`,
		third + `: metadata "step" is "2", and "1" in an earlier file, which counts`,
	}, s.Warnings())
}

// TestShardsDisagreeOften: a header may have millions of keys, a set has few
// warnings.
func TestShardsDisagreeOften(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		var meta tensor.Metadata
		for k := range 30_000 {
			meta = append(meta, tensor.Entry{Key: fmt.Sprint("key ", k), Value: fmt.Sprint(i)})
		}
		sink := safetensors.Create(safetensors.ShardName(filepath.Join(dir, "model"), i+1, 2), nil)
		require.NoError(t, sink.Begin([]tensor.Info{info(fmt.Sprint("t", i), tensor.U8, 1)}, meta))
		require.NoError(t, sink.Write(0, 0, []byte{1}))
		require.NoError(t, sink.Finish(nil))
	}
	s, err := safetensors.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Warnings(), 101)
	require.Equal(t, "29900 more values of metadata differ between the files; the first counts", s.Warnings()[100])
}
