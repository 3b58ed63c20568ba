// Package interop_test lets readers that other people wrote in Go read what
// the writers of this project write: names, types, shapes and every byte.
package interop_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gpustack "github.com/gpustack/gguf-parser-go"
	nlp "github.com/nlpodyssey/safetensors"
	"github.com/ollama/ollama/fs/ggml"
	ollama "github.com/ollama/ollama/fs/gguf"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/interop/go/files"
)

const charlm = "../../testdata/charlm"

// written writes the files once for a test, and gives those of a format.
func written(t *testing.T, format string) (dir string, list []files.File) {
	t.Helper()
	dir = t.TempDir()
	all, err := files.Write(dir, charlm)
	require.NoError(t, err)
	return dir, slices.DeleteFunc(all, func(f files.File) bool { return f.Format != format })
}

func digest(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// section reads a part of a file, and checks that it starts where the file's
// alignment says.
func section(t *testing.T, file string, off, size, align int64) []byte {
	t.Helper()
	require.Zero(t, off%align, "alignment of %s", file)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	p := make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(f, off, size), p)
	require.NoError(t, err)
	return p
}

// reversed turns the dimensions of GGUF, the fastest first, around.
func reversed(dims []uint64) []int64 {
	shape := make([]int64, 0, len(dims))
	for _, n := range slices.Backward(dims) {
		shape = append(shape, int64(n))
	}
	return shape
}

// requireSame compares what a reader found with what was written.
func requireSame(t *testing.T, f files.File, got map[string]files.Tensor) {
	t.Helper()
	want := make(map[string]files.Tensor)
	for _, in := range f.Tensors {
		want[in.Name] = in
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), f.Path)
	for name, in := range want {
		require.Equal(t, in, got[name], f.Path)
	}
}

// TestNlpodyssey: nlpodyssey/safetensors reads every file but those with the
// types that it does not know.
func TestNlpodyssey(t *testing.T) {
	dir, list := written(t, "safetensors")
	for _, f := range list {
		if strings.HasPrefix(f.Path, "types") {
			_, err := readNlpodyssey(t, dir, f)
			require.Error(t, err, "it knows F8_E4M3 by now: compare the tensors")
			continue
		}
		got, err := readNlpodyssey(t, dir, f)
		require.NoError(t, err, f.Path)
		requireSame(t, f, got)
	}
}

func readNlpodyssey(t *testing.T, dir string, f files.File) (map[string]files.Tensor, error) {
	names := []string{filepath.Join(dir, f.Path)}
	if f.Set {
		var err error
		names, err = filepath.Glob(filepath.Join(dir, f.Path, "*.safetensors"))
		require.NoError(t, err)
	}
	got := make(map[string]files.Tensor)
	for _, name := range names {
		p, err := os.ReadFile(name)
		require.NoError(t, err)
		st, err := nlp.Deserialize(p)
		if err != nil {
			return nil, err
		}
		for _, v := range st.Tensors() {
			shape := make([]int64, 0)
			for _, n := range v.TensorView.Shape() {
				shape = append(shape, int64(n))
			}
			got[v.Name] = files.Tensor{Name: v.Name, DType: v.TensorView.DType().String(), Shape: shape,
				Bytes: int64(v.TensorView.DataLen()), SHA256: digest(v.TensorView.Data())}
		}
	}
	return got, nil
}

// ggufFiles returns the files of f: its shards, if it is a set.
func ggufFiles(t *testing.T, dir string, f files.File) []string {
	name := filepath.Join(dir, f.Path)
	if !f.Set {
		return []string{name}
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(name), "*.gguf"))
	require.NoError(t, err)
	return names
}

// TestOllamaDecode: ollama's fs/ggml, the reader of its server.
func TestOllamaDecode(t *testing.T) {
	dir, list := written(t, "gguf")
	for _, f := range list {
		got := make(map[string]files.Tensor)
		for _, name := range ggufFiles(t, dir, f) {
			decodeOllama(t, name, f.Align, got)
		}
		requireSame(t, f, got)
	}
}

