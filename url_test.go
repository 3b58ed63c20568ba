package demi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A hub serves a directory with entity tags, and counts what it sends.
type hub struct {
	*httptest.Server
	dir   string
	fault func(w http.ResponseWriter, r *http.Request) bool // true: it has answered

	bytes atomic.Int64
	mu    sync.Mutex
	asked map[string]int
}

func newHub(t testing.TB, dir string) *hub {
	h := &hub{dir: dir, asked: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked[r.URL.Path]++
	h.mu.Unlock()
	if h.fault != nil && h.fault(w, r) {
		return
	}
	f, err := os.Open(filepath.Join(h.dir, filepath.FromSlash(r.URL.Path)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, info.Size(), info.ModTime().UnixNano()))
	http.ServeContent(&countedWriter{w, &h.bytes}, r, info.Name(), time.Time{}, f)
}

type countedWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w *countedWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

func openURL(t testing.TB, url string) *demi.Checkpoint {
	c, err := demi.OpenURL(t.Context(), url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// convertTo converts c to BF16 at path.
func convertTo(t testing.TB, c *demi.Checkpoint, path string, o *demi.CreateOptions) {
	p, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16)})
	require.NoError(t, err)
	sink, err := demi.Create(path, p, c, o)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), c, sink, p, nil)
	require.NoError(t, err)
}

// A model directory, its file, its index, a shard: each is the same checkpoint
// behind a URL as on the disk, and converts to the same files.
func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	one, set := filepath.Join(dir, "one"), filepath.Join(dir, "set")
	require.NoError(t, os.Mkdir(one, 0o777))
	for _, name := range []string{"model.safetensors", "config.json"} {
		data, err := os.ReadFile(filepath.Join(charlmDir, name))
		if os.IsNotExist(err) {
			data, err = []byte(`{"torch_dtype": "float32"}`), nil
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(one, name), data, 0o666))
	}
	_, err := convertFile(t, one, set, demi.Options{Target: demi.Keep}, &demi.CreateOptions{MaxShard: 500_000})
	require.NoError(t, err)
	shards, err := filepath.Glob(filepath.Join(set, "*-of-*.safetensors"))
	require.NoError(t, err)
	require.Greater(t, len(shards), 1)
	h := newHub(t, dir)
	for _, x := range []struct{ local, at string }{
		{one, "/one/"}, {one, "/one"}, {set, "/set"},
		{filepath.Join(one, "model.safetensors"), "/one/model.safetensors"},
		{filepath.Join(set, "model.safetensors.index.json"), "/set/model.safetensors.index.json"},
		{shards[1], "/set/" + filepath.Base(shards[1]) + "?key=secret"},
	} {
		local, remote := open(t, x.local), openURL(t, h.URL+x.at)
		require.Equal(t, local.Source().Tensors(), remote.Source().Tensors(), x.at)
		require.Equal(t, local.Warnings(), remote.Warnings(), x.at)
		files, err := remote.Identity()
		require.NoError(t, err)
		require.NotEmpty(t, files[0].ETag)

		out := t.TempDir()
		convertTo(t, local, filepath.Join(out, "local"), nil)
		convertTo(t, remote, filepath.Join(out, "remote"), nil)
		require.Equal(t, hashes(t, filepath.Join(out, "local")), hashes(t, filepath.Join(out, "remote")), x.at)
	}
}

// A pipeline is followed through the file that names its parts.
func TestOpenURLPipeline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	write := func(name string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	weights, err := os.ReadFile(filepath.Join(charlmDir, "model.safetensors"))
	require.NoError(t, err)
	write("model_index.json", []byte(`{"_class_name": "P", "unet": ["d", "U"], "text_encoder": ["t", "C"], "scheduler": ["d", "S"]}`))
	write("unet/diffusion_pytorch_model.safetensors", weights)
	write("text_encoder/model.safetensors", weights)
	write("scheduler/scheduler_config.json", []byte("{}"))
	h := newHub(t, filepath.Dir(dir))
	out := t.TempDir()
	convertTo(t, open(t, dir), filepath.Join(out, "local"), nil)
	convertTo(t, openURL(t, h.URL+"/p"), filepath.Join(out, "remote"), nil)
	require.Equal(t, hashes(t, filepath.Join(out, "local")), hashes(t, filepath.Join(out, "remote")))
	require.FileExists(t, filepath.Join(out, "remote/scheduler/scheduler_config.json"))
}

