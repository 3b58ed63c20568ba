package demi_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

var toBF16 = demi.Options{Target: demi.To(tensor.BF16)}

// TestDirectory converts a sharded model into a directory that loaders take.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	dst := filepath.Join(dir, "model-bf16")
	records, err := convertFile(t, filepath.Join(charlmDir, "sharded"), dst, toBF16, &demi.CreateOptions{MaxShard: 400_000})
	require.NoError(t, err)
	require.Equal(t, []string{"model-bf16"}, names(t, dir))
	require.Equal(t, []string{
		"config.json", "generation_config.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
		"model-00003-of-00003.safetensors", "model.safetensors.index.json",
	}, names(t, dst))
	c := open(t, dst)
	require.Equal(t, len(records), c.Len())
	single, _ := mustConvert(t, open(t, filepath.Join(charlmDir, "model.safetensors")), toBF16)
	require.Equal(t, values(t, parse(t, single)), values(t, c.Source()))

	var before, after map[string]any
	for file, v := range map[string]*map[string]any{filepath.Join(charlmDir, "sharded/config.json"): &before, filepath.Join(dst, "config.json"): &after} {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, v))
	}
	changed := 0
	for key := range before {
		if key == "torch_dtype" || key == "dtype" {
			require.Equal(t, "bfloat16", after[key])
			changed++
		} else {
			require.Equal(t, before[key], after[key])
		}
	}
	require.Positive(t, changed, "the configuration names a type")

	_, err = convertFile(t, filepath.Join(charlmDir, "sharded"), dst, toBF16, nil)
	require.ErrorIs(t, err, fs.ErrExist)
}

func TestDirectoryOfGGUF(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "out")
	o := demi.Options{Target: demi.To(tensor.F16)}
	_, err := convertFile(t, filepath.Join(charlmDir, "model.gguf"), dst, o, &demi.CreateOptions{MaxShard: 400_000})
	require.NoError(t, err)
	c := open(t, dst)
	require.Equal(t, demi.GGUF, c.Format())
	require.Greater(t, len(c.Sections()), 1)
	kind, ok := c.Meta().Get("general.file_type")
	require.True(t, ok)
	require.Equal(t, uint32(1), kind, "mostly F16")
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "in.safetensors")
	original, err := os.ReadFile(filepath.Join(charlmDir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(src, original, 0o666))
	link, hard, dangling := filepath.Join(dir, "link.safetensors"), filepath.Join(dir, "hard.safetensors"), filepath.Join(dir, "dangling.safetensors")
	require.NoError(t, os.Symlink(src, link))
	require.NoError(t, os.Link(src, hard))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), dangling))
	other := filepath.Join(dir, "other.safetensors")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o666))

	force := &demi.CreateOptions{IfExists: demi.Replace}
	for _, alias := range []string{src, link, hard, filepath.Join(dir, ".", "in.safetensors")} {
		_, err := convertFile(t, src, alias, toBF16, force)
		require.ErrorIs(t, err, demi.ErrOutput, alias)
		require.ErrorContains(t, err, "source")
	}
	for _, taken := range []string{other, dangling} {
		_, err = convertFile(t, src, taken, toBF16, nil)
		require.ErrorIs(t, err, fs.ErrExist, taken)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "out.pt"):                  "not written",
		filepath.Join(dir, "out.gguf"):                "not the name of a safetensors file",
		filepath.Join(dir, "missing/out.safetensors"): "directory",
		filepath.Join(other, "out.safetensors"):       "directory",
		"":                                            "not a name",
		".":                                           "not a name",
		filepath.Join(dir, "m-00001-of-00002.safetensors"): "shard",
		filepath.Join(t.TempDir(), "missing", "outdir"):    "directory",
	} {
		_, err = convertFile(t, src, path, toBF16, force)
		require.Error(t, err)
		require.ErrorContains(t, err, want, path)
	}
	after, err := os.ReadFile(src)
	require.NoError(t, err)
	require.Equal(t, original, after)
	precious, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "precious", string(precious))
	require.Len(t, names(t, dir), 5)

	_, err = convertFile(t, src, other, toBF16, force)
	require.NoError(t, err)
	require.Equal(t, 30, open(t, other).Len())
}

func TestConfigIsCorrectedInPlace(t *testing.T) {
	for _, x := range []struct{ before, after string }{
		{`{"torch_dtype": "float32", "a": 1}`, `{"torch_dtype": "bfloat16", "a": 1}`},
		{"{\n \"dtype\" :\t\"torch.float32\",\n \"text_config\": {\"torch_dtype\": \"float16\"}}\n", "{\n \"dtype\" :\t\"torch.bfloat16\",\n \"text_config\": {\"torch_dtype\": \"bfloat16\"}}\n"},
		{`{"a": "torch_dtype", "b": "float32"}`, `{"a": "torch_dtype", "b": "float32"}`},
		{`{"torch_dtype": "auto", "dtype": null, "x": ["dtype", "float32"]}`, `{"torch_dtype": "auto", "dtype": null, "x": ["dtype", "float32"]}`},
		{`{"torch_dtype": "\u0066loat32", "a": "float32"}`, `{"torch_dtype": "bfloat16", "a": "float32"}`},
		{`not JSON "torch_dtype": "float32"`, `not JSON "torch_dtype": "float32"`},
		{`{"torch_dtype": "float32"`, `{"torch_dtype": "float32"`},
		{"\ufeff" + `{"torch_dtype": "float32"}`, "\ufeff" + `{"torch_dtype": "bfloat16"}`},
		{"\ufeffnot JSON", "\ufeffnot JSON"},
	} {
		dir := t.TempDir()
		model, err := os.ReadFile(filepath.Join(charlmDir, "model.safetensors"))
		require.NoError(t, err)
		src := filepath.Join(dir, "src")
		require.NoError(t, os.Mkdir(src, 0o777))
		for name, content := range map[string]string{
			"model.safetensors": string(model), "config.json": x.before, "tokenizer.model": "t", "LICENSE": "l",
			"pytorch_model.bin": "no", ".hidden": "no", "other.json": `{"torch_dtype": "float32"}`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(src, name), []byte(content), 0o666))
		}
		dst := filepath.Join(dir, "dst")
		var warned []string
		_, err = convertFile(t, src, dst, toBF16, &demi.CreateOptions{Warn: func(s string) { warned = append(warned, s) }})
		require.NoError(t, err)
		told := strings.Contains(strings.Join(warned, "\n"), "config.json is copied as it is, and the type that it names may be wrong")
		require.Equal(t, !json.Valid([]byte(strings.TrimPrefix(x.before, "\ufeff"))), told, "%q: %q", x.before, warned)
		require.Equal(t, []string{"LICENSE", "config.json", "model.safetensors", "other.json", "tokenizer.model"}, names(t, dst))
		got, err := os.ReadFile(filepath.Join(dst, "config.json"))
		require.NoError(t, err)
		require.Equal(t, x.after, string(got))
		kept := filepath.Join(dir, "kept")
		_, err = convertFile(t, src, kept, demi.Options{Target: demi.Keep}, nil)
		require.NoError(t, err)
		got, err = os.ReadFile(filepath.Join(kept, "config.json"))
		require.NoError(t, err)
		require.Equal(t, x.before, string(got), "nothing has changed")
	}
}
