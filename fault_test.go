package demi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/fault"
	"github.com/demi-weights/demi/tensor"
)

// errIO is what the system says of a disk that fails.
const errIO = syscall.EIO

// failAt makes the k-th operation of a kind fail with an error while f runs,
// and reports whether there was one.
func failAt(op fault.Op, k int64, with error, f func()) bool {
	var n atomic.Int64
	fault.Inject = func(o fault.Op, _ string) error {
		if o == op && n.Add(1) == k {
			return with
		}
		return nil
	}
	defer func() { fault.Inject = nil }()
	f()
	return n.Load() >= k
}

// A faultCase is a way to write an output.
type faultCase struct {
	name   string
	src    string // below the directory of the sources
	dst    string
	target demi.Target
	create demi.CreateOptions
	old    bool // an output is there, and replaced
	parts  bool // the output is made of parts
}

func faultCases() []faultCase {
	bf16, force := demi.To(tensor.BF16), demi.CreateOptions{IfExists: demi.Replace}
	shards := demi.CreateOptions{MaxShard: 300_000}
	forceShards := demi.CreateOptions{MaxShard: 300_000, IfExists: demi.Replace}
	return []faultCase{
		{"safetensors", "set", "dst.safetensors", bf16, demi.CreateOptions{}, false, false},
		{"safetensors replaced", "set", "dst.safetensors", bf16, force, true, false},
		{"gguf", "one.gguf", "dst.gguf", bf16, demi.CreateOptions{}, false, false},
		{"store", "set", "dst.demi", bf16, demi.CreateOptions{}, false, false},
		{"archive", "set", "dst.demi", demi.Keep, demi.CreateOptions{}, false, false},
		{"with a receipt", "one.gguf", "dst.gguf", bf16, demi.CreateOptions{IfExists: demi.Skip}, false, false},
		{"directory", "set", "dst", bf16, shards, false, false},
		{"directory of gguf", "one.gguf", "dst", bf16, shards, false, false},
		{"directory of stores", "archive.demi", "dst", demi.Keep, shards, false, false},
		{"directory replaced", "set", "dst", bf16, forceShards, true, false},
		{"set", "set", "dst.safetensors", bf16, shards, false, false},
		{"pipeline", "pipeline", "dst", bf16, shards, false, false},
		{"restored", "archive.demi", "dst", "restore", demi.CreateOptions{}, false, false},
		{"parts of a directory", "set", "dst", bf16, shards, false, true},
		{"parts of a directory replaced", "set", "dst", bf16, forceShards, true, true},
		{"parts of stores", "set", "dst", demi.Keep, shards, false, true},
		{"parts of one", "set", "dst.safetensors", bf16, demi.CreateOptions{}, false, true},
		{"parts of one replaced", "set", "dst.safetensors", bf16, force, true, true},
		{"parts of a pipeline", "pipeline", "dst", bf16, shards, false, true},
	}
}

// faultSources writes small sources of each kind.
func faultSources(t *testing.T) string {
	dir := t.TempDir()
	m := &mem{meta: tensor.Metadata{{Key: "format", Value: "pt"}}}
	m.f32("a.weight", weights(80_000, 1)...).f32("b.weight", weights(70_000, 2)...).f32("c.weight", weights(30, 3)...)
	write := func(c *demi.Checkpoint, dst string, o demi.Options, create *demi.CreateOptions) {
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		sink, err := demi.Create(dst, p, c, create)
		require.NoError(t, err)
		_, err = demi.Convert(context.Background(), c, sink, p, nil)
		require.NoError(t, err)
	}
	set := filepath.Join(dir, "set")
	write(m.checkpoint(), set, demi.Options{Target: demi.Keep}, &demi.CreateOptions{MaxShard: 300_000})
	require.NoError(t, os.WriteFile(filepath.Join(set, "config.json"), []byte(`{"torch_dtype": "float32"}`), 0o666))
	write(m.checkpoint(), filepath.Join(dir, "one.gguf"), demi.Options{Target: demi.Keep, Format: demi.GGUF, ContainerOnly: true}, nil)
	write(open(t, set), filepath.Join(dir, "archive.demi"), demi.Options{Target: demi.Keep, Format: demi.Demi}, nil)
	pipeline := filepath.Join(dir, "pipeline")
	require.NoError(t, os.CopyFS(filepath.Join(pipeline, "unet"), os.DirFS(set)))
	require.NoError(t, os.CopyFS(filepath.Join(pipeline, "vae"), os.DirFS(set)))
	require.NoError(t, os.WriteFile(filepath.Join(pipeline, "model_index.json"), []byte(`{"unet": ["d", "U"], "vae": ["d", "V"]}`), 0o666))
	return dir
}