// Planning reads headers: a hundredth of a set, from many shards at one time.
func TestURLHeadersOnly(t *testing.T) {
	const shards = 100
	dir := t.TempDir()
	m := &mem{}
	for i := range shards {
		m.f32(fmt.Sprintf("layers.%d.w", i), make([]float32, 1<<19)...)
	}
	out := filepath.Join(dir, "m")
	c := m.checkpoint()
	p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep})
	require.NoError(t, err)
	sink, err := demi.Create(out, p, c, &demi.CreateOptions{MaxShard: 2 << 20})
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), c, sink, p, nil)
	require.NoError(t, err)

	h := newHub(t, dir)
	var now, most atomic.Int64
	h.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "-of-") {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(2 * time.Millisecond) // as a network does
		}
		return false
	}
	remote := openURL(t, h.URL+"/m/")
	p, err = demi.NewPlan(remote, demi.Options{Target: demi.To(tensor.BF16)})
	require.NoError(t, err)
	in, size := p.Bytes()
	require.Equal(t, int64(shards*4<<19), in)
	require.Equal(t, in/2, size)
	require.Less(t, h.bytes.Load(), in/100)
	require.Greater(t, most.Load(), int64(4), "requests at one time")
	for path, n := range h.asked {
		require.Equal(t, 1, n, path)
	}
}

// A file that changes after it was opened is an error of that class, and leaves
// no output.
func TestURLChanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	c := new(mem).f32("w", make([]float32, 1<<20)...).checkpoint()
	convertKeep(t, c, path)
	h := newHub(t, dir)
	remote := openURL(t, h.URL+"/model.safetensors")
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	p, err := demi.NewPlan(remote, demi.Options{Target: demi.To(tensor.BF16)})
	require.NoError(t, err)
	out := filepath.Join(dir, "out.safetensors")
	sink, err := demi.Create(out, p, remote, nil)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), remote, sink, p, nil)
	require.ErrorIs(t, err, tensor.ErrChanged)
	require.ErrorContains(t, err, h.URL+"/model.safetensors: bytes ")
	require.NoFileExists(t, out)
}

func convertKeep(t testing.TB, c *demi.Checkpoint, path string) {
	p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: demi.FormatOf(path)})
	require.NoError(t, err)
	sink, err := demi.Create(path, p, c, nil)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), c, sink, p, nil)
	require.NoError(t, err)
}