func decodeOllama(t *testing.T, name string, align int64, got map[string]files.Tensor) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	g, err := ggml.Decode(file, -1)
	require.NoError(t, err, name)
	st, err := file.Stat()
	require.NoError(t, err)
	require.True(t, g.Length <= st.Size() && g.Length > st.Size()-align, "it ends at %d, the file at %d: before the last padding or behind it", g.Length, st.Size())
	for _, in := range g.Tensors().Items() {
		p := section(t, name, int64(g.Tensors().Offset+in.Offset), int64(in.Size()), align)
		shape := reversed(in.Shape)
		got[in.Name] = files.Tensor{Name: in.Name, DType: typeName(in.Kind), Shape: shape, Bytes: int64(len(p)), SHA256: digest(p)}
	}
}

// typeName is the name of a ggml type number.
func typeName(id uint32) string {
	names := map[uint32]string{0: "F32", 1: "F16", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16"}
	if name, ok := names[id]; ok {
		return name
	}
	return fmt.Sprint("type ", id)
}

// TestOllamaReader: ollama's fs/gguf, which reads lazily. Version 0.17.4 takes
// every file for one of alignment 32 (it asks for a signed number where the
// format has an unsigned one), so that of others the descriptions alone are
// compared.
func TestOllamaReader(t *testing.T) {
	dir, list := written(t, "gguf")
	for _, f := range list {
		got := make(map[string]files.Tensor)
		for _, name := range ggufFiles(t, dir, f) {
			readOllama(t, name, got)
		}
		if f.Align != 32 {
			f, got = described(f, got)
		}
		requireSame(t, f, got)
	}
}

// described leaves the digests out.
func described(f files.File, got map[string]files.Tensor) (files.File, map[string]files.Tensor) {
	f.Tensors = slices.Clone(f.Tensors)
	for i := range f.Tensors {
		f.Tensors[i].SHA256 = ""
	}
	for name, in := range got {
		in.SHA256 = ""
		got[name] = in
	}
	return f, got
}

func readOllama(t *testing.T, name string, got map[string]files.Tensor) {
	g, err := ollama.Open(name)
	require.NoError(t, err)
	defer g.Close()
	for _, in := range g.TensorInfos() {
		_, r, err := g.TensorReader(in.Name)
		require.NoError(t, err, in.Name)
		p, err := io.ReadAll(r)
		require.NoError(t, err)
		got[in.Name] = files.Tensor{Name: in.Name, DType: typeName(uint32(in.Type)), Shape: reversed(in.Shape), Bytes: int64(len(p)), SHA256: digest(p)}
	}
}

// TestGPUStack: gpustack/gguf-parser-go, which finds the shards of a set by
// itself.
func TestGPUStack(t *testing.T) {
	dir, list := written(t, "gguf")
	for _, f := range list {
		for _, name := range ggufFiles(t, dir, f) {
			g, err := gpustack.ParseGGUFFile(name)
			require.NoError(t, err, name)
			require.Len(t, g.TensorInfos, len(f.Tensors), "all shards were found from %s", name)
		}
		if !f.Set {
			requireSame(t, f, parseGPUStack(t, filepath.Join(dir, f.Path), f.Align))
		}
	}
}

func parseGPUStack(t *testing.T, name string, align int64) map[string]files.Tensor {
	g, err := gpustack.ParseGGUFFile(name)
	require.NoError(t, err)
	got := make(map[string]files.Tensor)
	for _, in := range g.TensorInfos {
		p := section(t, name, g.TensorDataStartOffset+int64(in.Offset), int64(in.Bytes()), align)
		got[in.Name] = files.Tensor{Name: in.Name, DType: typeName(uint32(in.Type)), Shape: reversed(in.Dimensions), Bytes: int64(len(p)), SHA256: digest(p)}
	}
	return got
}
