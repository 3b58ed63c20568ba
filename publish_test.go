package demi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// hashes returns the SHA-256 of every file below a directory.
func hashes(t testing.TB, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			raw, err := os.ReadFile(filepath.Join(dir, path))
			sums[path] = fmt.Sprintf("%x", sha256.Sum256(raw))
			return err
		}
		return err
	}))
	return sums
}

// counting counts the bytes of tensors that are read.
type counting struct {
	tensor.Source
	n atomic.Int64
}

func (c *counting) Data(i int) io.ReaderAt { return countingReader{c, c.Source.Data(i)} }

type countingReader struct {
	c *counting
	r io.ReaderAt
}

func (r countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	r.c.n.Add(int64(n))
	return n, err
}

// TestResume: what a run that died had finished is not done again, the rest is,
// and the end is that of a run at once.
func TestResume(t *testing.T) {
	for _, f := range demi.Formats() {
		src := filepath.Join(charlmDir, "sharded")
		if f == demi.GGUF {
			src = filepath.Join(charlmDir, "model.gguf")
		}
		o := demi.Options{Target: demi.To(tensor.BF16), Format: f}
		create := &demi.CreateOptions{MaxShard: 200_000}
		dir := t.TempDir()
		whole := filepath.Join(dir, "whole")
		want, err := convertFile(t, src, whole, o, create)
		require.NoError(t, err)

		dst := filepath.Join(dir, "dst")
		for _, damage := range []string{"", "bit", "cut", "gone", "source"} {
			c := open(t, src)
			run := func(wrap func(tensor.Sink) tensor.Sink, read *counting) ([]tensor.Record, error) {
				p, err := demi.NewPlan(c, o)
				require.NoError(t, err)
				sink, err := demi.Create(dst, p, c, create)
				require.NoError(t, err)
				return demi.Convert(context.Background(), demi.WithSource(c, read), wrap(sink), p, nil)
			}
			_, err := run(func(s tensor.Sink) tensor.Sink { return demi.Dying(s) }, &counting{Source: c.Source()})
			require.ErrorIs(t, err, demi.ErrDied)
			require.NoDirExists(t, dst)
			stage := filepath.Join(dir, ".dst.partial")
			staged := names(t, stage)
			require.Greater(t, len(staged), 2, "%s", staged)
			first := filepath.Join(stage, staged[0])
			damaged(t, first, damage)
			if damage == "source" {
				touch(t, c.Sections()[0].File)
			}
			read := &counting{Source: c.Source()}
			got, err := run(func(s tensor.Sink) tensor.Sink { return s }, read)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, hashes(t, whole), hashes(t, dst))
			in, _ := totals(c)
			switch damage {
			case "":
				require.Zero(t, read.n.Load(), "all was there")
			case "source":
				require.Equal(t, in, read.n.Load(), "nothing may be taken over")
			default:
				require.Positive(t, read.n.Load())
				require.Less(t, read.n.Load(), in)
			}
			require.NoError(t, os.RemoveAll(dst))
			require.Equal(t, []string{"whole"}, names(t, dir))
		}
	}
}

func totals(c *demi.Checkpoint) (bytes int64, tensors int) {
	for x := range c.Tensors() {
		bytes += x.Info().Size
		tensors++
	}
	return bytes, tensors
}

func damaged(t *testing.T, file, how string) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	switch how {
	case "bit":
		raw[len(raw)/2] ^= 1
		require.NoError(t, os.WriteFile(file, raw, 0o666))
	case "cut":
		require.NoError(t, os.Truncate(file, int64(len(raw)-1)))
	case "gone":
		require.NoError(t, os.Remove(file))
	}
}

// touch changes the time of a file of the clone and puts it back at the end.
func touch(t *testing.T, file string) {
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(file, time.Time{}, info.ModTime().Add(time.Second)))
	t.Cleanup(func() { os.Chtimes(file, time.Time{}, info.ModTime()) })
}

