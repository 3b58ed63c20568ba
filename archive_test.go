package demi_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// noArchive has the files that a store cannot give back, and what is said of
// them when it is written.
var noArchive = map[string]string{
	"ok-big-endian.gguf":         "byte order",
	"silero_vad_16k.f32.be.gguf": "byte order",
	"big_endian_v3.gguf":         "byte order",
	"ok-padding-not-zero.gguf":   "byte 68 is of no tensor and not zero",
	"d_nonzero_padding.gguf":     "byte 140 is of no tensor and not zero",
	"ok-trailing.gguf":           "byte 96 is of no tensor and not zero",
}

// TestEveryFileComesBack: every valid file goes into a store and comes back
// byte for byte. The few that cannot are said when the store is written, and
// Restore writes nothing.
func TestEveryFileComesBack(t *testing.T) {
	onFastDisk(t)
	back, refused, invalid := 0, 0, 0
	for _, root := range []string{"testdata", "../shared/data"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // not part of the repository
			}
			if f := demi.FormatOf(path); err != nil || e.IsDir() || f != demi.Safetensors && f != demi.GGUF {
				return err
			}
			c, err := demi.Open(alone(t, path), nil)
			if ok := strings.HasPrefix(e.Name(), "ok"); root == "testdata" && (ok || strings.HasPrefix(e.Name(), "bad")) {
				require.Equal(t, ok, err == nil, "%s: %v", path, err)
			}
			if err != nil {
				invalid++ // as the tests of the formats have it
				return nil
			}
			defer c.Close()
			why, cannot := noArchive[e.Name()]
			if cannot {
				refused++
			} else {
				back++
			}
			require.Equal(t, cannot, !archived(t, c, why), path)
			return nil
		}))
	}
	t.Logf("%d come back, %d cannot, %d are invalid", back, refused, invalid)
	require.Greater(t, back, 50)
	require.Positive(t, refused)
}

// alone returns the path of a copy that is no shard of a set.
func alone(t *testing.T, path string) string {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "file"+filepath.Ext(path))
	require.NoError(t, os.WriteFile(copied, raw, 0o666))
	return copied
}

// archived puts the file of c into a store and restores it; ok is false if why
// was said, that this cannot be.
func archived(t *testing.T, c *demi.Checkpoint, why string) (ok bool) {
	src := c.Sections()[0].File
	dir := filepath.Dir(src)
	store, again := filepath.Join(dir, "a.demi"), filepath.Join(dir, "again"+filepath.Ext(src))
	p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: demi.Demi})
	require.NoError(t, err)
	var warnings []string
	sink, err := demi.Create(store, p, c, &demi.CreateOptions{Warn: func(s string) { warnings = append(warnings, s) }})
	require.NoError(t, err, src)
	_, err = demi.Convert(context.Background(), c, sink, p, nil)
	require.NoError(t, err, src)
	_, err = demi.Restore(context.Background(), open(t, store), again, nil)
	if len(warnings) > 0 {
		require.Contains(t, strings.Join(warnings, "\n"), why)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		require.NoFileExists(t, again)
		return false
	}
	require.NoError(t, err, src)
	requireSameFile(t, src, again)
	return true
}
