package format_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// check opens and verifies bytes, and reads all that there is to read.
func check(p []byte) error {
	f, err := open(p)
	if err != nil {
		return err
	}
	if err := f.Verify(context.Background(), 1); err != nil {
		return err
	}
	for i, in := range f.Tensors() {
		n, err := io.Copy(io.Discard, io.NewSectionReader(f.Data(i), 0, math.MaxInt64))
		if err != nil {
			return err
		}
		if n != in.Size {
			return fmt.Errorf("%s: %d bytes of %d", in.Name, n, in.Size)
		}
	}
	return format.Dump(io.Discard, bytes.NewReader(p), int64(len(p)))
}

// requireClass checks that an error is of those that are documented.
func requireClass(t testing.TB, p []byte, err error) {
	t.Helper()
	var place *tensor.FileError
	require.True(t, errors.As(err, &place), "%v", err)
	require.True(t, errors.Is(err, tensor.ErrFormat) || errors.Is(err, tensor.ErrTruncated) ||
		errors.Is(err, tensor.ErrUnsupported) || errors.Is(err, tensor.ErrLimit), "%v", err)
	require.LessOrEqual(t, place.Offset, int64(len(p)))
}

// TestTruncation: a kept file that lacks bytes at its end is never read, and
// said to be truncated; nor is one with bytes more.
func TestTruncation(t *testing.T) {
	for name, p := range keptBytes(t) {
		for n := range p {
			_, err := open(p[:n])
			requireClass(t, p, err)
			if n > 0 {
				require.ErrorIs(t, err, tensor.ErrTruncated, "%s cut to %d bytes", name, n)
			}
		}
		_, err := open(append(slices.Clone(p), 0))
		requireClass(t, p, err)
	}
}

// TestCorruption: no byte of a kept file can be changed without an error, but
// for data that only a section speaks of that is not known.
func TestCorruption(t *testing.T) {
	for name, p := range keptBytes(t) {
		from, to := 0, 0
		if name == "extension.demi" {
			f, err := readMini(p)
			require.NoError(t, err)
			from, to = 64+3, int(f.index)
		}
		for i := 0; i < len(p); i += step() {
			old := p[i]
			for _, v := range []byte{old ^ 1, old ^ 0x80, ^old} {
				p[i] = v
				err := check(p)
				if i >= from && i < to {
					require.NoError(t, err, "%s, byte %d", name, i)
					continue
				}
				require.Error(t, err, "%s: byte %d from %#x to %#x", name, i, old, v)
				requireClass(t, p, err)
			}
			p[i] = old
		}
	}
}

// TestIndexCorruption: no byte of the index of a kept set can be changed, or be
// the last, without an error, but for what does not matter to what is read.
func TestIndexCorruption(t *testing.T) {
	for _, dir := range []string{"set", "linked"} {
		files := fstest.MapFS{}
		for name := range keptSums(t) {
			if strings.HasPrefix(name, dir+"/") {
				p, err := os.ReadFile(filepath.Join(keptDir, name))
				require.NoError(t, err)
				files[name] = &fstest.MapFile{Data: p}
			}
		}
		index := files[dir+"/model.demi.index.json"]
		text := index.Data
		open := func(p []byte) {
			index.Data = p
			s, err := format.OpenSet(dir, &format.Options{FS: files})
			if err != nil {
				var place *tensor.FileError
				require.True(t, errors.As(err, &place) || errors.Is(err, fs.ErrNotExist), "%v", err)
				return
			}
			keptSet().requireHolds(t, s)
			require.NoError(t, s.Verify(t.Context(), 1))
			require.NoError(t, s.Close())
		}
		for i := range text {
			for _, flip := range []byte{1, 0x80, 0xff, 0x20} {
				p := slices.Clone(text)
				p[i] ^= flip
				open(p)
			}
			open(text[:i])
		}
	}
}