// TestReplaceDirectory: what the old index owned goes, all else stays.
func TestReplaceDirectory(t *testing.T) {
	dir := t.TempDir()
	dst, fresh := filepath.Join(dir, "dst"), filepath.Join(dir, "fresh")
	src := filepath.Join(charlmDir, "sharded")
	replace := &demi.CreateOptions{IfExists: demi.Replace}
	_, err := convertFile(t, src, dst, demi.Options{}, &demi.CreateOptions{MaxShard: 300_000})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dst, "NOTES"), []byte("mine"), 0o666))
	_, err = convertFile(t, src, fresh, toBF16, nil)
	require.NoError(t, err)
	_, err = convertFile(t, src, dst, toBF16, replace)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dst, "NOTES"))
	require.NoError(t, os.Remove(filepath.Join(dst, "NOTES")))
	require.Equal(t, hashes(t, fresh), hashes(t, dst))

	_, err = convertFile(t, src, dst, toBF16, &demi.CreateOptions{IfExists: demi.Replace, MaxShard: 300_000})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dst, "model.safetensors"), "the old single file is not of the new set")
	mustVerify(t, fresh, dst)

	stray := filepath.Join(dst, "other.safetensors")
	require.NoError(t, os.WriteFile(stray, []byte("precious"), 0o666))
	before := hashes(t, dst)
	_, err = convertFile(t, src, dst, toBF16, replace)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "other.safetensors")
	require.Equal(t, before, hashes(t, dst))
	require.ElementsMatch(t, []string{"dst", "fresh"}, names(t, dir))
}

func mustVerify(t *testing.T, a, b string) {
	t.Helper()
	require.Equal(t, values(t, open(t, a).Source()), values(t, open(t, b).Source()))
}

// TestReplaceGoesOn: a run that was stopped while it moved files is completed
// by the next one.
func TestReplaceGoesOn(t *testing.T) {
	dir := t.TempDir()
	dst, fresh := filepath.Join(dir, "dst"), filepath.Join(dir, "fresh")
	src := filepath.Join(charlmDir, "sharded")
	small := &demi.CreateOptions{MaxShard: 300_000, IfExists: demi.Replace}
	_, err := convertFile(t, src, dst, demi.Options{}, nil)
	require.NoError(t, err)
	_, err = convertFile(t, src, fresh, toBF16, small)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dst, "NOTES"), []byte("mine"), 0o666))

	// A directory stands where a file has to go that comes after the shards.
	block := filepath.Join(dst, "generation_config.json")
	require.NoError(t, os.Remove(block))
	require.NoError(t, os.MkdirAll(filepath.Join(block, "x"), 0o777))
	_, err = convertFile(t, src, dst, toBF16, small)
	require.Error(t, err)
	require.FileExists(t, filepath.Join(dst, "model-00001-of-00004.safetensors"), "it has been moved")
	require.NoError(t, os.RemoveAll(block))
	_, err = convertFile(t, src, dst, toBF16, small)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dst, "NOTES")))
	require.Equal(t, hashes(t, fresh), hashes(t, dst))
	require.ElementsMatch(t, []string{"dst", "fresh"}, names(t, dir))
}

// A stopping source ends a run when half of its bytes are read.
type stopping struct {
	counting
	half int64
	stop context.CancelFunc
}

func (s *stopping) Data(i int) io.ReaderAt { return stoppingReader{s, s.counting.Data(i)} }

type stoppingReader struct {
	s *stopping
	r io.ReaderAt
}

func (r stoppingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	if r.s.n.Load() > r.s.half {
		r.s.stop()
	}
	return n, err
}

