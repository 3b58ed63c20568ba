package gguf_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
)

// TestMapped: the bytes in memory are those that a read gives, aligned as the
// header says, but for numbers in the other byte order.
func TestMapped(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		m := makerOf(order, 3, 3, 1).align(64).info("f", 0, 0, 3).info("i", 24, 64, 5).info("none", 24, 128, 0).
			pad(64).u32(1).u32(2).u32(3).pad(64).raw(1, 2, 3, 4, 5).pad(64)
		name := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(name, m.b, 0o666))
		f, err := gguf.Open(name, nil)
		require.NoError(t, err)
		_, _, ok := f.Bytes(1)
		require.False(t, ok, "it is not mapped")
		require.NoError(t, f.Close())

		s, err := gguf.OpenSet(name, &gguf.Options{Map: true})
		require.NoError(t, err)
		for i, in := range s.Tensors() {
			p, release, ok := s.Bytes(i)
			require.Equal(t, order == binary.LittleEndian || in.Name != "f", ok, "%v %s", order, in.Name)
			if ok {
				require.Equal(t, dataOf(t, s, i), p)
				_, off := s.Place(i)
				require.Zero(t, off%64)
				release()
			}
		}
		require.NoError(t, s.Close())
		_, _, ok = s.Bytes(1)
		require.False(t, ok)
	}
}