// step is that of sweeps over all bytes: 1, or a prime, which is no width of a
// field.
func step() int {
	if testing.Short() {
		return 31
	}
	return 1
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestForgedIndex changes bytes of the index and seals it again, so that the
// parser gets to see them: it must not panic, nor allocate more than a small
// multiple of the file and what decoding takes.
func TestForgedIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	values := []uint64{0, 1, 1 << 16, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 40, 1<<62 - 1, 1<<63 - 1, 1 << 63, math.MaxUint64}
	for name, p := range keptBytes(t) {
		f, err := readMini(p)
		require.NoError(t, err)
		index := p[f.index : len(p)-64]
		forge := func(forged []byte) {
			q := seal(p[:f.index], forged)
			// a decoder and a tile for Verify and for reading, and Zstandard's memory
			limit := 8<<20 + 8*uint64(len(q))
			var err error
			if n := allocated(func() { err = check(q) }); n > limit && name != "blocks.demi" {
				t.Fatalf("%s: %d bytes allocated for a file of %d", name, n, len(q))
			}
			if err != nil {
				requireClass(t, q, err)
			}
			var opened error
			if n := allocated(func() { _, opened = open(q) }); opened != nil && n > 3*uint64(len(q))+1<<20 {
				t.Fatalf("%s: %d bytes allocated for a file of %d that is refused: %v", name, n, len(q), opened)
			}
		}
		for i := 0; i < len(index); i += step() {
			b := slices.Clone(index)
			for _, v := range values {
				switch rng.IntN(3) {
				case 0:
					b[i] = byte(v >> rng.IntN(56))
				case 1:
					if i+4 <= len(b) {
						binary.LittleEndian.PutUint32(b[i:], uint32(v))
					}
				default:
					if i+8 <= len(b) {
						binary.LittleEndian.PutUint64(b[i:], v)
					}
				}
				if rng.IntN(len(index)) < 100 {
					forge(b)
				}
				copy(b, index)
			}
			if rng.IntN(len(index)) < 100 {
				forge(index[:i])
				forge(append(slices.Clone(index[:i]), index[min(i+1, len(index)):]...))
			}
		}
	}
}

// forge returns a file of one small tensor whose index change has changed.
func forge(t testing.TB, change func(f *miniFile) []byte) []byte {
	m := &model{meta: tensor.Metadata{{Key: "k", Value: "v"}}}
	m.add("a", tensor.U8, noise(3, 1), 3)
	p := m.bytes(t, nil)
	f, err := readMini(p)
	require.NoError(t, err)
	return seal(p[:f.index], change(f))
}

// TestRefusals: what must be refused, and what the error says.
func TestRefusals(t *testing.T) {
	le := binary.LittleEndian
	section := func(f *miniFile, name string) *miniSection {
		return &f.sections[slices.IndexFunc(f.sections, func(s miniSection) bool { return s.name == name })]
	}
	cases := []struct {
		want   string
		class  error
		change func(f *miniFile) []byte
	}{
		{`needs the feature "residual"`, tensor.ErrUnsupported, func(f *miniFile) []byte { return f.appendIndex("residual") }},
		{`needs the section "scale"`, tensor.ErrUnsupported, func(f *miniFile) []byte {
			f.sections = append(f.sections, miniSection{name: "scale", flags: 1})
			return f.appendIndex()
		}},
		{`section "metadata" comes twice`, tensor.ErrFormat, func(f *miniFile) []byte {
			f.sections = append(f.sections, *section(f, "metadata"))
			return f.appendIndex()
		}},
		{`section "blocks" is missing`, tensor.ErrFormat, func(f *miniFile) []byte {
			f.sections = slices.DeleteFunc(f.sections, func(s miniSection) bool { return s.name == "blocks" })
			return f.appendIndex()
		}},
		{"unknown flags", tensor.ErrFormat, func(f *miniFile) []byte {
			section(f, "metadata").flags = 4
			return f.appendIndex()
		}},
		{"alignment is 96", tensor.ErrFormat, func(f *miniFile) []byte {
			f.align = 96
			return f.appendIndex()
		}},
		{"8 for each block", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "blocks")
			s.stored, s.length = append(s.stored, s.stored...), 16
			return f.appendIndex()
		}},
		{"block 0 has 4 bytes", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "blocks")
			s.stored = append([]byte{4}, s.stored[1:]...)
			return f.appendIndex()
		}},
		{"more than the file", tensor.ErrFormat, func(f *miniFile) []byte {
			section(f, "metadata").flags = 2
			section(f, "metadata").length = 1 << 40
			return f.appendIndex()
		}},
		{"bytes after the frame", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "metadata")
			s.flags, s.stored = 2, append(zstdFrame(s.stored), "\x50\x2a\x4d\x18\x00\x00\x00\x00"...)
			return f.appendIndex()
		}},
		{"bytes of content, want", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "metadata")
			s.flags, s.stored = 2, append(zstdFrame(s.stored[:4]), zstdFrame(s.stored[4:])...)
			return f.appendIndex()
		}},
		{"which does not fit 63 bits", tensor.ErrFormat, func(f *miniFile) []byte {
			section(f, "metadata").length = 1 << 63
			return f.appendIndex()
		}},
		{"number of tensors is 4294967295", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "tensors")
			s.stored = append(le.AppendUint32(nil, math.MaxUint32), s.stored[4:]...)
			return f.appendIndex()
		}},
		{"elements of type 99", tensor.ErrUnsupported, func(f *miniFile) []byte {
			s := section(f, "tensors")
			s.stored = bytes.Clone(s.stored)
			s.stored[4+4+1] = 99
			return f.appendIndex()
		}},
		{"offset is 128, want 64", tensor.ErrFormat, func(f *miniFile) []byte {
			s := section(f, "tensors")
			s.stored = bytes.Clone(s.stored)
			s.stored[4+4+1+1+1+2+8+8] = 128
			return f.appendIndex()
		}},
		{"bytes after the last field", tensor.ErrFormat, func(f *miniFile) []byte { return append(f.appendIndex(), 0) }},
	}
	for _, c := range cases {
		_, err := open(forge(t, c.change))
		require.ErrorContains(t, err, c.want)
		require.ErrorIs(t, err, c.class, c.want)
	}
}

