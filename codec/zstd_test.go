package codec

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReferenceFrames: tiles that the reference implementation has made are
// taken, if they are one frame that says its size.
func TestReferenceFrames(t *testing.T) {
	var squares []byte
	for i := range uint64(300) {
		squares = binary.LittleEndian.AppendUint64(squares, i*i)
	}
	d := NewDecoder()
	for name, ok := range map[string]bool{"plain": true, "checksum": true, "unsized": false, "two": false, "skippable": false, "trailing": false} {
		p, err := os.ReadFile(filepath.Join("../testdata/zstd", name+".zst"))
		require.NoError(t, err)
		got := make([]byte, len(squares))
		err = d.Decode(got, p, Bytes, Zstd)
		if !ok {
			require.ErrorIs(t, err, ErrCorrupt, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, squares, got)
		p[len(p)-1] ^= 1
		if name == "checksum" {
			require.ErrorIs(t, d.Decode(got, p, Bytes, Zstd), ErrCorrupt, "of the content")
		}
	}
}
