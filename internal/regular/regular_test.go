package regular

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(name, []byte("abc"), 0o600))
	f, size, err := Open(name)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, int64(3), size)
	for _, other := range []string{dir, os.DevNull} {
		_, _, err = Open(other)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		require.ErrorContains(t, err, other+": not supported: not a regular file")
	}
	_, _, err = Open(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
