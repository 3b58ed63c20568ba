package pytorch_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

const samplesDir = "../testdata/pytorch"

// A sample is a file that PyTorch wrote, with what NumPy says is in it: see
// interop/python/pytorch_samples.py.
type sample struct {
	File    string
	Tensors []struct {
		Name, DType, Hex string
		Shape            []int64
	}
	Meta    [][2]string
	Aliases map[string]string
	Refused string
}

// samples returns the samples by their names, with the release of PyTorch.
func samples(t testing.TB) map[string]sample {
	t.Helper()
	out := make(map[string]sample)
	for _, release := range []string{"torch-1.13", "torch-2.6"} {
		text, err := os.ReadFile(filepath.Join(samplesDir, release, "expect.json"))
		require.NoError(t, err)
		var in struct {
			Torch string
			Files []sample
		}
		require.NoError(t, json.Unmarshal(text, &in))
		require.True(t, strings.HasPrefix(in.Torch, strings.TrimPrefix(release, "torch-")))
		for _, s := range in.Files {
			out[filepath.Join(samplesDir, release, s.File)] = s
		}
	}
	require.Greater(t, len(out), 40)
	return out
}

// requireSample compares a source with what is expected, bit for bit.
func requireSample(t *testing.T, s sample, src tensor.Source) {
	t.Helper()
	require.Len(t, src.Tensors(), len(s.Tensors))
	for i, want := range s.Tensors {
		in := src.Tensors()[i]
		require.Equal(t, want.Name, in.Name)
		require.Equal(t, want.DType, in.DType.String(), in.Name)
		require.Equal(t, want.Shape, append([]int64{}, in.Shape...), in.Name)
		data, err := hex.DecodeString(want.Hex)
		require.NoError(t, err)
		require.Equal(t, int64(len(data)), in.Size)
		require.Equal(t, data, content(t, src, i), "%s", in.Name)
		requirePieces(t, data, src.Data(i))
	}
}

// requirePieces reads ranges at all places, in several sizes.
func requirePieces(t *testing.T, data []byte, r io.ReaderAt) {
	t.Helper()
	for _, n := range []int{1, 3, 8, 29} {
		for off := range len(data) {
			p := make([]byte, min(n, len(data)-off))
			_, err := r.ReadAt(p, int64(off))
			require.True(t, err == nil || err == io.EOF)
			require.Equal(t, data[off:off+len(p)], p, "%d bytes at %d", n, off)
		}
	}
	got, err := r.ReadAt(make([]byte, 4), int64(len(data)))
	require.Equal(t, 0, got)
	require.Equal(t, io.EOF, err)
}

func TestSamples(t *testing.T) {
	for name, s := range samples(t) {
		if s.Refused != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f, err := pytorch.Open(name, &pytorch.Options{Map: true})
			require.NoError(t, err)
			defer f.Close()
			requireSample(t, s, f)
			require.NoError(t, f.Verify(t.Context()))
			require.Equal(t, s.Aliases, f.Aliases())
			if s.Meta != nil {
				requireMeta(t, s, f)
			}
			requireMapped(t, f)
		})
	}
}

func requireMeta(t *testing.T, s sample, f *pytorch.File) {
	t.Helper()
	var got [][2]string
	for _, e := range f.Meta() {
		got = append(got, [2]string{e.Key, e.Value.(string)})
	}
	require.ElementsMatch(t, s.Meta, got)
	if strings.Contains(f.Name(), "nested") {
		require.Equal(t, []string{`1 value is left out of the metadata, for it would grow too large: the first is "many"`}, f.Warnings())
		require.Equal(t, s.Meta, got, "the order of the pickle")
		return
	}
	require.Empty(t, f.Warnings())
}

