package demi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// TestStoreGivesTheSourceBack goes through a store and back: every tensor, its
// order and the metadata, of safetensors and of GGUF.
func TestStoreGivesTheSourceBack(t *testing.T) {
	for _, file := range []string{"model.safetensors", "model.gguf"} {
		for _, level := range []codec.Level{codec.None, codec.Fast} {
			dir := t.TempDir()
			src, store, back := filepath.Join(charlmDir, file), filepath.Join(dir, "m.demi"), filepath.Join(dir, "back"+filepath.Ext(file))
			records, err := convertFile(t, src, store, demi.Options{Target: demi.Keep, Format: demi.Demi}, &demi.CreateOptions{Level: level})
			require.NoError(t, err)
			c := open(t, store)
			require.Equal(t, demi.Demi, c.Format())
			require.Equal(t, values(t, open(t, src).Source()), values(t, c.Source()))
			require.Equal(t, open(t, src).Source().Tensors(), c.Source().Tensors(), "in the order of the source")
			require.Equal(t, open(t, src).Meta(), c.Meta())

			f, err := format.Open(store, nil)
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, f.Verify(t.Context(), 2))
			stored, err := f.Records()
			require.NoError(t, err)
			require.Equal(t, records, stored)

			from := demi.Safetensors
			if file == "model.gguf" {
				from = demi.GGUF
			}
			_, err = convertFile(t, store, back, demi.Options{Target: demi.Keep, Format: from}, nil)
			require.NoError(t, err, "no other ecosystem")
			require.Equal(t, open(t, src).Meta(), open(t, back).Meta())
			require.Equal(t, values(t, open(t, src).Source()), values(t, open(t, back).Source()))
		}
	}
	dir := t.TempDir()
	store := filepath.Join(dir, "m.demi")
	_, err := convertFile(t, filepath.Join(charlmDir, "model.gguf"), store, demi.Options{Format: demi.Demi}, nil)
	require.NoError(t, err)
	_, err = convertFile(t, store, filepath.Join(dir, "m.safetensors"), demi.Options{Format: demi.Safetensors}, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "gguf to safetensors")
}

// TestStoreIsSmaller converts to BF16 and compresses: about two thirds of that.
func TestStoreIsSmaller(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "m.demi")
	o := toBF16
	o.Format = demi.Demi
	records, err := convertFile(t, filepath.Join(charlmDir, "model.safetensors"), store, o, nil)
	require.NoError(t, err)
	info, err := os.Stat(store)
	require.NoError(t, err)
	c := open(t, store)
	s := c.Sections()
	require.Len(t, s, 1)
	require.Equal(t, info.Size(), s[0].Size)
	require.Equal(t, s[0].Size, s[0].Header+s[0].Tensors+s[0].Extra)
	require.Less(t, info.Size(), int64(1022720*72/100), "of the BF16 bytes, with the index")
	plain, _ := mustConvert(t, open(t, filepath.Join(charlmDir, "model.safetensors")), toBF16)
	require.Equal(t, values(t, parse(t, plain)), values(t, c.Source()))
	require.Len(t, records, c.Len())
}
