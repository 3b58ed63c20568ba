package demi_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

const torchDir = "testdata/pytorch"

// A torchSample is a file that PyTorch wrote, with the tensors that NumPy says
// are in it, or why it is refused.
type torchSample struct {
	File    string
	Refused string
	Tensors []struct{ Name, DType, Hex string }
}

func torchSamples(t testing.TB) map[string]torchSample {
	t.Helper()
	all := map[string]torchSample{}
	for _, release := range []string{"torch-1.13", "torch-2.6"} {
		text, err := os.ReadFile(filepath.Join(torchDir, release, "expect.json"))
		require.NoError(t, err)
		var in struct{ Files []torchSample }
		require.NoError(t, json.Unmarshal(text, &in))
		for _, s := range in.Files {
			all[filepath.Join(torchDir, release, s.File)] = s
		}
	}
	return all
}

// TestTorchSamples converts what PyTorch wrote, through a store, to safetensors,
// and finds every bit again.
func TestTorchSamples(t *testing.T) {
	converted := 0
	for path, s := range torchSamples(t) {
		if s.Refused != "" {
			_, err := demi.Open(path, nil)
			require.ErrorIs(t, err, tensor.ErrUnsupported, path)
			continue
		}
		dir := t.TempDir()
		one, stored, two := filepath.Join(dir, "one.safetensors"), filepath.Join(dir, "x.demi"), filepath.Join(dir, "two.safetensors")
		warned := ""
		warn := func(text string) { warned += text }
		for _, step := range [][2]string{{path, one}, {path, stored}, {stored, two}} {
			o := demi.Options{Target: demi.Keep, Format: demi.FormatOf(step[1])}
			_, err := convertFile(t, step[0], step[1], o, &demi.CreateOptions{Warn: warn})
			require.NoError(t, err, path)
		}
		require.Contains(t, warned, "a file of PyTorch: the store will not give it back")
		got := values(t, open(t, two).Source())
		inSet := filepath.Base(filepath.Dir(path)) == "set" // one of its files opens them all
		require.True(t, len(got) == len(s.Tensors) || inSet && len(got) > len(s.Tensors), path)
		for _, want := range s.Tensors {
			require.Equal(t, want.Hex, hex.EncodeToString(got[want.Name]), "%s: %s", path, want.Name)
		}
		a, err := os.ReadFile(one)
		require.NoError(t, err)
		b, err := os.ReadFile(two)
		require.NoError(t, err)
		require.Equal(t, a, b)
		converted++
	}
	require.Greater(t, converted, 20)
}

// TestTorchSections: what a file consists of adds up, also where tensors share
// storages and are views of them.
func TestTorchSections(t *testing.T) {
	for path, s := range torchSamples(t) {
		if s.Refused != "" {
			continue
		}
		c := open(t, path)
		require.Equal(t, demi.PyTorch, c.Format())
		for _, x := range c.Sections() {
			require.Equal(t, x.Size, x.Header+x.Tensors+x.Extra)
			require.GreaterOrEqual(t, x.Extra, int64(0), path)
			require.Positive(t, x.Header)
		}
		ids, err := c.Identity()
		require.NoError(t, err)
		fsys, err := demi.OpenFS(os.DirFS("."), path, nil)
		require.NoError(t, err)
		p, err := demi.NewPlan(fsys, demi.Options{Target: demi.Keep})
		require.NoError(t, err)
		require.Equal(t, demi.Safetensors, p.Options.Format)
		doc, err := p.Document(fsys)
		require.NoError(t, err)
		for i := range ids {
			ids[i].ModTime = 0
		}
		require.Equal(t, ids, doc.Files)
		require.NoError(t, fsys.Close())
	}
}

// TestTorchSums: a bit of a storage that changed is found by a conversion, and
// let pass where the caller has asked for that.
func TestTorchSums(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pytorch_model.bin")
	file, err := os.ReadFile(filepath.Join(torchDir, "torch-2.6/tied.bin"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, file, 0o666))
	x, ok := open(t, path).Tensor("lm_head.weight")
	require.True(t, ok)
	_, at := x.Place()
	file[at] ^= 1
	require.NoError(t, os.WriteFile(path, file, 0o666))

	out := filepath.Join(dir, "out.safetensors")
	_, err = convertFile(t, path, out, demi.Options{}, nil)
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.ErrorContains(t, err, "CRC-32")
	require.NoFileExists(t, out)

	c, err := demi.Open(path, &demi.OpenOptions{Lenient: true})
	require.NoError(t, err)
	defer c.Close()
	_, _, err = convert(t, c, demi.Options{}, nil)
	require.NoError(t, err)
}
