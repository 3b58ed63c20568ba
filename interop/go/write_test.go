package interop_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	nlp "github.com/nlpodyssey/safetensors"
	"github.com/ollama/ollama/convert"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/interop/go/files"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// TestReadNlpodyssey: what nlpodyssey/safetensors writes is read.
func TestReadNlpodyssey(t *testing.T) {
	p, err := os.ReadFile(filepath.Join(charlm, "model.safetensors"))
	require.NoError(t, err)
	st, err := nlp.Deserialize(p)
	require.NoError(t, err)
	views := make(map[string]nlp.TensorView)
	for _, v := range st.Tensors() {
		views[v.Name] = v.TensorView
	}
	out, err := nlp.Serialize(views, map[string]string{"format": "pt"})
	require.NoError(t, err)
	f, err := safetensors.NewFile(bytes.NewReader(out), int64(len(out)), nil)
	require.NoError(t, err)
	require.Empty(t, f.Warnings())
	require.Len(t, f.Tensors(), len(views))
	for i, in := range f.Tensors() {
		got := make([]byte, in.Size)
		require.NoError(t, tensor.ReadFull(f, i, got, 0))
		require.Equal(t, digest(views[in.Name].Data()), digest(got), in.Name)
	}
}

// TestOllamaConvert: ollama makes GGUF of the sharded set that this project
// wrote, as it makes it of the set that the reference wrote; and this project
// reads it.
func TestOllamaConvert(t *testing.T) {
	ours := t.TempDir()
	_, err := files.Write(ours, charlm)
	require.NoError(t, err)
	theirs := t.TempDir()
	require.NoError(t, os.CopyFS(theirs, os.DirFS(filepath.Join(charlm, "sharded"))))
	got, want := converted(t, filepath.Join(ours, "set")), converted(t, theirs)
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

// converted has the tensors of what ollama makes of a model's directory.
func converted(t *testing.T, dir string) map[string]string {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(charlm, "sharded/config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokenizer(t), 0o644))
	name := filepath.Join(t.TempDir(), "out.gguf")
	out, err := os.Create(name)
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, convert.ConvertModel(os.DirFS(dir), out))
	f, err := gguf.Open(name, nil)
	require.NoError(t, err)
	defer f.Close()
	all := make(map[string]string)
	for i, in := range f.Tensors() {
		p := make([]byte, in.Size)
		require.NoError(t, tensor.ReadFull(f, i, p, 0))
		all[in.Name] = in.TypeName() + " " + digest(p)
	}
	return all
}

// tokenizer is a tokenizer.json with the vocabulary of the checkpoint: ollama
// asks for one.
func tokenizer(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charlm, "model.json"))
	require.NoError(t, err)
	var model struct{ Vocab []string }
	require.NoError(t, json.Unmarshal(text, &model))
	vocab := make(map[string]int)
	for i, word := range model.Vocab {
		vocab[word] = i
	}
	out, err := json.Marshal(map[string]any{
		"version":       "1.0",
		"added_tokens":  []any{map[string]any{"id": 1, "content": "<s>", "special": true}, map[string]any{"id": 2, "content": "</s>", "special": true}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel"},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	require.NoError(t, err)
	return out
}