func TestOpenURLErrors(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "page"), []byte("<!DOCTYPE html><html></html>"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.safetensors"), []byte("<!DOCTYPE html><html></html>"), 0o666))
	h := newHub(t, dir)
	for at, want := range map[string]string{
		"/none/":            "add /resolve/main/",
		"/none":             "add /resolve/main/",
		"/none.safetensors": "404 Not Found from " + h.URL + "/none.safetensors",
		"/x.safetensors":    "HTML",
		"/page":             "HTML",
	} {
		_, err := demi.OpenURL(t.Context(), h.URL+at, nil)
		require.ErrorContains(t, err, want, at)
	}
	// The page of a repository stands where its files lie below.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "repo"), 0o777))
	convertKeep(t, new(mem).f32("w", 1, 2).checkpoint(), filepath.Join(dir, "repo/model.safetensors"))
	h.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/repo" {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("<!DOCTYPE html><html></html>"))
		}
		return r.URL.Path == "/repo"
	}
	require.Equal(t, 1, openURL(t, h.URL+"/repo").Len())
	_, err := demi.OpenURL(t.Context(), "http://user:secret@[::1", nil)
	require.ErrorContains(t, err, "not a URL")
	require.NotContains(t, err.Error(), "secret")

	h.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	_, err = demi.OpenURL(t.Context(), h.URL+"/none/", nil)
	require.ErrorIs(t, err, os.ErrPermission, "not: there is nothing")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = demi.OpenURL(ctx, h.URL+"/none/", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestIsURL(t *testing.T) {
	for path, want := range map[string]bool{
		"http://h/x": true, "HTTPS://h/x": true, "https:/x": false, "ftp://h/x": false, "./http://x": false, "http": false, "": false,
	} {
		require.Equal(t, want, demi.IsURL(path), path)
	}
}

// A conversion asks for a MiB at a time, and for each byte once; under a limit of
// memory for less. Bytes and figures are those of the file on the disk.
func TestURLRequests(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	m := &mem{}
	for i := range 2 {
		values := make([]float32, 2<<20)
		for k := range values {
			values[k] = float32(k*(i+1)) / 3
		}
		m.f32(fmt.Sprintf("w%d", i), values...)
	}
	convertKeep(t, m.checkpoint(), path)
	h := newHub(t, dir)
	const size = 2 * 8 << 20
	for name, x := range map[string]struct {
		run    *demi.RunOptions
		target demi.Target
		least  int64 // requests
		most   int64
	}{
		"default":    {nil, demi.To(tensor.BF16), 16, 16 + 8},
		"one worker": {&demi.RunOptions{Workers: 1, MaxMemory: 16 << 20}, demi.To(tensor.F16), 16, 16 + 8},
		"low memory": {&demi.RunOptions{MaxMemory: 6 << 20}, demi.To(tensor.BF16), 4 * 16, 4*16 + 8},
		"two reads":  {nil, demi.Exact, 32, 32 + 8},
		"to a store": {nil, demi.To(tensor.BF16), 16, 16 + 8},
		"passes":     {nil, demi.Keep, 16, 16 + 8},
	} {
		t.Run(name, func(t *testing.T) {
			ext := ".safetensors"
			if name == "to a store" {
				ext = ".demi"
			}
			before, requests := h.bytes.Load(), h.requests()
			var records [2][]tensor.Record
			for k, c := range []*demi.Checkpoint{open(t, path), openURL(t, h.URL+"/model.safetensors")} {
				p, err := demi.NewPlan(c, demi.Options{Target: x.target, Format: demi.FormatOf(ext)})
				require.NoError(t, err)
				require.NoError(t, p.Decide(t.Context(), c, x.run))
				sink, err := demi.Create(filepath.Join(dir, fmt.Sprint(name, k, ext)), p, c, nil)
				require.NoError(t, err)
				records[k], err = demi.Convert(t.Context(), c, sink, p, x.run)
				require.NoError(t, err)
			}
			require.Equal(t, records[0], records[1])
			require.GreaterOrEqual(t, h.requests()-requests, x.least)
			require.LessOrEqual(t, h.requests()-requests, x.most)
			reads := int64(1)
			if name == "two reads" {
				reads = 2
			}
			require.InDelta(t, reads*size, h.bytes.Load()-before, 64<<10)
		})
	}
}

func (h *hub) requests() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.asked {
		n += int64(k)
	}
	return n
}

// A store of files behind a URL does not give them back, since that would take a
// second download: it is said when it is made. One that was made on a machine
// hands its sources on, and gives them back, from behind a URL as well.
func TestURLRestore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	convertKeep(t, new(mem).f32("w", 1, 2, 3).checkpoint(), path)
	convertKeep(t, open(t, path), filepath.Join(dir, "local.demi"))
	h := newHub(t, dir)
	for at, told := range map[string]int{"model.safetensors": 1, "local.demi": 0} {
		c := openURL(t, h.URL+"/"+at)
		p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: demi.Demi})
		require.NoError(t, err)
		var warnings []string
		to := filepath.Join(dir, at+".demi")
		sink, err := demi.Create(to, p, c, &demi.CreateOptions{Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
		_, err = demi.Convert(t.Context(), c, sink, p, nil)
		require.NoError(t, err)
		require.Len(t, warnings, told)
		back := filepath.Join(t.TempDir(), "back.safetensors")
		_, err = demi.Restore(t.Context(), openURL(t, h.URL+"/"+filepath.Base(to)), back, nil)
		if told > 0 {
			require.ErrorIs(t, err, tensor.ErrUnsupported)
			require.ErrorContains(t, err, "a URL")
			require.NoFileExists(t, back)
			require.Contains(t, warnings[0], "(--restore): that takes a source on this machine, not behind a URL")
			continue
		}
		require.NoError(t, err)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := os.ReadFile(back)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
