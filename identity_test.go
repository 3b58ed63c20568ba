package demi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

func identify(t *testing.T, path string) []demi.FileIdentity {
	t.Helper()
	files, err := open(t, path).Identity()
	require.NoError(t, err)
	return files
}

// copyFile returns the name of a copy in a directory.
func copyFile(t *testing.T, dir, src string) string {
	t.Helper()
	data, err := os.ReadFile(src)
	require.NoError(t, err)
	dst := filepath.Join(dir, filepath.Base(src))
	require.NoError(t, os.WriteFile(dst, data, 0o666))
	return dst
}

func TestIdentityIsThatOfTheHeader(t *testing.T) {
	path := filepath.Join(charlmDir, "model.safetensors")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	head := data[:8+binary.LittleEndian.Uint64(data)]
	require.Equal(t, []demi.FileIdentity{{
		Name: "model.safetensors", Size: int64(len(data)), Header: fmt.Sprintf("sha256:%x", sha256.Sum256(head)), ModTime: info.ModTime().UnixNano(),
	}}, identify(t, path))

	gguf := filepath.Join(charlmDir, "model.gguf")
	data, err = os.ReadFile(gguf)
	require.NoError(t, err)
	start := open(t, gguf).Sections()[0].Header
	require.Equal(t, fmt.Sprintf("sha256:%x", sha256.Sum256(data[:start])), identify(t, gguf)[0].Header)

	store := filepath.Join(t.TempDir(), "m.demi")
	_, err = convertFile(t, path, store, demi.Options{Format: demi.Demi}, nil)
	require.NoError(t, err)
	f, err := format.Open(store, nil)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, "blake3:"+f.Digest().String(), identify(t, store)[0].Header)
}

func TestIdentityOfSets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	_, err := convertFile(t, filepath.Join(charlmDir, "model.safetensors"), dir, demi.Options{}, &demi.CreateOptions{MaxShard: 500_000})
	require.NoError(t, err)
	files := identify(t, dir)
	require.Greater(t, len(files), 2)
	for i, f := range files {
		require.Equal(t, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(files)), f.Name)
		require.Len(t, f.Header, len("sha256:")+64)
	}
	require.Equal(t, files, identify(t, filepath.Join(dir, files[1].Name)), "whichever way it is opened")
}

func TestIdentityWithoutFiles(t *testing.T) {
	files, err := new(mem).f32("w", 1).checkpoint().Identity()
	require.NoError(t, err)
	require.Empty(t, files)
	c, err := demi.OpenFS(os.DirFS(charlmDir), "model.safetensors", nil)
	require.NoError(t, err)
	defer c.Close()
	files, err = c.Identity()
	require.NoError(t, err)
	require.Empty(t, files)
}

// A copy has the same identity but for its time, values that change in place
// are not seen, and a header is.
func TestIdentityChanges(t *testing.T) {
	path := copyFile(t, t.TempDir(), filepath.Join(charlmDir, "model.safetensors"))
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	first := identify(t, path)[0]
	require.Equal(t, later.UnixNano(), first.ModTime)
	data, err := os.ReadFile(path)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte("lm_head"), []byte("LM_head"), 1), 0o666))
	require.NotEqual(t, first.Header, identify(t, path)[0].Header)

	c := open(t, path)
	require.NoError(t, os.Truncate(path, int64(len(data))+1))
	_, err = c.Identity()
	require.ErrorIs(t, err, tensor.ErrChanged)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.Remove(path))
	_, err = c.Identity()
	require.ErrorIs(t, err, os.ErrNotExist)
}