// zstdFrame returns p as a frame.
func zstdFrame(p []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return w.EncodeAll(p, nil)
}

// TestForgedCounts: sections whose counts ask for as many things as their bytes
// could hold, which are zeros but for that, or hold little else. Beside the index
// itself, which is as large as it says, nothing that matters is allocated.
func TestForgedCounts(t *testing.T) {
	const size = 32 << 20
	le := binary.LittleEndian
	fill := func(name string, each uint32) []byte {
		return forge(t, func(f *miniFile) []byte {
			p := make([]byte, size)
			le.PutUint32(p, size/each-1)
			at := slices.IndexFunc(f.sections, func(s miniSection) bool { return s.name == name })
			if at < 0 {
				at, f.sections = len(f.sections), append(f.sections, miniSection{name: name})
			}
			f.sections[at].stored, f.sections[at].length = p, size
			return f.appendIndex()
		})
	}
	for name, each := range map[string]uint32{"metadata": 9, "tensors": 24, "sources": 88, "records": 1, "blocks": 8} {
		p := fill(name, each)
		var f *format.File
		var err error
		n := allocated(func() {
			if f, err = open(p); err == nil {
				_, err = f.Sources()
			}
			if err == nil {
				_, err = f.Records()
			}
		})
		require.Error(t, err, name)
		require.LessOrEqual(t, n, uint64(len(p))+1<<20, name)
	}
}

// TestManyKeys: metadata of as many keys as its bytes can hold costs a small
// multiple of them.
func TestManyKeys(t *testing.T) {
	const keys = 1 << 19
	le := binary.LittleEndian
	p := forge(t, func(f *miniFile) []byte {
		b := le.AppendUint32(nil, keys)
		for i := range uint32(keys) {
			b = append(le.AppendUint32(b, 3), byte(i), byte(i>>8), byte(i>>16))
			b = append(le.AppendUint32(b, 0), 1)
		}
		s := &f.sections[slices.IndexFunc(f.sections, func(s miniSection) bool { return s.name == "metadata" })]
		s.stored, s.length = b, uint64(len(b))
		return f.appendIndex()
	})
	n := allocated(func() { require.Len(t, mustOpen(t, p).Meta(), keys) })
	require.Less(t, n, 32*uint64(len(p)), "with all that growing lists have left behind")
}

// TestUnknownCodec: a codec that is not known is refused when it is read.
func TestUnknownCodec(t *testing.T) {
	p := forge(t, func(f *miniFile) []byte {
		for i := range f.sections {
			if f.sections[i].name == "blocks" {
				b := bytes.Clone(f.sections[i].stored)
				b[3] = 77
				f.sections[i].stored = b
			}
		}
		return f.appendIndex()
	})
	f := mustOpen(t, p)
	_, err := f.At(0).ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "codec 77")
	require.Error(t, f.Verify(context.Background(), 1))
}

func TestOtherVersion(t *testing.T) {
	p := keptBytes(t)["scalar.demi"]
	p[10] = 2
	binary.LittleEndian.PutUint32(p[60:], crc32c(p[:60]))
	_, err := open(p)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "version 2")
}

