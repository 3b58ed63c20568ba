package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// golden are small files that the sweeps below damage.
func golden() map[string][]byte {
	files := make(map[string][]byte)
	for _, v := range goodVectors() {
		switch v.name {
		case "ok-v2", "ok-big-endian", "ok-kinds", "ok-align-1", "ok-align-64", "ok-4d", "ok-types":
			files[v.name] = v.file.b
		}
	}
	return files
}

// requireSound opens bytes and, if that works, reads everything. It returns the
// error, which must be of a class.
func requireSound(t testing.TB, p []byte, o *gguf.Options) error {
	t.Helper()
	f, err := open(p, o)
	if err != nil {
		var place *tensor.FileError
		require.True(t, errors.As(err, &place), "%v", err)
		require.True(t, errors.Is(err, tensor.ErrFormat) || errors.Is(err, tensor.ErrTruncated) ||
			errors.Is(err, tensor.ErrUnsupported) || errors.Is(err, tensor.ErrLimit), "%v", err)
		require.LessOrEqual(t, place.Offset, int64(len(p)))
		return err
	}
	end := f.Header().Size
	for i, in := range f.Tensors() {
		_, at := f.Place(i)
		require.True(t, at >= end && in.Size >= 0, "tensors lie behind each other")
		require.True(t, in.Size == 0 || at+in.Size <= int64(len(p)), "tensors lie in the file")
		if in.Size > 0 {
			end = at + in.Size
		}
		n, err := io.Copy(io.Discard, io.NewSectionReader(f.Data(i), 0, in.Size+1))
		require.NoError(t, err)
		require.Equal(t, in.Size, n)
	}
	return nil
}

// TestTruncation cuts small files at every length. Only the last padding may
// be missing.
func TestTruncation(t *testing.T) {
	for name, p := range golden() {
		whole, err := open(p, nil)
		require.NoError(t, err)
		end := whole.Header().Size
		for i, in := range whole.Tensors() {
			_, at := whole.Place(i)
			end = max(end, at+in.Size)
		}
		for n := range p {
			err := requireSound(t, p[:n], nil)
			if int64(n) < end {
				require.ErrorIs(t, err, tensor.ErrTruncated, "%s cut to %d bytes", name, n)
			} else {
				require.NoError(t, err, "%s cut to %d bytes", name, n)
			}
		}
	}
}

// TestCorruption changes every byte of small files in several ways,
// under -short one in 31 of them.
func TestCorruption(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 31 // prime: no width of a field
	}
	for _, p := range golden() {
		for i := 0; i < len(p); i += step {
			old := p[i]
			for _, v := range []byte{0, 1, 0x7F, 0x80, 0xFF, old ^ 1, old ^ 0x20, old + 1} {
				p[i] = v
				requireSound(t, p, nil)
				requireSound(t, p, &gguf.Options{Lenient: true})
			}
			p[i] = old
		}
	}
}

// FuzzNewFile reads anything; what can be read can be written, and comes back
// the same.
func FuzzNewFile(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.file.b, v.lenient)
	}
	f.Fuzz(func(t *testing.T, p []byte, lenient bool) {
		o := &gguf.Options{Lenient: lenient}
		if requireSound(t, p, o) != nil {
			return
		}
		src, err := open(p, o)
		require.NoError(t, err)
		m := &model{meta: src.Meta()}
		for i, in := range src.Tensors() {
			if in.DType == tensor.Opaque && in.Foreign.BlockElems == 0 {
				return // the size of the last one grows by its padding
			}
			m.add(in, dataOf(t, src, i))
		}
		var out bytes.Buffer
		if err := m.write(gguf.NewWriter(&out, nil), 1<<20); errors.Is(err, tensor.ErrUnsupported) {
			return // names with a NUL
		} else {
			require.NoError(t, err)
		}
		back, err := open(out.Bytes(), o)
		require.NoError(t, err)
		require.Equal(t, src.Tensors(), back.Tensors())
		again := &model{meta: back.Meta()}
		for i, in := range back.Tensors() {
			again.add(in, dataOf(t, back, i))
		}
		require.Equal(t, m.data, again.data)
		var second bytes.Buffer
		require.NoError(t, again.write(gguf.NewWriter(&second, nil), 100))
		require.True(t, bytes.Equal(out.Bytes(), second.Bytes()))
		text, err := gguf.MetadataToStrings(src.Meta())
		require.NoError(t, err)
		typed, err := gguf.StringsToMetadata(text)
		require.NoError(t, err)
		require.Equal(t, normal(src.Meta()), normal(typed))
	})
}

