package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/batch"
	"github.com/demi-weights/demi/tensor"
)

var (
	ctx    = context.Background()
	charlm = filepath.Join("..", "testdata", "charlm")
	bf16   = demi.Options{Target: demi.To(tensor.BF16)}
	shards = &demi.CreateOptions{MaxShard: 150_000}
)

// runner returns what a process of its own would carry plans out with.
func runner() *batch.Runner {
	return &batch.Runner{
		Open: func(_ context.Context, source string, _ *demi.PlanOptions) (*demi.Checkpoint, error) {
			return demi.Open(source, nil)
		},
		Classify: func(err error) batch.Failure {
			known := errors.Is(err, tensor.ErrChanged) || errors.Is(err, tensor.ErrFormat) || errors.Is(err, demi.ErrOverflow) || errors.Is(err, fs.ErrNotExist)
			return batch.Failure{Class: "test", Exit: 3, Retry: !known, Message: err.Error()}
		},
	}
}

// add adds the conversion of a source to a Builder.
func add(t testing.TB, b *batch.Builder, src, dst string, o demi.Options, create *demi.CreateOptions) {
	c, err := demi.Open(src, nil)
	require.NoError(t, err)
	defer c.Close()
	p, err := demi.NewPlan(c, o)
	require.NoError(t, err)
	j, err := batch.NewJob(src, dst, p, c, create)
	require.NoError(t, err)
	require.NoError(t, b.Add(j, p, c))
}

func files(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".receipt") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(text)
		return err
	}))
	return all
}

func ignore(*batch.Done) error         { return nil }
func ignoreMerged(*batch.Merged) error { return nil }

// reference converts in one process.
func reference(t testing.TB, src string, o demi.Options, create *demi.CreateOptions) map[string]string {
	dst := filepath.Join(t.TempDir(), "out")
	c, err := demi.Open(src, nil)
	require.NoError(t, err)
	defer c.Close()
	p, err := demi.NewPlan(c, o)
	require.NoError(t, err)
	require.NoError(t, p.Decide(ctx, c, nil))
	sink, err := demi.Create(dst, p, c, create)
	require.NoError(t, err)
	_, err = demi.Convert(ctx, c, sink, p, nil)
	require.NoError(t, err)
	return files(t, dst)
}

// TestTasks: any number of tasks, each run twice and at the same time, gives the
// bytes of one process.
func TestTasks(t *testing.T) {
	src, counts := filepath.Join(charlm, "sharded"), []int{1, 2, 3, 40}
	if testing.Short() {
		counts = []int{3}
	}
	for _, o := range []demi.Options{bf16, {}, {Target: demi.Auto}, {Target: demi.To(tensor.F16), Format: demi.Demi, Overflow: demi.OverflowKeep}} {
		want := reference(t, src, o, shards)
		for _, n := range counts {
			dir := t.TempDir()
			plan, dst := filepath.Join(dir, "plan.json"), filepath.Join(dir, "out")
			var b batch.Builder
			add(t, &b, src, dst, o, shards)
			p, err := b.Write(plan, n)
			require.NoError(t, err)
			require.Len(t, p.Tasks, n)
			if p.Phase == batch.Scan {
				_, err := runner().Task(ctx, plan, 0, ignore)
				require.ErrorIs(t, err, batch.ErrPhase)
				_, err = runner().MergeScan(ctx, plan, ignoreMerged)
				require.ErrorIs(t, err, demi.ErrIncomplete)
				twice(t, n, func(k int) error { _, err := runner().Scan(ctx, plan, k, ignore); return err })
				for range 2 {
					p, err = runner().MergeScan(ctx, plan, ignoreMerged)
					require.NoError(t, err)
					require.Equal(t, batch.Convert, p.Phase)
				}
			}
			_, err = runner().Merge(ctx, plan, ignoreMerged)
			require.ErrorIs(t, err, demi.ErrIncomplete)
			twice(t, n, func(k int) error { _, err := runner().Task(ctx, plan, k, ignore); return err })
			for range 2 {
				_, err = runner().Merge(ctx, plan, ignoreMerged)
				require.NoError(t, err)
				require.Equal(t, want, files(t, dst))
			}
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 3, "the plan, the output, its receipt")
		}
	}
}

