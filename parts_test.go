package demi_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A partsCase is an output that is made at once, and of parts.
type partsCase struct {
	src, dst string // dst without its directory
	options  demi.Options
	create   demi.CreateOptions
	files    int
}

func partsCases(t *testing.T) map[string]partsCase {
	one, set := filepath.Join(charlmDir, "model.safetensors"), filepath.Join(charlmDir, "sharded")
	gguf := filepath.Join(charlmDir, "model.gguf")
	shards := demi.CreateOptions{MaxShard: 300_000}
	keep := demi.Options{Target: demi.Keep}
	store, stored := keep, toBF16
	store.Format, stored.Format = demi.Demi, demi.Demi
	return map[string]partsCase{
		"safetensors": {set, "out", toBF16, shards, 4},
		"exact":       {one, "out", demi.Options{}, shards, 8},
		"auto":        {one, "out", demi.Options{Target: demi.Auto}, shards, 4},
		"gguf":        {gguf, "out", toBF16, shards, 4},
		"store":       {set, "out", stored, shards, 4},
		"archive":     {set, "out", store, shards, 9},
		"beside":      {one, "out.safetensors", toBF16, shards, 4},
		"stores":      {one, "out.demi", stored, shards, 4},
		"one file":    {one, "out.safetensors", toBF16, demi.CreateOptions{}, 1},
		"one store":   {one, "out.demi", store, demi.CreateOptions{}, 1},
		"one GGUF":    {gguf, "out.gguf", toBF16, demi.CreateOptions{}, 1},
		"one shard":   {one, "out", toBF16, demi.CreateOptions{}, 1},
		"pipeline":    {makePipeline(t), "out", toBF16, demi.CreateOptions{MaxShard: 2000}, 3},
		"keep split":  {set, "out", demi.Options{Target: demi.To(tensor.BF16), KeepSplit: true}, demi.CreateOptions{}, 3},
	}
}

// makePipeline makes a pipeline of two components.
func makePipeline(t *testing.T) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model_index.json"), []byte(`{"unet": ["d", "U"], "vae": ["d", "V"]}`), 0o666))
	for part, n := range map[string]int{"unet": 900, "vae": 300} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, part), 0o777))
		m := new(mem).f32("a", weights(n, 1)...).f32("b", weights(n/2, 2)...)
		convertKeep(t, m.checkpoint(), filepath.Join(dir, part, "model.safetensors"))
	}
	return dir
}

// decided returns the plan of a case, and its source, decided by surveys of one
// tensor each.
func (x *partsCase) decided(t testing.TB) (*demi.Plan, *demi.Checkpoint) {
	c := open(t, x.src)
	p, err := demi.NewPlan(c, x.options)
	require.NoError(t, err)
	all := new(demi.Survey)
	for i := range p.Tensors {
		name := p.Tensors[i].In.Name
		s, err := p.Survey(context.Background(), c, func(t *demi.Choice) bool { return t.In.Name == name }, nil)
		require.NoError(t, err)
		text, err := s.MarshalBinary()
		require.NoError(t, err)
		var copied demi.Survey
		require.NoError(t, copied.UnmarshalBinary(text))
		all.Add(&copied)
	}
	require.Equal(t, p.Undecided(), all.Len())
	require.NoError(t, p.DecideBy(context.Background(), c, all, nil))
	return p, c
}

// parts returns the Parts of a case below dir, as a process of its own has them.
func (x *partsCase) parts(t testing.TB, dir string) *demi.Parts {
	p, c := x.decided(t)
	path := filepath.Join(dir, x.dst)
	b, err := demi.NewParts(path, demi.PartsDir(path), "key", p, c, &x.create)
	require.NoError(t, err)
	return b
}

// TestParts: files that are written one by one, in any order, are the output
// that is made at once.
func TestParts(t *testing.T) {
	for name, x := range partsCases(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			want, got := t.TempDir(), t.TempDir()
			records, err := convertFile(t, x.src, filepath.Join(want, x.dst), x.options, &x.create)
			require.NoError(t, err)

			b := x.parts(t, got)
			n := len(b.Files())
			require.Equal(t, x.files, n)
			for k := n - 1; k >= 0; k-- {
				require.Len(t, b.Missing(), k+1)
				_, err := b.Assemble(ctx, nil)
				require.ErrorIs(t, err, demi.ErrIncomplete)
				f := b.Files()[k]
				fresh, written, err := x.parts(t, got).Write(ctx, k, nil)
				require.NoError(t, err)
				require.True(t, written)
				require.Equal(t, records[f.From:f.To], fresh)
				before := hashes(t, got)
				again, written, err := b.Write(ctx, k, nil)
				require.NoError(t, err)
				require.False(t, written)
				require.Equal(t, fresh, again)
				require.Equal(t, before, hashes(t, got))
			}
			for range 2 {
				all, err := x.parts(t, got).Assemble(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, records, all)
				require.Equal(t, hashes(t, want), withoutReceipts(hashes(t, got)))
			}
			require.NoDirExists(t, demi.PartsDir(filepath.Join(got, x.dst)))
			late, _, err := b.Write(ctx, 0, nil)
			require.NoError(t, err)
			require.Equal(t, records[:b.Files()[0].To], late)
			require.NoDirExists(t, demi.PartsDir(filepath.Join(got, x.dst)))
		})
	}
}