// TestNotDemi: what the file is instead.
func TestNotDemi(t *testing.T) {
	p := keptBytes(t)["scalar.demi"]
	text := bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n"))
	seven := slices.Clone(p)
	seven[0] &= 0x7f
	for want, p := range map[string][]byte{
		"GGUF":                                 p2("GGUF\x03\x00\x00\x00"),
		"Git LFS":                              p2("version https://git-lfs.github.com/spec/v1\n"),
		"file is empty":                        {},
		"signature is damaged, \"\\x89Demi\\n": text,
		"signature is damaged, \"\\tDemi":      seven,
		"header has CRC-32C":                   append([]byte(p[:10:10]), p[9:]...),
	} {
		_, err := open(p)
		require.ErrorContains(t, err, want)
	}
}

// TestShort: files shorter than header and footer, of bytes that may begin as
// ours do.
func TestShort(t *testing.T) {
	p := keptBytes(t)["scalar.demi"]
	for n := range 140 {
		for i := range min(n, 12) {
			for _, flip := range []byte{0x80, 1, 0xff} {
				q := slices.Clone(p[:n])
				q[i] ^= flip
				_, err := open(q)
				requireClass(t, q, err)
			}
		}
	}
}

func p2(s string) []byte { return append([]byte(s), make([]byte, 200)...) }

// TestSizeIsWrong: the size that the caller gives is not believed.
func TestSizeIsWrong(t *testing.T) {
	p := keptBytes(t)["raw.demi"]
	for _, size := range []int64{-1, 0, 1, 200, int64(len(p)) + 1, math.MaxInt64} {
		n := allocated(func() {
			_, err := format.NewFile(bytes.NewReader(p), size, nil)
			require.Error(t, err)
		})
		require.Less(t, n, uint64(1<<20))
	}
}

func TestMaxIndex(t *testing.T) {
	for name, limit := range map[string]int64{"types.demi": 1000, "compressed.demi": 600} {
		p := keptBytes(t)[name]
		_, err := format.NewFile(bytes.NewReader(p), int64(len(p)), &format.Options{MaxIndex: limit, Name: "x"})
		require.ErrorIs(t, err, tensor.ErrLimit)
		require.ErrorContains(t, err, "x: ")
	}
}

// TestVerifyNamesAll: every damaged tensor is named, and only these.
func TestVerifyNamesAll(t *testing.T) {
	m := allTypes(4096)
	p := m.bytes(t, nil)
	f := mustOpen(t, p)
	for i := range m.infos {
		if i%5 == 1 && m.infos[i].Size > 0 {
			_, off := f.Place(i)
			p[off] ^= 4
		}
	}
	err := f.Verify(context.Background(), 3)
	require.ErrorIs(t, err, format.ErrChecksum)
	named := map[string]bool{}
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		var place *tensor.FileError
		require.True(t, errors.As(err, &place))
		named[place.Tensor] = true
	}
	for i, in := range m.infos {
		require.Equal(t, i%5 == 1 && in.Size > 0, named[in.Name], in.Name)
	}
}

// FuzzFile opens anything, and bytes of the index sealed again.
func FuzzFile(f *testing.F) {
	for name := range keptSums(f) {
		if filepath.Ext(name) == ".demi" {
			p, err := os.ReadFile(filepath.Join(keptDir, name))
			require.NoError(f, err)
			f.Add(p, false)
			f.Add(p, true)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, reseal bool) {
		if reseal && len(p) >= 128 {
			n := binary.LittleEndian.Uint64(p[len(p)-64:])
			if n > uint64(len(p)-64) {
				return
			}
			p = seal(p[:n&^63], p[n&^63:len(p)-64])
		}
		if err := check(p); err != nil {
			requireClass(t, p, err)
		}
	})
}

// FuzzIndex opens files whose index has a right digest, before which there are
// units times 64 bytes of tensors.
func FuzzIndex(f *testing.F) {
	for name := range keptSums(f) {
		if filepath.Ext(name) == ".demi" {
			p, err := os.ReadFile(filepath.Join(keptDir, name))
			require.NoError(f, err)
			at := binary.LittleEndian.Uint64(p[len(p)-64:])
			f.Add(p[at:len(p)-64], byte(at/64-1))
		}
	}
	header := keptBytes(f)["empty.demi"][:64:64]
	f.Fuzz(func(t *testing.T, index []byte, units byte) {
		p := seal(append(header, make([]byte, 64*int(units))...), index)
		file, err := open(p)
		if err == nil {
			_, err = file.Records()
		}
		if err == nil {
			_, err = file.Sources()
		}
		if err != nil {
			requireClass(t, p, err)
		}
		if err := check(p); err != nil {
			requireClass(t, p, err)
		}
	})
}