// requireMapped: what is contiguous is in memory as well, on 64 bytes if it
// begins a storage.
func requireMapped(t *testing.T, f *pytorch.File) {
	t.Helper()
	contiguous := 0
	for i, in := range f.Tensors() {
		if p, release, ok := f.Bytes(i); ok {
			require.Equal(t, content(t, f, i), append([]byte{}, p...), in.Name)
			release()
			contiguous++
		}
	}
	require.Positive(t, contiguous)
}

// TestPlaces: PyTorch begins storages on 64 bytes.
func TestPlaces(t *testing.T) {
	f, err := pytorch.Open(filepath.Join(samplesDir, "torch-2.6/plain2.bin"), nil)
	require.NoError(t, err)
	defer f.Close()
	for i, in := range f.Tensors() {
		name, at := f.Place(i)
		require.Equal(t, f.Name(), name)
		require.Zero(t, at%64, in.Name)
	}
	h := f.Header()
	require.Equal(t, "plain2", h.Root)
	require.Equal(t, 3, h.Version)
	require.Len(t, h.SerializationID, 40)
	require.Less(t, h.PickleOffset+h.PickleSize, f.Size())
}

// TestRefused: what cannot be read is named, with its tensor or its global.
func TestRefused(t *testing.T) {
	for name, s := range samples(t) {
		if s.Refused == "" {
			continue
		}
		_, err := pytorch.Open(name, nil)
		require.Error(t, err, name)
		require.Equal(t, "unsupported", class(err), "%v", err)
		require.Regexp(t, s.Refused, err.Error())
		require.True(t, strings.HasPrefix(err.Error(), name+": "), "%v", err)
		require.LessOrEqual(t, len(err.Error()), 500)
	}
}

// TestLenient: with Lenient an object of a class that is not known is left out,
// and nothing happens.
func TestLenient(t *testing.T) {
	f, err := pytorch.Open(filepath.Join(samplesDir, "torch-2.6/evil.pt"), &pytorch.Options{Lenient: true})
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, "w:F32:[2,2]:16", shown(f))
	require.Equal(t, []string{`objects of the unknown class "posix.system" are left out, and all that is in them`}, f.Warnings())

	g, err := pytorch.Open(filepath.Join(samplesDir, "torch-1.13/storage.pt"), &pytorch.Options{Lenient: true})
	require.NoError(t, err)
	defer g.Close()
	require.Equal(t, []string{`"s" is left out: a storage without a tensor`}, g.Warnings())
}