// TestStopped: a run that a signal ends leaves the shards that are complete, and
// nothing else, to the next one.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	src, whole, dst := filepath.Join(charlmDir, "sharded"), filepath.Join(dir, "whole"), filepath.Join(dir, "dst")
	create := &demi.CreateOptions{MaxShard: 100_000}
	_, err := convertFile(t, src, whole, toBF16, create)
	require.NoError(t, err)
	c := open(t, src)
	in, _ := totals(c)
	run := func(ctx context.Context, read tensor.Source) error {
		p, err := demi.NewPlan(c, toBF16)
		require.NoError(t, err)
		sink, err := demi.Create(dst, p, c, create)
		require.NoError(t, err)
		_, err = demi.Convert(ctx, demi.WithSource(c, read), sink, p, &demi.RunOptions{Workers: 1})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.ErrorIs(t, run(ctx, &stopping{counting{Source: c.Source()}, in / 2, cancel}), context.Canceled)
	require.NoDirExists(t, dst)
	staged := names(t, filepath.Join(dir, ".dst.partial"))
	require.NotEmpty(t, staged)
	for _, name := range staged {
		require.Regexp(t, `^model-.*safetensors$`, name)
	}
	read := &counting{Source: c.Source()}
	require.NoError(t, run(t.Context(), read))
	require.Less(t, read.n.Load(), in)
	require.Equal(t, hashes(t, whole), hashes(t, dst))
	require.ElementsMatch(t, []string{"whole", "dst"}, names(t, dir))

	ctx, cancel = context.WithCancel(t.Context())
	cancel() // before anything is complete
	dst = filepath.Join(dir, "none")
	require.ErrorIs(t, run(ctx, c.Source()), context.Canceled)
	require.ElementsMatch(t, []string{"whole", "dst"}, names(t, dir))
}

// TestMounted: into a directory that is on another volume nothing can be moved
// from beside it, and a link to a directory is a name that none can take. The
// output is made inside, and goes on there.
func TestMounted(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(charlmDir, "sharded")
	create := &demi.CreateOptions{MaxShard: 200_000}
	whole, dst, volume := filepath.Join(dir, "whole"), filepath.Join(dir, "dst"), filepath.Join(dir, "volume")
	_, err := convertFile(t, src, whole, toBF16, create)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(volume, 0o777))
	require.NoError(t, os.Symlink("volume", dst))

	c := open(t, src)
	p, err := demi.NewPlan(c, toBF16)
	require.NoError(t, err)
	sink, err := demi.Create(dst, p, c, create)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), c, demi.Dying(sink), p, nil)
	require.ErrorIs(t, err, demi.ErrDied)
	require.ElementsMatch(t, []string{".dst.journal", ".dst.partial"}, names(t, volume))
	_, err = convertFile(t, src, dst, toBF16, create)
	require.NoError(t, err)
	require.Equal(t, hashes(t, whole), hashes(t, volume))

	_, err = convertFile(t, src, dst, toBF16, create)
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, os.WriteFile(filepath.Join(volume, "NOTES"), []byte("mine"), 0o666))
	_, err = convertFile(t, src, dst, toBF16, &demi.CreateOptions{IfExists: demi.Replace, MaxShard: 300_000})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(volume, "NOTES"))
	mustVerify(t, whole, volume)

	require.NoError(t, os.RemoveAll(volume))
	require.NoError(t, os.Mkdir(volume, 0o777))
	store := filepath.Join(dir, "s.demi")
	_, err = convertFile(t, src, store, demi.Options{Target: demi.Keep, Format: demi.Demi}, nil)
	require.NoError(t, err)
	paths, err := demi.Restore(t.Context(), open(t, store), dst, nil)
	require.NoError(t, err)
	require.Len(t, names(t, volume), len(paths))
	for _, path := range paths {
		requireSameFile(t, filepath.Join(src, filepath.Base(path)), path)
	}
	require.ElementsMatch(t, []string{"dst", "s.demi", "volume", "whole"}, names(t, dir))
}

// TestNothingStays: what a process has left that was killed when its output had
// its name goes at the next run, whatever becomes of that.
func TestNothingStays(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(charlmDir, "model.safetensors")
	for _, policy := range []demi.IfExists{demi.Fail, demi.Skip, demi.Replace} {
		for _, name := range []string{"file.safetensors", "directory"} {
			dst := filepath.Join(dir, name)
			create := &demi.CreateOptions{IfExists: demi.Skip}
			_, err := convertFile(t, src, dst, toBF16, create)
			require.NoError(t, err)
			want := names(t, dir)
			left := filepath.Join(dir, ".directory.journal")
			if name == "directory" {
				require.NoError(t, os.WriteFile(left, []byte("x\n"), 0o666))
			} else {
				left = filepath.Join(dir, ".file.safetensors.partial")
				require.NoError(t, os.Link(dst, left))
			}
			if policy == demi.Skip {
				c := open(t, src)
				done, err := demi.Finished(dst, must(demi.NewPlan(c, toBF16)), c, create)
				require.NoError(t, err)
				require.True(t, done)
			} else {
				_, err = convertFile(t, src, dst, toBF16, &demi.CreateOptions{IfExists: policy})
				require.Equal(t, policy == demi.Fail, errors.Is(err, fs.ErrExist), "%v", err)
			}
			require.Equal(t, want, names(t, dir), policy)
			require.NoError(t, os.RemoveAll(dst))
			require.NoError(t, os.Remove(filepath.Join(dir, "."+name+".receipt")))
		}
	}
}

