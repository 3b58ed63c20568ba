//go:build unix

package regular

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/demi-weights/demi/tensor"
)

// A pipe without a writer is refused at once.
func TestOpenPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	_, _, err := Open(name)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}