// run does the work of a case, from the opening of the source on.
func (x *faultCase) run(sources, dir string) error {
	c, err := demi.Open(filepath.Join(sources, x.src), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, dst, create := context.Background(), filepath.Join(dir, x.dst), x.create
	if x.target == "restore" {
		_, err := demi.Restore(ctx, c, dst, &create)
		return err
	}
	o := demi.Options{Target: x.target, Format: demi.FormatOf(dst)}
	if x.name == "parts of stores" {
		o.Format = demi.Demi
	}
	p, err := demi.NewPlan(c, o)
	if err != nil {
		return err
	}
	if x.parts {
		return x.assemble(c, p, dst)
	}
	sink, err := demi.Create(dst, p, c, &create)
	if err != nil {
		return err
	}
	_, err = demi.Convert(ctx, c, sink, p, &demi.RunOptions{Workers: 1})
	return err
}

// assemble writes all parts and puts them together.
func (x *faultCase) assemble(c *demi.Checkpoint, p *demi.Plan, dst string) error {
	b, err := demi.NewParts(dst, demi.PartsDir(dst), "key", p, c, &x.create)
	if err != nil {
		return err
	}
	run := &demi.RunOptions{Workers: 1}
	for k := range b.Files() {
		if _, _, err := b.Write(context.Background(), k, run); err != nil {
			return err
		}
	}
	_, err = b.Assemble(context.Background(), run)
	return err
}

// prepare makes the directory of the output, with an old one if there was one.
func (x *faultCase) prepare(t *testing.T, sources string) string {
	t.Helper()
	dir := t.TempDir()
	if x.old {
		first := *x
		first.parts = false
		first.target, first.create = demi.To(tensor.F16), demi.CreateOptions{MaxShard: x.create.MaxShard / 3}
		require.NoError(t, first.run(sources, dir))
	}
	return dir
}

// visible returns the hashes of the files that have names of their own.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := hashes(t, dir)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool {
			return strings.HasSuffix(s, ".partial") || strings.HasSuffix(s, ".parts") || strings.HasSuffix(s, ".journal") || strings.HasSuffix(s, ".receipt")
		})
	})
	return all
}

// onFastDisk puts the temporary files of a test, which syncs much, into memory
// where there is a place for that.
func onFastDisk(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

// TestEveryOperationFails lets each operation on a file fail, one at a time:
// the error is that of the disk, the source stays, no file that is not whole
// has a name, and the next run ends in the bytes of a run that nothing
// disturbed.
func TestEveryOperationFails(t *testing.T) {
	onFastDisk(t)
	sources := faultSources(t)
	before := hashes(t, sources)
	for _, x := range faultCases() {
		t.Run(x.name, func(t *testing.T) {
			whole := x.prepare(t, sources)
			old := visible(t, whole)
			require.NoError(t, x.run(sources, whole))
			want := visible(t, whole)
			for _, op := range fault.Ops() {
				n := x.failEach(t, op, errIO, sources, old, want)
				t.Logf("%s: %d", op, n)
			}
			x.failEach(t, fault.Read, io.EOF, sources, old, want)
		})
	}
	require.Equal(t, before, hashes(t, sources))
}

// failEach lets each operation of a kind fail and returns their number.
func (x *faultCase) failEach(t *testing.T, op fault.Op, with error, sources string, old, want map[string]string) int64 {
	for k := int64(1); ; k++ {
		dir := x.prepare(t, sources)
		var err error
		if !failAt(op, k, with, func() { err = x.run(sources, dir) }) {
			require.NoError(t, err)
			require.Equal(t, want, visible(t, dir))
			return k - 1
		}
		what := fmt.Sprintf("%s %d: %v", op, k, err)
		if err != nil {
			x.checkFailure(t, what, err, with, dir, old, want)
		} else {
			require.True(t, op == fault.Link || with == io.EOF, "%s: it has another way, or did not need the bytes", what)
			require.Equal(t, want, visible(t, dir), what)
		}
		whole := err == nil || x.create.IfExists == demi.Skip && maps.Equal(want, visible(t, dir))
		if again := x.run(sources, dir); whole && !x.old && !x.parts {
			require.ErrorIs(t, again, fs.ErrExist, what)
		} else {
			require.NoError(t, again, what)
		}
		require.Equal(t, want, visible(t, dir), what)
		require.NoError(t, os.RemoveAll(dir))
	}
}

// isClass reports whether an error is one about input or the output's name.
func isClass(err error) bool {
	return slices.ContainsFunc([]error{
		tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrChanged, tensor.ErrLimit, fs.ErrExist, demi.ErrOutput, demi.ErrIncomplete,
	}, func(class error) bool { return errors.Is(err, class) })
}

// checkFailure looks at what a failed run has left.
func (x *faultCase) checkFailure(t *testing.T, what string, err, with error, dir string, old, want map[string]string) {
	t.Helper()
	if with == io.EOF {
		require.True(t, isClass(err), what)
	} else {
		require.ErrorIs(t, err, with, what)
		require.False(t, isClass(err), what)
	}
	require.True(t, strings.Contains(err.Error(), x.dst) || strings.Contains(err.Error(), x.src), what)
	got := visible(t, dir)
	for name, sum := range got {
		require.Contains(t, []string{old[name], want[name]}, sum, "%s: %s is neither the old nor the new one", what, name)
	}
	for name := range want {
		if got[name] != want[name] { // until the new ones are there, the old ones are
			require.Subset(t, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(old)), what)
		}
	}
}