func TestSkip(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src.safetensors")
	raw, err := os.ReadFile(filepath.Join(charlmDir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(src, raw, 0o666))
	skip := &demi.CreateOptions{IfExists: demi.Skip}
	finished := func(dst string, o demi.Options, create *demi.CreateOptions) bool {
		c := open(t, src)
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		done, err := demi.Finished(dst, p, c, create)
		require.NoError(t, err)
		return done
	}
	for _, name := range []string{"file.safetensors", "file.demi", "directory"} {
		dst := filepath.Join(dir, name)
		o := toBF16
		o.Format = demi.FormatOf(name)
		require.False(t, finished(dst, o, skip))
		_, err := convertFile(t, src, dst, o, skip)
		require.NoError(t, err)
		require.True(t, finished(dst, o, skip))
		other := o
		other.Target = demi.To(tensor.F16)
		require.False(t, finished(dst, other, skip))
		other = o
		other.Rules = []demi.Rule{must(demi.ParseRule("norm=f32"))}
		require.False(t, finished(dst, other, skip))
		_, err = convertFile(t, src, dst, o, skip)
		require.ErrorIs(t, err, fs.ErrExist, "Create never writes to it")
		if name == "file.safetensors" {
			require.NoError(t, os.Truncate(dst, 100))
			require.False(t, finished(dst, o, skip))
		}
	}
	touch(t, src)
	require.False(t, finished(filepath.Join(dir, "directory"), toBF16, skip))
	plain := filepath.Join(dir, "plain.safetensors")
	_, err = convertFile(t, src, plain, toBF16, nil)
	require.NoError(t, err)
	require.False(t, finished(plain, toBF16, skip), "it has no receipt")
	require.NoFileExists(t, filepath.Join(dir, ".plain.safetensors.receipt"))
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestArchive: a store that changes no tensor gives its source back.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "odd.safetensors")
	header := `{"b":{"dtype":"I8","shape":[3],"data_offsets":[4,7]},   "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`
	require.NoError(t, os.WriteFile(odd, []byte(string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+"abcdefg"), 0o666))
	for i, src := range append(realWeights(t), filepath.Join(charlmDir, "model.gguf"), odd) {
		store, back := filepath.Join(dir, fmt.Sprintf("%d.demi", i)), filepath.Join(dir, fmt.Sprintf("back%d%s", i, filepath.Ext(src)))
		_, err := convertFile(t, src, store, demi.Options{Target: demi.Keep, Format: demi.Demi}, nil)
		require.NoError(t, err)
		again := filepath.Join(dir, fmt.Sprintf("again%d.demi", i))
		_, err = convertFile(t, store, again, demi.Options{Target: demi.Keep}, nil)
		require.NoError(t, err)
		paths, err := demi.Restore(context.Background(), open(t, again), back, nil)
		require.NoError(t, err)
		require.Equal(t, []string{back}, paths)
		requireSameFile(t, src, back)
		require.NoError(t, os.Remove(back))
	}

	set, dst := filepath.Join(dir, "set"), filepath.Join(dir, "restored")
	_, err := convertFile(t, filepath.Join(charlmDir, "sharded"), set, demi.Options{Target: demi.Keep, Format: demi.Demi}, &demi.CreateOptions{MaxShard: 500_000})
	require.NoError(t, err)
	paths, err := demi.Restore(context.Background(), open(t, set), dst, nil)
	require.NoError(t, err)
	require.Len(t, paths, 4)
	for _, p := range paths {
		requireSameFile(t, filepath.Join(charlmDir, "sharded", filepath.Base(p)), p)
	}
	_, err = demi.Restore(context.Background(), open(t, set), filepath.Join(dir, "one.safetensors"), nil)
	require.ErrorIs(t, err, demi.ErrOutput, "four files are not one")
	_, err = demi.Restore(context.Background(), open(t, set), dst, nil)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = demi.Restore(context.Background(), open(t, filepath.Join(dir, "0.demi")), filepath.Join(dir, "other.gguf"), nil)
	require.ErrorIs(t, err, demi.ErrOutput, "it is a safetensors file that comes back")
}