// TestReadErrors lets the file fail at every byte of the header.
func TestReadErrors(t *testing.T) {
	p := golden()["ok-kinds"]
	for n := range len(p) - 32 {
		_, err := gguf.NewFile(liar{p[:n]}, int64(len(p)), nil)
		require.ErrorContains(t, err, "no such bytes")
	}
	// a file that became shorter
	_, err := gguf.NewFile(bytes.NewReader(p[:100]), int64(len(p)), nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
}

func TestMaxHeader(t *testing.T) {
	p := golden()["ok-kinds"]
	f, err := open(p, nil)
	require.NoError(t, err)
	size := f.Header().Size
	_, err = open(p, &gguf.Options{MaxHeader: size})
	require.NoError(t, err)
	_, err = open(p, &gguf.Options{MaxHeader: size - 1})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, "header is longer than")
}

// TestBigEndianEqual compares a big-endian file with its little-endian twin in
// all ways of reading.
func TestBigEndianEqual(t *testing.T) {
	types := []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64, tensor.I8, tensor.I16, tensor.I32, tensor.I64}
	build := func(order binary.AppendByteOrder) *gguf.File {
		m := allKinds(makerOf(order, 3, uint64(len(types)), 14)).array("numbers", tensor.KindI64, 2).u64(5).u64(1 << 60)
		offset := uint64(0)
		for _, d := range types {
			id, ok := gguf.TypeByName(d.String())
			require.True(t, ok)
			m.info(d.String(), id.ID, offset, 5, 3)
			offset = (offset + uint64(15*d.Bits()/8) + 31) &^ 31
		}
		m.pad(32)
		for _, d := range types {
			for i := range 15 {
				m.number(d.Bits(), 0x0102030405060708*uint64(i+1))
			}
			m.pad(32)
		}
		f, err := open(m.b, nil)
		require.NoError(t, err)
		return f
	}
	little, big := build(binary.LittleEndian), build(binary.BigEndian)
	require.True(t, big.Header().BigEndian)
	// the maker writes u16 and i16 values as bytes
	require.Equal(t, normal(little.Meta())[4:], normal(big.Meta())[4:])
	require.Equal(t, little.Tensors(), big.Tensors())
	for i, in := range little.Tensors() {
		want := dataOf(t, little, i)
		require.Equal(t, want, dataOf(t, big, i))
		for off := range want {
			for n := range len(want) - off {
				got := make([]byte, n)
				k, err := big.Data(i).ReadAt(got, int64(off))
				require.NoError(t, err)
				require.Equal(t, want[off:off+k], got, "%s: %d bytes at %d", in.Name, n, off)
			}
			got := make([]byte, len(want))
			k, err := big.Data(i).ReadAt(got, int64(off)) // one read beyond the end
			if off > 0 {
				require.ErrorIs(t, err, io.EOF)
			}
			require.Equal(t, want[off:], got[:k])
		}
	}
}

// number adds the low bits of v in the order of the file.
func (m *maker) number(bits int, v uint64) *maker {
	switch bits {
	case 8:
		return m.raw(byte(v))
	case 16:
		m.b = m.order.AppendUint16(m.b, uint16(v))
		return m
	case 32:
		return m.u32(uint32(v))
	}
	return m.u64(v)
}

func TestOpenRefuses(t *testing.T) {
	_, err := gguf.Open(t.TempDir(), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "not a regular file")
	_, err = gguf.Open("absent.gguf", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestNotGGUF checks that an error says what the file is instead.
func TestNotGGUF(t *testing.T) {
	for head, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n": "Git LFS pointer",
		"lmgg\x01\x00\x00\x00":                                      "legacy GGML",
		"ggjt\x03\x00\x00\x00":                                      "legacy GGML",
		"ggla\x01\x00\x00\x00":                                      "legacy GGML adapter",
		"PK\x03\x04\x00\x00\x00\x00\x00\x00archive/data.pkl":        "PyTorch",
		"\x1f\x8b\x08\x00":                                          "gzip",
		"<!DOCTYPE html><html>":                                     "HTML",
		"\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F32\"": "safetensors",
		"\x01\x02\x03\x04\x05\x06\x07\x08":                          `begins with "\x01\x02\x03\x04"`,
	} {
		_, err := open([]byte(head), nil)
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.ErrorContains(t, err, want)
	}
}

// TestLenientSizes checks the sizes of unknown types between known ones.
func TestLenientSizes(t *testing.T) {
	m := newMaker(4, 0).info("a", 0, 0, 1).info("b", 99, 32, 5).info("c", 98, 96, 5).info("d", 97, 128, 5)
	m.pad(32).floats(1).pad(32).zeros(64).zeros(32).raw([]byte("to the end")...)
	f, err := open(m.b, &gguf.Options{Lenient: true})
	require.NoError(t, err)
	for i, want := range []int64{4, 64, 32, 10} {
		require.Equal(t, want, f.Tensors()[i].Size)
	}
	require.Equal(t, "to the end", string(dataOf(t, f, 3)))
	require.Equal(t, tensor.Foreign{Name: "ggml_type_97", ID: 97}, f.Tensors()[3].Foreign)
	require.Len(t, f.Warnings(), 3)
}