func twice(t testing.TB, n int, task func(k int) error) {
	errs := make([]error, 2*n)
	var wg sync.WaitGroup
	for k := range errs {
		wg.Go(func() { errs[k] = task(k / 2) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// TestBalance: tasks differ by no more than a file.
func TestBalance(t *testing.T) {
	dir := t.TempDir()
	var b batch.Builder
	for k := range 5 {
		add(t, &b, filepath.Join(charlm, "sharded"), filepath.Join(dir, fmt.Sprint("out", k)), bf16, shards)
	}
	p, err := b.Write(filepath.Join(dir, "plan.json"), 4)
	require.NoError(t, err)
	var sum int64
	for _, task := range p.Tasks {
		sum += task.Bytes
		require.InDelta(t, p.Tasks[0].Bytes, task.Bytes, 300_000)
	}
	require.EqualValues(t, 5*2045440, sum)
}

// TestOneBadCheckpoint stops no other.
func TestOneBadCheckpoint(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.json")
	copied := filepath.Join(dir, "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(filepath.Join(charlm, "sharded"))))
	var b batch.Builder
	require.NoError(t, b.AddFailed(&batch.Job{Source: "x", Output: "y", Failure: &batch.Failure{Class: "input", Exit: 3, Message: "it is bad"}}))
	add(t, &b, copied, filepath.Join(dir, "a"), bf16, shards)
	add(t, &b, filepath.Join(charlm, "model.gguf"), filepath.Join(dir, "b.gguf"), bf16, nil)
	_, err := b.Write(plan, 1)
	require.NoError(t, err)

	shard := filepath.Join(copied, "model-00002-of-00003.safetensors")
	raw, err := os.ReadFile(shard)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(shard, raw, 0o600)) // the same bytes, at another time
	_, err = runner().Task(ctx, plan, 0, ignore)
	require.ErrorIs(t, err, tensor.ErrChanged)
	var lines []*batch.Merged
	_, err = runner().Merge(ctx, plan, func(m *batch.Merged) error { lines = append(lines, m); return nil })
	require.Error(t, err)
	require.Len(t, lines, 3)
	require.ErrorContains(t, lines[0].Err, "it is bad")
	require.ErrorIs(t, lines[1].Err, tensor.ErrChanged)
	require.NoError(t, lines[2].Err)
	require.FileExists(t, filepath.Join(dir, "b.gguf"))
}

// TestRefusedByValues: a policy that the values break ends its job, and no other.
func TestRefusedByValues(t *testing.T) {
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.json")
	large := filepath.Join(dir, "large.safetensors")
	header := `{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	require.NoError(t, os.WriteFile(large, append(file, 0, 0, 0x80, 0x7e), 0o666)) // 2^126
	o := demi.Options{Target: demi.To(tensor.F16), Overflow: demi.OverflowError}
	var b batch.Builder
	add(t, &b, large, filepath.Join(dir, "a.safetensors"), o, nil)
	add(t, &b, filepath.Join(charlm, "model.safetensors"), filepath.Join(dir, "b.safetensors"), o, nil)
	_, err := b.Write(plan, 2)
	require.NoError(t, err)
	for k := range 2 {
		_, err := runner().Scan(ctx, plan, k, ignore)
		require.NoError(t, err)
	}
	_, err = runner().MergeScan(ctx, plan, ignoreMerged)
	require.ErrorIs(t, err, demi.ErrOverflow)
	for k := range 2 {
		_, err := runner().Task(ctx, plan, k, ignore)
		require.NoError(t, err)
	}
	_, err = runner().Merge(ctx, plan, ignoreMerged)
	require.ErrorContains(t, err, "beyond the range of F16")
	require.NoFileExists(t, filepath.Join(dir, "a.safetensors"))
	require.FileExists(t, filepath.Join(dir, "b.safetensors"))
}

// TestTie is refused: it is about all files.
func TestTie(t *testing.T) {
	c, err := demi.Open(filepath.Join(charlm, "model.safetensors"), nil)
	require.NoError(t, err)
	defer c.Close()
	p, err := demi.NewPlan(c, demi.Options{Tie: true})
	require.NoError(t, err)
	_, err = batch.NewJob("a", "b", p, c, &demi.CreateOptions{})
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestBadPlans: what is no plan is an error that names the file.
func TestBadPlans(t *testing.T) {
	const head = `{"version":1,"command":"batch","phase":"convert","id":"x",`
	for text, want := range map[string]error{
		"":                               tensor.ErrTruncated,
		"[]":                             tensor.ErrFormat,
		"{}":                             tensor.ErrFormat,
		"{\"version\":1":                 tensor.ErrTruncated,
		`{"version":2}`:                  tensor.ErrUnsupported,
		`{"version":1,"command":"plan"}`: tensor.ErrFormat,
		`{"version":1,"command":"batch","phase":"other"}`:                                                tensor.ErrUnsupported,
		`{"jobs":[],"version":1}`:                                                                        tensor.ErrFormat,
		head + `"tasks":{},"jobs":[]}`:                                                                   tensor.ErrFormat,
		head + `"tasks":[{"bytes":"many"}],"jobs":[]}`:                                                   tensor.ErrFormat,
		head + `"tasks":[{"bytes":1,"work":[{"job":3}]}],"jobs":[]}`:                                     tensor.ErrFormat,
		head + `"tasks":[{"bytes":1,"work":[{"job":0}]}],"jobs":[7]}`:                                    tensor.ErrFormat,
		head + `"tasks":[{"bytes":1,"work":[{"job":-1}]}],"jobs":[{}]}`:                                  tensor.ErrFormat,
		head + `"tasks":[{"bytes":1,"work":[{"job":0}]}],"jobs":[{"src":`:                                tensor.ErrTruncated,
		head + `"tasks":[{"bytes":1,"work":[{"job":0}]}],"jobs":[{"src":"a","dst":"b","parts":"/etc"}]}`: tensor.ErrFormat,
		head + `"tasks":[{"work":[{"job":0}]}],"jobs":[{"src":"a","dst":"b","plan":{}}]}`:                tensor.ErrFormat,
		head + `"tasks":[{"work":[{"job":0}]}],"jobs":[{"src":"a","dst":"b","parts":".b.parts"}]}`:       tensor.ErrFormat,
		head + `"tasks":[{"work":[{"job":0}]}],"jobs":[{"src":"a","dst":"b","error":{"exit":256}}]}`:     tensor.ErrFormat,
		head + `"tasks":[]`: tensor.ErrTruncated,
	} {
		path := filepath.Join(t.TempDir(), "plan.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		_, err := runner().Task(ctx, path, 0, ignore)
		require.ErrorIs(t, err, want, text)
		var place *tensor.FileError
		require.ErrorAs(t, err, &place, text)
		require.Equal(t, path, place.File)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	require.NoError(t, os.WriteFile(path, []byte(head+`"tasks":[],"jobs":[]}`), 0o666))
	for _, index := range []int{-1, 0, 5} {
		_, err := runner().Task(ctx, path, index, ignore)
		require.ErrorIs(t, err, batch.ErrNoTask)
	}
	_, err := runner().Task(ctx, filepath.Join(t.TempDir(), "none"), 0, ignore)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// FuzzPlan: whatever a file holds, reading it ends without a panic.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"version":1,"command":"batch","phase":"convert","id":"x","tasks":[{"bytes":1,"work":[{"job":0,"files":[0]}]}],"jobs":[{"src":"a","dst":"b"}]}`))
	f.Add([]byte(`{"version":1,"command":"batch","phase":"scan","id":"x","tasks":[{"bytes":1,"work":[{"job":0,"tensors":[0]}]}],"jobs":[{"src":"a","dst":"b","plan":{"version":1,"tensors":[]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "plan.json")
		require.NoError(t, os.WriteFile(path, text, 0o666))
		r := runner()
		r.Open = func(context.Context, string, *demi.PlanOptions) (*demi.Checkpoint, error) {
			return nil, fs.ErrNotExist
		}
		run := func(_ *batch.Plan, err error) {
			var place *tensor.FileError
			if errors.As(err, &place) {
				require.NotEmpty(t, err.Error())
			}
		}
		run(r.Task(ctx, path, 0, func(d *batch.Done) error { d.Job.Parts = ""; return nil } /* which says where files are left */))
		run(r.Merge(ctx, path, ignoreMerged))
	})
}
