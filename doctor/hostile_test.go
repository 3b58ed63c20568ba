package doctor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/doctor"
)

// TestHostileFiles: something is found in every file that a reader of this
// project refuses, alone and all at once, and nothing panics.
func TestHostileFiles(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/bad*.safetensors")
	require.NoError(t, err)
	more, err := filepath.Glob("../testdata/gguf/vectors/bad*.gguf")
	require.NoError(t, err)
	refused, err := filepath.Glob("../testdata/safetensors/ref_bad*")
	require.NoError(t, err)
	files = append(append(files, more...), refused...)
	require.Greater(t, len(files), 100)
	all := t.TempDir()
	for _, file := range files {
		r := examine(t, file, &doctor.Options{Scan: true})
		require.NotZero(t, r.Bad(), file)
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(all, filepath.Base(file)), p, 0o666))
	}
	require.GreaterOrEqual(t, examine(t, all, nil).Bad(), len(files))
	_, err = doctor.Fix(context.Background(), all, nil)
	require.NoError(t, err)
	again, err := doctor.Fix(context.Background(), all, nil)
	require.NoError(t, err)
	require.Empty(t, again.Repairs)
}

// TestSoundFiles: what the readers take has no errors.
func TestSoundFiles(t *testing.T) {
	for _, pattern := range []string{"safetensors/ok*", "safetensors/dtype*", "gguf/vectors/ok*", "demi/v1/*.demi", "charlm/model.*f*", "pytorch/*/plain*", "pytorch/*/tied*"} {
		files, err := filepath.Glob("../testdata/" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			for _, f := range examine(t, file, nil).Findings {
				require.NotEqual(t, doctor.Error, f.Severity, "%s: %+v", file, f)
			}
		}
	}
	for _, dir := range []string{"charlm/sharded", "demi/v1/set", "pytorch/torch-2.6/set", "pytorch/torch-1.13/set"} {
		require.Empty(t, shown(examine(t, "../testdata/"+dir, &doctor.Options{Scan: true, Workers: 4})), dir)
	}
}

// TestTruncation: a small file cut at every length is never in order, and what
// is said of it is no panic.
func TestTruncation(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.safetensors": one("a", "F32", f32), "b.gguf": splitGGUF("a", 0, 1, 1), "pytorch_model.bin": sample("tensor.pt")} {
		path := filepath.Join(dir, name)
		for n := 0; n < len(content)-len(f32); n += 1 + n/40 {
			require.NoError(t, os.WriteFile(path, []byte(content[:n]), 0o666))
			require.NotEmpty(t, examine(t, path, nil).Findings, "%s cut to %d bytes", name, n)
		}
	}
}

// TestManyFiles: a directory of thousands of files takes no more open files
// than one of few.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	n := 2000
	if testing.Short() {
		n = 300
	}
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(dir, shard(i+1, n)), []byte(one(fmt.Sprint("t", i), "F32", f32)), 0o666))
	}
	r := examine(t, dir, nil)
	require.Equal(t, []string{"warning/no-index!"}, shown(r))
	require.Equal(t, n, r.Tensors)
	require.NoError(t, os.Remove(filepath.Join(dir, shard(7, n))))
	require.Equal(t, []string{"error/missing-shard"}, shown(examine(t, dir, nil)))
}

// TestHugeFiles: what files say of their sizes takes no memory and no time.
func TestHugeFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{indexName, "config.json", "tokenizer.json", "w.safetensors", "w.bin"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
		require.NoError(t, os.Truncate(filepath.Join(dir, name), 1<<40))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "n.safetensors.index.json"), []byte(`{"weight_map": {`+strings.Repeat(`"a":"x`, 1<<20)), 0o666))
	require.Equal(t, []string{"error/bad-index", "error/empty-file", "error/empty-file", "warning/too-large", "warning/too-large", "warning/two-sets"}, shown(examine(t, dir, nil)))
}

// TestUnreadable: what may not be read is told, and is no end.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		for _, f := range examine(t, "/proc/self/mem", nil).Findings {
			require.NotEmpty(t, f.Code) // root may read all but that
		}
		return
	}
	dir := t.TempDir()
	good().with("x.gguf", "x").write(t, dir)
	require.NoError(t, os.Chmod(filepath.Join(dir, "x.gguf"), 0))
	require.Equal(t, []string{"error/unreadable"}, shown(examine(t, dir, nil)))
}