func requireSameFile(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	require.True(t, string(x) == string(y), "%s and %s differ", a, b)
}

func TestArchiveIsNotPromised(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(charlmDir, "model.safetensors"), filepath.Join(dir, "a.demi")
	_, err := convertFile(t, src, dst, demi.Options{Target: demi.To(tensor.BF16), Format: demi.Demi}, nil)
	require.NoError(t, err)
	_, err = demi.Restore(context.Background(), open(t, dst), filepath.Join(dir, "b.safetensors"), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported, "its tensors were converted")
	_, err = demi.Restore(context.Background(), open(t, src), filepath.Join(dir, "b.safetensors"), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported, "it is no store")

	// Bytes that are of no tensor are not kept, so the file cannot come back.
	header := `{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`
	trailing := filepath.Join(dir, "trailing.safetensors")
	require.NoError(t, os.WriteFile(trailing, []byte(string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})+header+"xyz"), 0o666))
	c, err := demi.Open(trailing, &demi.OpenOptions{Lenient: true})
	require.NoError(t, err)
	defer c.Close()
	p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: demi.Demi})
	require.NoError(t, err)
	var warnings []string
	sink, err := demi.Create(filepath.Join(dir, "t.demi"), p, c, &demi.CreateOptions{Warn: func(s string) { warnings = append(warnings, s) }})
	require.NoError(t, err)
	_, err = demi.Convert(context.Background(), c, sink, p, nil)
	require.NoError(t, err)
	require.Contains(t, strings.Join(warnings, "\n"), "trailing.safetensors: byte 62 is of no tensor")
	_, err = demi.Restore(context.Background(), open(t, filepath.Join(dir, "t.demi")), filepath.Join(dir, "t.safetensors"), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestArchiveOfBigEndian: the reader swaps the bytes, so the file cannot come
// back from them.
func TestArchiveOfBigEndian(t *testing.T) {
	const src = "../shared/data/gguf-probe/big_endian_v3.gguf"
	if _, err := os.Stat(src); err != nil {
		return // not part of the repository
	}
	c := open(t, src)
	p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: demi.Demi})
	require.NoError(t, err)
	warned := ""
	store := filepath.Join(t.TempDir(), "a.demi")
	sink, err := demi.Create(store, p, c, &demi.CreateOptions{Warn: func(s string) { warned = s }})
	require.NoError(t, err)
	_, err = demi.Convert(context.Background(), c, sink, p, nil)
	require.NoError(t, err)
	require.Contains(t, warned, "byte order")
	_, err = demi.Restore(context.Background(), open(t, store), store+".gguf", nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestBusy: two at once on one output.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	c := open(t, filepath.Join(charlmDir, "model.safetensors"))
	p, err := demi.NewPlan(c, toBF16)
	require.NoError(t, err)
	for _, name := range []string{"a.safetensors", "b"} {
		first, err := demi.Create(filepath.Join(dir, name), p, c, nil)
		require.NoError(t, err)
		require.NoError(t, first.Begin(p.Infos(), p.Meta))
		second, err := demi.Create(filepath.Join(dir, name), p, c, nil)
		require.NoError(t, err)
		_, err = demi.Convert(context.Background(), c, second, p, nil)
		require.ErrorIs(t, err, demi.ErrBusy)
		first.Abort()
	}
	require.Empty(t, names(t, dir))
}
