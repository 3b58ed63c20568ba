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

// TestStoreKnowsItsContainer: a store goes back to what it was made from whatever
// its metadata look like: a GGUF file with strings alone, and safetensors with
// a key of GGUF. So does the copy of a store.
func TestStoreKnowsItsContainer(t *testing.T) {
	for ext, meta := range map[string]tensor.Metadata{
		"gguf":        {{Key: "general.name", Value: "x"}},
		"safetensors": {{Key: "general.architecture", Value: "llama"}, {Key: "format", Value: "pt"}},
	} {
		dir := t.TempDir()
		src, a, b, back := filepath.Join(dir, "m."+ext), filepath.Join(dir, "a.demi"), filepath.Join(dir, "b.demi"), filepath.Join(dir, "back."+ext)
		m := new(mem).f32("w", weights(64, 1)...)
		m.meta = meta
		f := demi.FormatOf(src)
		_, err := convertAs(t, demi.FromSource(m, f), src, demi.Options{Target: demi.Keep, Format: f}, nil)
		require.NoError(t, err)
		for _, step := range [][2]string{{src, a}, {a, b}, {b, back}} {
			_, err := convertFile(t, step[0], step[1], demi.Options{Target: demi.Keep, Format: demi.FormatOf(step[1])}, nil)
			require.NoError(t, err, step)
		}
		want, err := os.ReadFile(src)
		require.NoError(t, err)
		got, err := os.ReadFile(back)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
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

// TestDamageIsFound changes every seventh byte of a store: conversion and
// comparison fail, or nothing has changed.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	path, bad := filepath.Join(dir, "m.demi"), filepath.Join(dir, "bad.demi")
	p, err := demi.NewPlan(new(mem).f32("w", weights(3000, 1)...).checkpoint(), demi.Options{Format: demi.Demi, Target: demi.To(tensor.BF16)})
	require.NoError(t, err)
	c := new(mem).f32("w", weights(3000, 1)...).checkpoint()
	sink, err := demi.Create(path, p, c, nil)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), c, sink, p, nil)
	require.NoError(t, err)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	want := values(t, open(t, path).Source())
	found := 0
	var place *tensor.FileError
	for i := 0; i < len(good); i += 7 {
		changed := append([]byte(nil), good...)
		changed[i] ^= 1 << (i % 8)
		require.NoError(t, os.WriteFile(bad, changed, 0o666))
		c, err := demi.Open(bad, nil)
		if err != nil {
			require.ErrorAs(t, err, &place)
			found++
			continue
		}
		out, _, err := convert(t, c, demi.Options{Target: demi.Keep, Format: demi.Safetensors}, nil)
		if err != nil {
			require.ErrorAs(t, err, &place)
			found++
		} else {
			require.Equal(t, want, values(t, parse(t, out)), "byte %d", i)
		}
		require.NoError(t, c.Close())
	}
	require.Greater(t, found, len(good)/7*9/10, "only padding does not matter")
}