// withoutReceipts leaves out the receipts of outputs.
func withoutReceipts(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, ".receipt") })
	return files
}

// TestPartsAgain: the same part may be written by several at once, and one that
// is damaged is written again.
func TestPartsAgain(t *testing.T) {
	ctx := context.Background()
	x := partsCases(t)["stores"]
	want, got := t.TempDir(), t.TempDir()
	_, err := convertFile(t, x.src, filepath.Join(want, x.dst), x.options, &x.create)
	require.NoError(t, err)
	b := x.parts(t, got)
	var wg sync.WaitGroup
	for k := range 3 * len(b.Files()) {
		wg.Go(func() {
			_, _, err := b.Write(ctx, k/3, nil)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	dir := demi.PartsDir(filepath.Join(got, x.dst))
	part := filepath.Join(dir, b.Files()[2].Name)
	raw, err := os.ReadFile(part)
	require.NoError(t, err)
	raw[len(raw)-100]++ // in the index
	require.NoError(t, os.WriteFile(part, raw, 0o600))
	_, err = b.Assemble(ctx, nil)
	require.ErrorIs(t, err, demi.ErrIncomplete)
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.NotContains(t, hashes(t, dir), b.Files()[2].Name+".receipt")
	_, _, err = b.Write(ctx, 2, nil)
	require.NoError(t, err)
	_, err = b.Assemble(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, hashes(t, want), withoutReceipts(hashes(t, got)))
}

// TestPartsDamaged: a byte of a part's header or of its receipt, also one that
// only metadata or figures have, is noticed when the parts are put together.
func TestPartsDamaged(t *testing.T) {
	ctx := context.Background()
	for name, x := range partsCases(t) {
		if x.options.Format == demi.Demi {
			continue // whose index has its own digest
		}
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			b := x.parts(t, root)
			for k := range b.Files() {
				_, _, err := b.Write(ctx, k, nil)
				require.NoError(t, err)
			}
			last := len(b.Files()) - 1
			part := filepath.Join(demi.PartsDir(filepath.Join(root, x.dst)), filepath.FromSlash(b.Files()[last].Name))
			for _, damaged := range []string{part, part + ".receipt"} {
				raw, err := os.ReadFile(damaged)
				require.NoError(t, err)
				at := len(raw) / 2 // of the receipt: among the records
				if damaged == part {
					at = -1
					for _, key := range []string{`"format"`, "split.no"} { // of metadata
						at = max(at, bytes.Index(raw, []byte(key)))
					}
					if at < 0 {
						at = bytes.Index(raw, []byte("general."))
					}
					at++
					require.Positive(t, at)
				}
				raw[at] ^= 1
				require.NoError(t, os.WriteFile(damaged, raw, 0o600))
				_, err = b.Assemble(ctx, nil)
				require.ErrorIs(t, err, demi.ErrIncomplete)
				_, written, err := b.Write(ctx, last, nil)
				require.NoError(t, err)
				require.True(t, written)
			}
			_, err := b.Assemble(ctx, nil)
			require.NoError(t, err)
		})
	}
}

// TestPartsLeft: what a process left that was killed when the output was
// complete goes with the next one, but no parts of another conversion.
func TestPartsLeft(t *testing.T) {
	ctx := context.Background()
	x := partsCases(t)["safetensors"]
	dir := t.TempDir()
	path := filepath.Join(dir, x.dst)
	b := x.parts(t, dir)
	for k := range b.Files() {
		_, _, err := b.Write(ctx, k, nil)
		require.NoError(t, err)
	}
	left := filepath.Join(t.TempDir(), "left")
	require.NoError(t, os.CopyFS(left, os.DirFS(demi.PartsDir(path))))
	records, err := b.Assemble(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(demi.PartsDir(path), os.DirFS(left)))
	again, err := b.Assemble(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, records, again)
	require.NoDirExists(t, demi.PartsDir(path))

	p, c := x.decided(t)
	other, err := demi.NewParts(path, demi.PartsDir(path), "other key", p, c, &x.create)
	require.NoError(t, err)
	_, written, err := other.Write(ctx, 0, nil)
	require.NoError(t, err)
	require.True(t, written)
	_, err = b.Assemble(ctx, nil)
	require.NoError(t, err)
	require.NotContains(t, other.Missing(), 0)
}
