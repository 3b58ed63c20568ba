package demi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/tensor"
)

// layouts are the ways to store one model, each a name in a directory; all but
// compressed.demi can be mapped whole.
var layouts = []string{"model.safetensors", "sharded", "model.gguf", "raw.demi", "compressed.demi"}

// library returns a directory that has the layouts.
func library(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "sharded"), os.DirFS(filepath.Join(charlmDir, "sharded"))))
	for _, name := range []string{"model.safetensors", "model.gguf"} {
		p, err := os.ReadFile(filepath.Join(charlmDir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), p, 0o666))
	}
	for name, level := range map[string]codec.Level{"raw.demi": codec.None, "compressed.demi": codec.Fast} {
		_, err := convertFile(t, filepath.Join(charlmDir, "model.safetensors"), filepath.Join(dir, name),
			demi.Options{Target: demi.Keep, Format: demi.Demi}, &demi.CreateOptions{Level: level})
		require.NoError(t, err)
	}
	return dir
}

// inMemory reads a directory into a file system in memory.
func inMemory(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(filepath.Join(dir, path))
		m[path] = &fstest.MapFile{Data: p}
		return err
	}))
	return m
}

// openers open a name in a directory in every way there is.
func openers(t testing.TB, dir string) map[string]func(name string, o *demi.OpenOptions) (*demi.Checkpoint, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	in := func(fsys fs.FS) func(string, *demi.OpenOptions) (*demi.Checkpoint, error) {
		return func(name string, o *demi.OpenOptions) (*demi.Checkpoint, error) { return demi.OpenFS(fsys, name, o) }
	}
	return map[string]func(string, *demi.OpenOptions) (*demi.Checkpoint, error){
		"Open": func(name string, o *demi.OpenOptions) (*demi.Checkpoint, error) {
			return demi.Open(filepath.Join(dir, name), o)
		},
		"DirFS": in(os.DirFS(dir)),
		"Root":  in(root.FS()),
		"MapFS": in(inMemory(t, dir)),
	}
}

// TestLoadersAgree: the same values come from every format, from every file
// system, mapped or not, by every way to read.
func TestLoadersAgree(t *testing.T) {
	dir := library(t)
	want := values(t, open(t, filepath.Join(charlmDir, "model.safetensors")).Source())
	for _, layout := range layouts {
		if layout == "model.gguf" { // other names, and other rows in some tensors
			want := values(t, open(t, filepath.Join(charlmDir, layout)).Source())
			eachLoader(t, dir, layout, want)
			continue
		}
		eachLoader(t, dir, layout, want)
	}
}

func eachLoader(t *testing.T, dir, layout string, want map[string][]byte) {
	for how, open := range openers(t, dir) {
		for _, mapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/map=%v", layout, how, mapped), func(t *testing.T) {
				c, err := open(layout, &demi.OpenOptions{Map: mapped})
				require.NoError(t, err)
				require.Equal(t, want, values(t, c.Source()))
				for _, workers := range []int{0, 1, 3} {
					require.Equal(t, want, readAll(t, c, demi.ReadOptions{Workers: workers}))
				}
				require.Equal(t, want, byRows(t, c))
				requireBytes(t, c, want, mapped && how != "MapFS", layout != "compressed.demi")
				require.NotEmpty(t, c.Sections())
				require.NoError(t, c.Close())
				for x := range c.Tensors() {
					_, err := x.ReadAt(make([]byte, 1), 0)
					require.ErrorIs(t, err, fs.ErrClosed)
					_, _, ok := x.Bytes()
					require.False(t, ok)
				}
			})
		}
	}
}

// readAll reads everything through ReadAll.
func readAll(t testing.TB, c *demi.Checkpoint, o demi.ReadOptions) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	require.NoError(t, c.ReadAll(t.Context(), func(in tensor.Info) []byte {
		m[in.Name] = make([]byte, in.Size)
		return m[in.Name]
	}, o))
	return m
}

// byRows reads everything in three runs of rows a tensor.
func byRows(t testing.TB, c *demi.Checkpoint) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for x := range c.Tensors() {
		rows, size, err := x.Rows()
		require.NoError(t, err)
		p := make([]byte, rows*size)
		for from := range min(rows, 3) {
			to := min(rows, (from+1)*((rows+2)/3))
			from *= (rows + 2) / 3
			if from < to {
				require.NoError(t, x.ReadRows(p[from*size:to*size], from))
			}
		}
		m[x.Info().Name] = p
	}
	return m
}