// TestClasses: optimizer state and averages are told from weights.
func TestClasses(t *testing.T) {
	f, err := pytorch.Open(filepath.Join(samplesDir, "torch-1.13/lightning.ckpt"), nil)
	require.NoError(t, err)
	defer f.Close()
	got := make(map[string]string)
	for i, in := range f.Tensors() {
		got[in.Name] = f.Class(i).String()
	}
	require.Equal(t, map[string]string{
		"state_dict.model.x": "weights", "state_dict.model.y": "weights", "state_dict.model_ema.x": "ema",
		"callbacks.ModelCheckpoint{'monitor': None}.best_model_score": "training", "rng_state": "training",
		"optimizer_states.0.state.0.step": "optimizer", "optimizer_states.0.state.0.exp_avg": "optimizer", "optimizer_states.0.state.0.exp_avg_sq": "optimizer",
	}, got)
	for name, want := range map[string]pytorch.Class{
		"state.0.exp_avg": pytorch.Optimizer, "state.weight": pytorch.Weights, "state.": pytorch.Weights, "optimizer.state.1.step": pytorch.Optimizer,
		"model_ema.w": pytorch.EMA, "ema": pytorch.EMA, "": pytorch.Weights, "emanate.w": pytorch.Weights, "model.optimizer.w": pytorch.Weights,
		"state_dict.optimizer.w": pytorch.Optimizer, "lr_scheduler.x": pytorch.Training,
		"model.w.exp_avg_sq": pytorch.Optimizer, "model.w.exp_avg_sq.w": pytorch.Weights, "exp_avg": pytorch.Optimizer,
	} {
		require.Equal(t, want, pytorch.ClassOf(name), name)
	}
	require.Equal(t, "Class(9)", pytorch.Class(9).String())
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// TestSets: a set is found by its directory, its index and its shards, in an
// FS as well.
func TestSets(t *testing.T) {
	const release = "torch-2.6/set"
	dir := filepath.Join(samplesDir, release)
	var want sample
	for i := 1; i <= 2; i++ {
		s := samples(t)[filepath.Join(dir, []string{"", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"}[i])]
		want.Tensors = append(want.Tensors, s.Tensors...)
	}
	for _, path := range []string{"", "pytorch_model.bin.index.json", "pytorch_model-00002-of-00002.bin"} {
		for _, o := range []pytorch.Options{{}, {IgnoreIndex: true}, {FS: os.DirFS(samplesDir)}} {
			name := filepath.Join(dir, path)
			if o.FS != nil {
				name = strings.TrimSuffix(release+"/"+path, "/")
			}
			s, err := pytorch.OpenSet(name, &o)
			require.NoError(t, err, name)
			requireSample(t, want, s)
			require.Equal(t, o.IgnoreIndex, s.Index() == nil)
			require.Empty(t, s.Warnings())
			require.Empty(t, s.Aliases())
			require.NoError(t, s.Verify(t.Context()))
			require.Len(t, s.Files(), 2)
			require.Empty(t, s.Meta())
			require.Equal(t, pytorch.Weights, s.Class(30))
			file, at := s.Place(30)
			require.Contains(t, file, "00002-of")
			require.Positive(t, at)
			_, _, mapped := s.Bytes(0)
			require.False(t, mapped)
			require.NoError(t, s.Close())
		}
	}
}

// TestSetErrors: a set that does not fit is refused, and says why.
func TestSetErrors(t *testing.T) {
	dir := copyDir(t, filepath.Join(samplesDir, "torch-1.13/set"))
	index, first := filepath.Join(dir, "pytorch_model.bin.index.json"), filepath.Join(dir, "pytorch_model-00001-of-00002.bin")
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	rewrite := func(old, new string) {
		require.Contains(t, string(text), old)
		require.NoError(t, os.WriteFile(index, []byte(strings.Replace(string(text), old, new, 1)), 0o600))
	}
	rewrite("layers.3.w", "layers.x.w")
	_, err = pytorch.OpenSet(dir, nil)
	require.ErrorContains(t, err, `the index is stale: 1 tensor of the index is in no shard: "layers.x.w" (in pytorch_model-00001-of-00002.bin); 1 tensor of the shards is not in the index`)
	rewrite(`"total_size": 960`, `"total_size": 961.0`)
	s, err := pytorch.OpenSet(dir, nil)
	require.NoError(t, err)
	require.Contains(t, s.Warnings()[0], "total_size is 961, the tensors have 960 bytes")
	total, ok := s.Index().TotalSize()
	require.True(t, ok)
	require.Equal(t, int64(961), total)
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(first))
	_, err = pytorch.OpenSet(dir, nil)
	require.ErrorContains(t, err, "1 of 2 shards are missing: pytorch_model-00001-of-00002.bin")
	require.NoError(t, os.WriteFile(first, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"), 0o600))
	_, err = pytorch.OpenSet(dir, nil)
	require.ErrorContains(t, err, "not a PyTorch checkpoint: it is a Git LFS pointer")
}

// TestTwice: a name in two shards.
func TestTwice(t *testing.T) {
	dir := copyDir(t, filepath.Join(samplesDir, "torch-1.13/set"))
	first, second := filepath.Join(dir, "pytorch_model-00001-of-00002.bin"), filepath.Join(dir, "pytorch_model-00002-of-00002.bin")
	require.NoError(t, os.Remove(second))
	require.NoError(t, os.Link(first, second))
	_, err := pytorch.OpenSet(dir, &pytorch.Options{IgnoreIndex: true})
	require.ErrorContains(t, err, `duplicate tensor name "layers.0.w"`)
}

// TestDirectories: pytorch_model.bin goes before other files in .bin, these
// before .pt, .pth and .ckpt.
func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	add := func(name, sample string) {
		p, err := os.ReadFile(filepath.Join(samplesDir, "torch-1.13", sample))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), p, 0o600))
	}
	_, err := pytorch.OpenSet(dir, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = pytorch.OpenSet(filepath.Join(dir, "absent"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, step := range []struct{ name, sample, want string }{
		{"last.ckpt", "lightning.ckpt", "last.ckpt"},
		{"m.pth", "tensor.pt", "m.pth"},
		{"m.pt", "list.pt", "m.pt"},
		{"training_args.bin", "tied.bin", "training_args.bin"},
		{"pytorch_model.bin", "plain2.bin", "pytorch_model.bin"},
	} {
		add(step.name, step.sample)
		s, err := pytorch.OpenSet(dir, nil)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, step.want), s.Files()[0].Name())
		require.NoError(t, s.Close())
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "pytorch_model.bin")))
	add("other.bin", "plain2.bin")
	_, err = pytorch.OpenSet(dir, nil)
	require.ErrorContains(t, err, "directory has 2 models and no index that decides, name one of them: other.bin, training_args.bin")
}