// TestSourceChangesWhileItIsRead writes to the source at each of its reads.
func TestSourceChangesWhileItIsRead(t *testing.T) {
	onFastDisk(t)
	made := os.DirFS(filepath.Join(faultSources(t), "set"))
	for what, change := range map[string]func(string) error{
		"cut":     func(file string) error { return os.Truncate(file, 150_000) },
		"grown":   func(file string) error { return os.Truncate(file, 400_000) },
		"touched": func(file string) error { return os.Chtimes(file, time.Time{}, time.Unix(1, 0)) },
		"replaced": func(file string) error {
			if err := os.WriteFile(file+".new", []byte("other"), 0o666); err != nil {
				return err
			}
			return os.Rename(file+".new", file)
		},
	} {
		for _, dst := range []string{"dst.safetensors", "dst.demi", "dst"} {
			for k := int64(1); ; k++ {
				src, dir := t.TempDir(), t.TempDir()
				require.NoError(t, os.CopyFS(src, made))
				c := open(t, src)
				o := demi.Options{Target: demi.To(tensor.BF16), Format: demi.FormatOf(dst)}
				if dst == "dst.demi" {
					o.Target = demi.Keep
				}
				p, err := demi.NewPlan(c, o)
				require.NoError(t, err)
				sink, err := demi.Create(filepath.Join(dir, dst), p, c, nil)
				require.NoError(t, err)
				var n atomic.Int64
				reader := &watched{Source: c.Source(), before: func() {
					if n.Add(1) == k {
						require.NoError(t, change(filepath.Join(src, "model-00002-of-00002.safetensors")))
					}
				}}
				_, err = demi.Convert(context.Background(), demi.WithSource(c, reader), sink, p, &demi.RunOptions{Workers: 1})
				if n.Load() < k {
					require.NoError(t, err)
					break
				}
				require.Error(t, err, "%s at read %d for %s", what, k, dst)
				require.True(t, errors.Is(err, tensor.ErrChanged) || errors.Is(err, tensor.ErrTruncated), "%s: %v", what, err)
				require.ErrorContains(t, err, "model-00002-of-00002.safetensors")
				require.Empty(t, names(t, dir))
			}
		}
	}
}

// watched is a Source that calls before each read.
type watched struct {
	tensor.Source
	before func()
}

func (w *watched) Data(i int) io.ReaderAt { return watchedReader{w, w.Source.Data(i)} }

type watchedReader struct {
	w *watched
	r io.ReaderAt
}

func (r watchedReader) ReadAt(p []byte, off int64) (int, error) {
	r.w.before()
	return r.r.ReadAt(p, off)
}

// brokenPipe is a writer whose k-th write, from 1 on, fails or takes half.
type brokenPipe struct {
	k     int
	short bool
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.k--; b.k != 0 {
		return len(p), nil
	}
	if b.short {
		return len(p) / 2, nil
	}
	return 0, errIO
}

// TestEveryWriteOfAStreamFails is the same for what is written front to back.
func TestEveryWriteOfAStreamFails(t *testing.T) {
	c := new(mem).f32("a.weight", weights(200_000, 1)...).f32("b.weight", weights(70_001, 2)...).checkpoint()
	for _, f := range demi.Formats() {
		p, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16), Format: f, ContainerOnly: true})
		require.NoError(t, err)
		for with, w := range map[error]brokenPipe{errIO: {}, io.ErrShortWrite: {short: true}} {
			failed := 0
			for w.k = 1; ; w.k++ {
				b := w
				_, err := demi.Convert(context.Background(), c, demi.NewWriter(&b, p, c, nil), p, nil)
				if b.k > 0 {
					require.NoError(t, err)
					break
				}
				require.ErrorIs(t, err, with, "%s: write %d", f, w.k)
				failed++
			}
			require.Greater(t, failed, 1)
		}
	}
}