// requireBytes compares what is mapped, where it is, and its alignment, which
// is that of the place in the file.
func requireBytes(t *testing.T, c *demi.Checkpoint, want map[string][]byte, mapped, all bool) {
	t.Helper()
	count := 0
	for x := range c.Tensors() {
		p, release, ok := x.Bytes()
		if !ok {
			require.Nil(t, p)
			continue
		}
		count++
		require.True(t, bytes.Equal(want[x.Info().Name], p))
		require.Equal(t, len(p), cap(p), "nobody can append to it")
		_, offset := x.Place()
		require.EqualValues(t, offset%4096, uintptr(unsafe.Pointer(&p[0]))%4096)
		require.Zero(t, uintptr(unsafe.Pointer(&p[0]))%8, "as these files are written")
		release()
		release()
	}
	switch {
	case !mapped:
		require.Zero(t, count)
	case all:
		require.Equal(t, c.Len(), count)
	default:
		require.Less(t, count, c.Len(), "what is compressed has to be read")
	}
}

// TestOpenFSNames: a shard, an index and a directory mean what they mean to
// Open, and so do the errors.
func TestOpenFSNames(t *testing.T) {
	want := values(t, open(t, filepath.Join(charlmDir, "model.safetensors")).Source())
	sharded := os.DirFS(filepath.Join(charlmDir, "sharded"))
	for _, name := range []string{".", "model-00002-of-00003.safetensors", "model.safetensors.index.json"} {
		c, err := demi.OpenFS(sharded, name, nil)
		require.NoError(t, err)
		require.Equal(t, want, values(t, c.Source()))
		require.Len(t, c.Sections(), 3)
		require.Equal(t, "model-00001-of-00003.safetensors", c.Sections()[0].File)
		require.NoError(t, c.Close())
	}
	m := inMemory(t, filepath.Join(charlmDir, "sharded"))
	delete(m, "model-00003-of-00003.safetensors")
	for _, name := range []string{".", "model-00001-of-00003.safetensors"} {
		_, err := demi.OpenFS(m, name, nil)
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.ErrorContains(t, err, "model.safetensors.index.json: invalid file: 1 of 3 shards are missing: model-00003-of-00003.safetensors")
	}
	_, err := demi.OpenFS(sharded, "absent", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = demi.OpenFS(sharded, "../charlm", nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = demi.OpenFS(nil, "model.safetensors", nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	m["model.gguf"] = &fstest.MapFile{Data: []byte("GGUF")}
	_, err = demi.OpenFS(m, ".", nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "several formats")
	_, err = demi.OpenFS(m, "model.gguf", nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	m["pipe.gguf"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	_, err = demi.OpenFS(m, "pipe.gguf", nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestOpenFSWithoutReadAt: the files of an archive are read front to back.
func TestOpenFSWithoutReadAt(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	require.NoError(t, w.AddFS(os.DirFS(charlmDir)))
	require.NoError(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	for _, name := range []string{"model.safetensors", "model.gguf", "sharded", "sharded/model.safetensors.index.json"} {
		_, err = demi.OpenFS(r, name, nil)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		require.ErrorContains(t, err, "have no ReadAt")
	}
}

// TestCreateFromFS: names in a file system are none of the operating system's,
// which may have files of the same names.
func TestCreateFromFS(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("secret.txt", []byte("secret"), 0o600))
	p, err := os.ReadFile("secret.txt")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("model.safetensors", p, 0o600))
	x := weights(100, 1)
	file, _ := mustConvert(t, new(mem).f32("a", x...).checkpoint(), demi.Options{Target: demi.Keep})
	c, err := demi.OpenFS(fstest.MapFS{"model.safetensors": {Data: file}}, "model.safetensors", nil)
	require.NoError(t, err)
	defer c.Close()
	plan, err := demi.NewPlan(c, demi.Options{Target: demi.Keep})
	require.NoError(t, err)
	for _, out := range []string{"model.safetensors", "out"} {
		sink, err := demi.Create(out, plan, c, &demi.CreateOptions{IfExists: demi.Replace})
		require.NoError(t, err, out)
		_, err = demi.Convert(t.Context(), c, sink, plan, nil)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"model.safetensors"}, names(t, "out"), "nothing from the working directory")
	require.Equal(t, f32Bytes(x), values(t, open(t, "model.safetensors").Source())["a"])
}

// TestCloseWhileLoading: what is under way at Close ends with an error or with
// the right bytes, and slices stay what they are until they are released.
func TestCloseWhileLoading(t *testing.T) {
	dir := library(t)
	want := values(t, open(t, filepath.Join(dir, "raw.demi")).Source())
	all := openers(t, dir)
	for _, layout := range []string{"model.safetensors", "sharded", "raw.demi", "compressed.demi"} {
		for _, how := range []string{"Open", "MapFS"} {
			for round := range 6 {
				c, err := all[how](layout, &demi.OpenOptions{Map: round%2 == 1})
				require.NoError(t, err)
				held := holdAll(c)
				start := make(chan struct{})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { <-start; useUp(t, c, want) })
				}
				close(start)
				if round > 1 {
					useOne(c)
				}
				require.NoError(t, c.Close())
				wg.Wait()
				require.Error(t, c.ReadAll(t.Context(), func(in tensor.Info) []byte { return make([]byte, in.Size) }, demi.ReadOptions{}))
				for name, h := range held {
					require.True(t, bytes.Equal(want[name], h.p))
					h.release()
				}
			}
		}
	}
}

// TestManyReaders: sixty-four goroutines share a checkpoint, each reads every
// tensor, in pieces of its own size and from a place of its own.
func TestManyReaders(t *testing.T) {
	dir := library(t)
	want := values(t, open(t, filepath.Join(dir, "raw.demi")).Source())
	all := openers(t, dir)
	for _, layout := range []string{"model.safetensors", "sharded", "raw.demi", "compressed.demi"} {
		for _, mapped := range []bool{false, true} {
			c, err := all["Open"](layout, &demi.OpenOptions{Map: mapped})
			require.NoError(t, err)
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for x := range c.Tensors() {
						if err := readPieces(x, want[x.Info().Name], g); err != nil {
							t.Errorf("%s: %v", layout, err)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, c.Close())
		}
	}
}

// readPieces reads a tensor from an end on, in pieces, and compares it.
func readPieces(x *demi.Tensor, want []byte, g int) error {
	piece := 1 + g*g*37
	for at := range (len(want) + piece - 1) / piece {
		if g%2 == 1 {
			at = (len(want)-1)/piece - at
		}
		p := make([]byte, min(piece, len(want)-at*piece)+1)
		n, err := x.ReadAt(p[:len(p)-1], int64(at*piece))
		if err != nil && err != io.EOF {
			return err
		}
		if !bytes.Equal(p[:n], want[at*piece:][:len(p)-1]) {
			return fmt.Errorf("tensor %q has other bytes at %d", x.Info().Name, at*piece)
		}
		if piece < 64 { // the whole would take long, and it is the same
			return nil
		}
	}
	return nil
}

type heldBytes struct {
	p       []byte
	release func()
}

// holdAll takes the bytes of every tensor that has them.
func holdAll(c *demi.Checkpoint) map[string]heldBytes {
	held := map[string]heldBytes{}
	for x := range c.Tensors() {
		if p, release, ok := x.Bytes(); ok {
			held[x.Info().Name] = heldBytes{p, release}
		}
	}
	return held
}

func useOne(c *demi.Checkpoint) {
	for x := range c.Tensors() {
		x.Float32s(make([]float32, 1), 0)
	}
}

// useUp reads in every way until something fails.
func useUp(t *testing.T, c *demi.Checkpoint, want map[string][]byte) {
	compare := func(in tensor.Info, p []byte) {
		if !bytes.Equal(p, want[in.Name]) {
			t.Errorf("tensor %q has other bytes", in.Name)
		}
	}
	for {
		bufs := map[string][]byte{}
		err := c.ReadAll(context.Background(), func(in tensor.Info) []byte {
			bufs[in.Name] = make([]byte, in.Size)
			return bufs[in.Name]
		}, demi.ReadOptions{Workers: 2, Done: func(in tensor.Info, p []byte) error { compare(in, p); return nil }})
		for x := range c.Tensors() {
			if p, release, ok := x.Bytes(); ok {
				compare(x.Info(), p)
				release()
			}
			if err == nil {
				err = x.ReadRows(bufs[x.Info().Name], 0)
			}
			if err != nil {
				return
			}
			compare(x.Info(), bufs[x.Info().Name])
		}
	}
}