func TestParseIndex(t *testing.T) {
	for text, want := range map[string]string{
		``:                       "format",
		`{}`:                     "weight_map is missing",
		`{"weight_map":{"a":1}}`: "format",
		`{"weight_map":{"a":"x.bin","a":"y.bin"}}`: "duplicate",
		`{"weight_map":{"a":"../x.bin"}}`:          "leaves the directory",
		`{"weight_map":{"a":"x.safetensors"}}`:     "does not end in .bin",
		`{"weight_map":{"a":"con.bin"}}`:           "reserved on Windows",
		`{"weight_map":{"a":"x.bin"}} 1`:           "format",
		`{"weight_map":{"a":""}}`:                  "does not end in .bin",
		`[[[[[[[[[[`:                               "format",
	} {
		_, err := pytorch.ParseIndex([]byte(text))
		require.Error(t, err, text)
		require.NotEqual(t, "no class", class(err))
		if want != "format" {
			require.ErrorContains(t, err, want, text)
		}
	}
	x, err := pytorch.ParseIndex([]byte(`{"metadata":{"total_size":1.5e3,"x":[]},"weight_map":{"b":"2.bin","a":"1.bin","c":"2.bin"},"y":0}`))
	require.NoError(t, err)
	require.Equal(t, []string{"1.bin", "2.bin"}, x.Names())
	n, ok := x.TotalSize()
	require.True(t, ok && n == 1500)
	for _, none := range []string{`null`, `1.5`, `1e30`, `"x"`, `-1e19`} {
		x, err := pytorch.ParseIndex([]byte(`{"metadata":{"total_size":` + none + `},"weight_map":{}}`))
		require.NoError(t, err)
		_, ok := x.TotalSize()
		require.False(t, ok, none)
	}
}

// TestConcurrent reads views by several goroutines, also while the file is
// closed.
func TestConcurrent(t *testing.T) {
	name := filepath.Join(samplesDir, "torch-1.13/views.pt")
	f, err := pytorch.Open(name, nil)
	require.NoError(t, err)
	s := samples(t)[name]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, want := range s.Tensors {
				if got := content(t, f, i); hex.EncodeToString(got) != want.Hex {
					t.Errorf("%s differs", want.Name)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, f.Close())
	for i, in := range f.Tensors() {
		if in.Size > 0 {
			_, err := f.Data(i).ReadAt(make([]byte, 1), 0)
			require.ErrorIs(t, err, os.ErrClosed)
		}
	}
}
