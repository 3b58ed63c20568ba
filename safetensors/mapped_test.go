package safetensors_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
)

// TestMapped: the bytes in memory are those of the file, aligned or not.
func TestMapped(t *testing.T) {
	header := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0],"data_offsets":[8,8]},"c":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}}`
	require.NotZero(t, len(header)%4, "the first tensor is not aligned")
	name := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, os.WriteFile(name, made(header, 11), 0o666))
	for _, mapped := range []bool{false, true} {
		s, err := safetensors.OpenSet(name, &safetensors.Options{Map: mapped})
		require.NoError(t, err)
		for i, want := range [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}, {}, {9, 10, 11}} {
			p, release, ok := s.Bytes(i)
			require.Equal(t, mapped, ok)
			if ok {
				require.Equal(t, want, p)
				require.Equal(t, len(want), cap(p))
				defer release() // after Close
			}
		}
		require.NoError(t, s.Close())
		_, _, ok := s.Bytes(0)
		require.False(t, ok)
	}
	s, err := safetensors.OpenSet("m.safetensors", &safetensors.Options{Map: true, FS: fstest.MapFS{"m.safetensors": {Data: made(header, 11)}}})
	require.NoError(t, err)
	defer s.Close()
	_, _, ok := s.Bytes(0)
	require.False(t, ok, "what is not the operating system's is read")
}
