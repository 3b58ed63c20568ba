package pytorch_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

const floats3 = "abcdefghijkl"

// requireSound opens bytes and, if that works, reads everything. It returns the
// error, which must be of a class and in place.
func requireSound(t testing.TB, p []byte, o *pytorch.Options) error {
	t.Helper()
	f, err := open(p, o)
	if err != nil {
		var place *tensor.FileError
		require.True(t, errors.As(err, &place), "%v", err)
		require.NotEqual(t, "no class", class(err), "%v", err)
		require.LessOrEqual(t, place.Offset, int64(len(p)))
		return err
	}
	seen := make(map[string]bool)
	for i, in := range f.Tensors() {
		require.False(t, seen[in.Name])
		seen[in.Name] = true
		if in.Size <= 1<<20 {
			require.Len(t, content(t, f, i), int(in.Size))
		}
		_, at := f.Place(i)
		require.LessOrEqual(t, at, int64(len(p)))
	}
	for alias, name := range f.Aliases() {
		require.True(t, seen[alias] && seen[name] && alias != name)
	}
	return nil
}

// small has small files that the sweeps below damage.
func small(t testing.TB) map[string][]byte {
	files := map[string][]byte{"made": good().bytes()}
	for _, name := range []string{"torch-1.13/tensor.pt", "torch-1.13/tied.bin", "torch-2.6/modern.pt", "torch-2.6/list.pt"} {
		p, err := os.ReadFile(filepath.Join(samplesDir, name))
		require.NoError(t, err)
		files[name] = p
	}
	return files
}

// TestTruncation cuts small files at every length.
func TestTruncation(t *testing.T) {
	for name, p := range small(t) {
		require.NoError(t, requireSound(t, p, nil))
		for n := range p {
			err := requireSound(t, p[:n], &pytorch.Options{Name: name})
			require.ErrorIs(t, err, tensor.ErrTruncated, "%s cut to %d bytes", name, n)
			require.ErrorContains(t, err, name+": ")
		}
	}
}

// TestCorruption changes every byte of small files in several ways, under
// -short one in seven of them. Lenient takes all that strict takes.
func TestCorruption(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, p := range small(t) {
		for i := 0; i < len(p); i += step {
			old := p[i]
			for _, v := range []byte{0, '.', 'R', 'h', 0x80, 0xFF, old ^ 1} {
				p[i] = v
				strict := requireSound(t, p, nil)
				lenient := requireSound(t, p, &pytorch.Options{Lenient: true})
				require.False(t, strict == nil && lenient != nil, "%v", lenient)
			}
			p[i] = old
		}
	}
}

// TestZip: every rule of the archive, broken.
func TestZip(t *testing.T) {
	with := func(edit func(a *archive)) []byte {
		a := good()
		edit(&a)
		return a.bytes()
	}
	end := func(edit func(end []byte)) []byte {
		return with(func(a *archive) { a.edit = edit })
	}
	for name, c := range map[string]struct {
		file        []byte
		class, says string
	}{
		"overlap":          {with(func(a *archive) { a.parts[1].size, a.parts[1].flags = 30, 8 }), "format", `zip entries "archive/data/0" and "archive/version" overlap`},
		"one in another":   {with(func(a *archive) { a.parts[1].at = 1 }), "format", `no local header of the zip entry "archive/data/0" here`},
		"twice":            {with(func(a *archive) { a.parts[1].twice = true }), "format", `zip entry "archive/data/0" comes twice`},
		"same header":      {with(func(a *archive) { a.parts[2].localName, a.parts[2].name = "archive/version", "archive/Version" }), "format", "no local header"},
		"beyond the file":  {with(func(a *archive) { a.parts[1].size = 1 << 31 }), "format", "a size or offset of 2147483648, the file has"},
		"into directory":   {with(func(a *archive) { a.parts[2].size, a.parts[2].flags = 100, 8 }), "format", "does not lie before the central directory"},
		"header there":     {with(func(a *archive) { a.parts[2].at = 500 }), "format", "does not lie before the central directory"},
		"wide beyond":      {with(func(a *archive) { a.parts[1].size, a.parts[1].wide = 1<<63, true }), "format", "a size or offset of 9223372036854775808"},
		"no wide":          {with(func(a *archive) { a.parts[1].size = math.MaxUint32 }), "format", "lacks its zip64 sizes"},
		"compressed":       {with(func(a *archive) { a.parts[1].method = 8 }), "unsupported", `zip entry "archive/data/0" is compressed (method 8)`},
		"deflated pickle":  {with(func(a *archive) { a.parts[0].method = 8 }), "unsupported", `zip entry "archive/data.pkl" is compressed (method 8)`},
		"encrypted":        {with(func(a *archive) { a.parts[0].flags = 1 }), "unsupported", "is encrypted"},
		"local size":       {with(func(a *archive) { a.parts[1].localSize = 7 }), "format", "has 7 bytes by its local header, 12 by the central directory"},
		"missing":          {with(func(a *archive) { a.parts[1].missing = true }), "format", `tensor "w": byte 213: invalid file: storage "data/0" is not in the archive`},
		"no pickle":        {with(func(a *archive) { a.parts[0].name = "archive/other" }), "format", `zip archive has no "archive/data.pkl"; its first entry is "archive/other"`},
		"no root":          {with(func(a *archive) { a.parts[0].name = "data.pkl" }), "format", "not a PyTorch checkpoint"},
		"other root":       {with(func(a *archive) { a.parts = append([]part{{name: "x/y"}}, a.parts...) }), "format", `zip archive has no "x/data.pkl"`},
		"no version":       {with(func(a *archive) { a.parts[2].name = "archive/x" }), "format", `record "version" is missing`},
		"version":          {with(func(a *archive) { a.parts[2].data = "11\n" }), "unsupported", `version "11\n" of the layout`},
		"version 0":        {with(func(a *archive) { a.parts[2].data = "0" }), "unsupported", `version "0" of the layout`},
		"long version":     {with(func(a *archive) { a.parts[2].data = strings.Repeat("3", 300) }), "format", "has 300 bytes, want 256 at most"},
		"big-endian":       {with(func(a *archive) { a.parts = append(a.parts, part{name: "archive/byteorder", data: "big"}) }), "unsupported", `byte order "big", only "little" can be read`},
		"script":           {with(func(a *archive) { a.parts = append(a.parts, part{name: "archive/constants.pkl"}) }), "unsupported", "a TorchScript archive"},
		"gap":              {with(func(a *archive) { a.before = "x" }), "format", "does not end at the end record"},
		"count":            {end(func(p []byte) { p[32]--; p[84]--; p[86]-- }), "format", "central directory has 3 entries, the end record says 2"},
		"counts":           {end(func(p []byte) { p[86]++ }), "unsupported", "split over several files"},
		"disks":            {end(func(p []byte) { p[80]++ }), "unsupported", "split over several files"},
		"huge count":       {end(func(p []byte) { p[39], p[84], p[85], p[86], p[87] = 0x80, 0xFF, 0xFF, 0xFF, 0xFF }), "format", "cannot hold"},
		"huge size":        {end(func(p []byte) { p[47] = 0x80 }), "limit", "central directory of 922337203685477"},
		"huge offset":      {end(func(p []byte) { p[55] = 0xFF }), "format", "does not end at the end record"},
		"end records":      {end(func(p []byte) { p[88], p[89], p[90], p[91] = 1, 0, 0, 0 }), "format", "the two end records of the zip archive differ"},
		"locator":          {end(func(p []byte) { p[64] = 0xFF }), "format", "does not lie before its locator"},
		"locator magic":    {end(func(p []byte) { p[56] = 'x' }), "format", "has a zip64 end record and has none"},
		"zip64 magic":      {end(func(p []byte) { p[3] = 'x' }), "format", "no zip64 end record of 56 bytes here"},
		"comment too long": {with(func(a *archive) { a.comment = strings.Repeat("c", 65536) }), "truncated", "no end record"},
		"empty archive":    {append([]byte("PK\x03\x04"), archive{}.bytes()...), "format", "does not end at the end record"},
	} {
		_, err := open(c.file, &pytorch.Options{Name: "x"})
		require.Equal(t, c.class, class(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
}

// TestZipAccepts: what is unusual and right.
func TestZipAccepts(t *testing.T) {
	for name, edit := range map[string]func(a *archive){
		"as it is":       func(a *archive) {},
		"no zip64":       func(a *archive) { a.zip64 = false },
		"comment":        func(a *archive) { a.comment = "PK\x05\x06 is not the end" },
		"wide entries":   func(a *archive) { a.parts[1].wide, a.parts[0].wide = true, true },
		"sizes behind":   func(a *archive) { a.parts[1].flags, a.parts[1].localSize = 8, 1 },
		"hidden entry":   func(a *archive) { a.parts = append(a.parts, part{name: "archive/data/1", data: "x", missing: true}) },
		"other entries":  func(a *archive) { a.parts = append(a.parts, part{name: "elsewhere/data.pkl", method: 8, data: "x"}) },
		"version record": func(a *archive) { a.parts[2].name = "archive/.data/version" },
		"ids": func(a *archive) {
			a.parts = append(a.parts, part{name: "archive/.data/serialization_id", data: "7"}, part{name: "archive/byteorder", data: "little"})
		},
	} {
		a := good()
		edit(&a)
		f := mustOpen(t, a.bytes(), nil)
		require.Equal(t, "w:F32:[3]:12", shown(f), name)
		require.Equal(t, floats3, string(content(t, f, 0)), name)
		require.Equal(t, tensor.Metadata{{Key: "k", Value: "v"}}, f.Meta())
		require.NoError(t, f.Close(), "the reader is the caller's")
	}
	a := good()
	a.parts[2].data = "99"
	f := mustOpen(t, a.bytes(), &pytorch.Options{Lenient: true})
	require.Equal(t, []string{`version "99" of the layout, known are 1 to 10`}, f.Warnings())
	a.parts = a.parts[:2]
	f = mustOpen(t, a.bytes(), &pytorch.Options{Lenient: true})
	require.Equal(t, []string{`record "version" is missing`}, f.Warnings())
}

// TestVerify: a wrong sum is found by Verify and by nothing else, and is named.
func TestVerify(t *testing.T) {
	require.NoError(t, mustOpen(t, good().bytes(), nil).Verify(t.Context()))
	for i, want := range []string{`zip entry "archive/data.pkl"`, `tensor "w": byte`, `zip entry "archive/version" of 2 bytes has the CRC-32`} {
		a := good()
		a.parts[i].crc = 1
		err := mustOpen(t, a.bytes(), &pytorch.Options{Name: "x"}).Verify(t.Context())
		require.ErrorIs(t, err, tensor.ErrFormat)
		require.ErrorContains(t, err, want)
	}
	a := good()
	a.parts = append(a.parts, part{name: "z", method: 8})
	require.ErrorContains(t, mustOpen(t, a.bytes(), nil).Verify(t.Context()), `zip entry "z" is compressed`)
}

// TestViews: views that do not fit their storage, and sizes that do not fit
// anything.
func TestViews(t *testing.T) {
	const big = math.MaxInt64
	three := store("FloatStorage", "0", 3)
	long := strings.Repeat(num(1), 65)
	for name, c := range map[string]struct{ value, class, says string }{
		"too long":       {view(three, 0, []int64{4}, []int64{1}), "format", `storage "data/0": invalid file: it has 3 elements, shape [4] with strides [1] from element 0 on takes 4`},
		"too far":        {view(three, 1, []int64{3}, []int64{1}), "format", "from element 1 on takes 4"},
		"stride":         {view(three, 0, []int64{2, 2}, []int64{2, 1}), "format", "takes 4"},
		"offset":         {view(three, 4, []int64{0}, []int64{1}), "format", "from element 4"},
		"negative":       {view(three, -1, []int64{1}, []int64{1}), "format", "negative"},
		"back":           {view(three, 2, []int64{3}, []int64{-1}), "format", "negative"},
		"size":           {view(three, 0, []int64{-1}, []int64{1}), "format", "negative dimension"},
		"2^64":           {view(three, 0, []int64{4}, []int64{big}), "format", "reaches beyond 2^64 elements"},
		"sum":            {view(three, big, []int64{3, 3}, []int64{big / 2, big / 2}), "format", "elements"},
		"count":          {view(three, 0, []int64{1 << 32, 1 << 32}, []int64{0, 0}), "format", "element count of shape"},
		"bytes":          {view(three, 0, []int64{1 << 62}, []int64{0}), "format", "byte size"},
		"bomb":           {view(three, 0, []int64{1 << 40}, []int64{0}), "limit", "views of storages sum up to 0 bytes and 4398046511104 more"},
		"short storage":  {view(store("FloatStorage", "0", 4), 0, []int64{1}, []int64{1}), "format", `storage "archive/data/0" has 12 bytes in the archive, too few for 4 elements of float32`},
		"huge storage":   {view(store("FloatStorage", "0", big), 0, []int64{1}, []int64{1}), "format", "too few"},
		"negative numel": {view(store("FloatStorage", "0", -1), 0, []int64{1}, []int64{1}), "format", "storage has a class of type"},
		"absent":         {view(store("FloatStorage", "../0", 1), 0, []int64{1}, []int64{1}), "format", `storage "data/../0" is not in the archive`},
		"two types":      {view(three, 0, []int64{1}, []int64{1}) + str("b") + view(store("IntStorage", "0", 3), 0, []int64{1}, []int64{1}), "format", "is taken as 3 elements of float32 and as 3 of int32"},
		"two sizes":      {view(three, 0, []int64{1}, []int64{1}) + str("b") + view(store("FloatStorage", "0", 2), 0, []int64{1}, []int64{1}), "format", "is taken as"},
		"ranks":          {view(three, 0, []int64{1, 1}, []int64{1}), "format", "has not as many dimensions"},
		"rank":           {call(global("torch._utils", "_rebuild_tensor_v2"), three, num(0), "("+long+"t", "("+long+"t", "N", "N"), "unsupported", "tensor has 65 dimensions"},
		"complex128":     {view(store("ComplexDoubleStorage", "0", 0), 0, []int64{0}, []int64{1}), "unsupported", "element type torch.complex128"},
		"quantized":      {view(store("QInt8Storage", "0", 3), 0, []int64{1}, []int64{1}), "unsupported", "element type torch.qint8"},
		"few arguments":  {call(global("torch._utils", "_rebuild_tensor_v2"), three, num(0), nums([]int64{1}), nums([]int64{1}), "N"), "format", "there are 5 arguments, want 6 or one more"},
		"many arguments": {call(global("torch._utils", "_rebuild_tensor"), three, num(0), nums([]int64{1}), nums([]int64{1}), "N", "N"), "format", "there are 6 arguments, want 4 or one more"},
		"conj":           {view(three, 0, []int64{1}, []int64{1}, dict(str("neg"), "\x88")), "unsupported", `changed when they are read ("neg")`},
		"long shape":     {call(global("torch._utils", "_rebuild_tensor_v2"), three, num(0), tuple("\x8a\x09"+strings.Repeat("\x01", 9)), tuple(num(1)), "N", "N"), "format", "argument 1 is a int, want an integer"},
	} {
		_, err := open(pack(pickled(dict(str("w"), c.value)), floats3).bytes(), nil)
		require.Equal(t, c.class, class(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
}

// TestSums: tensors that share a storage sum up within a limit.
func TestSums(t *testing.T) {
	var items []string
	for i := range 40 {
		items = append(items, str(fmt.Sprint(i)), view(store("FloatStorage", "0", 3), 0, []int64{1 << 20}, []int64{0}))
	}
	_, err := open(pack(pickled(dict(items[:2*16]...)), floats3).bytes(), nil)
	require.NoError(t, err)
	_, err = open(pack(pickled(dict(items...)), floats3).bytes(), nil)
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, `tensor "16": `)
}

// TestLongerStorage: a storage may be longer than the pickle says, with a
// warning.
func TestLongerStorage(t *testing.T) {
	f := mustOpen(t, pack(pickled(dict(str("w"), view(store("HalfStorage", "0", 3), 1, []int64{2}, []int64{1}))), floats3).bytes(), nil)
	require.Equal(t, "w:F16:[2]:4", shown(f))
	require.Equal(t, "cdef", string(content(t, f, 0)))
	require.Equal(t, []string{`storage "archive/data/0" has 12 bytes, 6 more than its 3 elements of float16 take`}, f.Warnings())
	f = mustOpen(t, pack(pickled(dict(str("w"), view(store("HalfStorage", "0", 3), 1, []int64{2}, []int64{1}))), floats3[:7]).bytes(), nil)
	require.Empty(t, f.Warnings(), "a rest that is no element")
}

// liar has fewer bytes than its size says.
type liar struct{ p []byte }

func (l liar) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(l.p)) {
		n = copy(p, l.p[off:])
	}
	if n < len(p) {
		return n, errors.New("no such bytes")
	}
	return n, nil
}

// TestMemoryOfALiar: a pickle and a directory that fit the size that was given,
// but not the bytes.
func TestMemoryOfALiar(t *testing.T) {
	n := allocated(func() {
		_, err := pytorch.NewFile(liar{good().bytes()}, 1<<40, nil)
		require.ErrorContains(t, err, "no such bytes")
	})
	require.Less(t, n, uint64(1<<20))
}

// sparse is a file that is zeros but for some pieces.
type sparse map[int64][]byte

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	for at, piece := range s {
		if from := max(at, off); from < at+int64(len(piece)) && from < off+int64(len(p)) {
			copy(p[from-off:], piece[from-at:])
		}
	}
	return len(p), nil
}

// TestLarge: offsets beyond 2^32, in a file with holes; the limit of the pickle
// holds before memory is taken.
func TestLarge(t *testing.T) {
	a := good()
	a.parts = append(a.parts, part{name: "archive/data/1"})
	a.parts[0].data = pickled(dict(str("w"), view(store("FloatStorage", "0", 3), 0, []int64{3}, []int64{1}),
		str("far"), view(store("ByteStorage", "1", 6<<30), 5<<30, []int64{2}, []int64{1<<30 - 1})))
	head := a.bytes()
	hole := int64(bytes.Index(head, []byte("PK\x01\x02")))
	const more = 6 << 30
	a.parts[3].size, a.parts[3].wide, a.parts[3].flags = more, true, 8
	a.edit = func(end []byte) {
		at := le.Uint64(end[48:])
		le.PutUint64(end[48:], at+more)
		le.PutUint64(end[64:], le.Uint64(end[64:])+more)
	}
	whole := a.bytes()
	file := sparse{0: whole[:hole], hole + more: whole[hole:], hole + 5<<30: {7}, hole + more - 1: {9}}
	f, err := pytorch.NewFile(file, int64(len(whole))+more, nil)
	require.NoError(t, err)
	require.Equal(t, "w:F32:[3]:12 far:U8:[2]:2", shown(f))
	require.Equal(t, "\x07\x09", string(content(t, f, 1)))

	a.parts = []part{a.parts[2], {name: "archive/data.pkl", size: more, wide: true, flags: 8}}
	head = a.bytes()
	hole = int64(bytes.Index(head, []byte("PK\x01\x02")))
	n := allocated(func() {
		_, err = pytorch.NewFile(sparse{0: head[:hole], hole + more: head[hole:]}, int64(len(head))+more, nil)
	})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, "pickle of 6442450944 bytes, the limit is 100000000")
	require.Less(t, n, uint64(1<<20))
}

func TestLimit(t *testing.T) {
	p := pack(pickled(dict(str("k"), str(strings.Repeat("v", 300))))).bytes()
	size := mustOpen(t, p, nil).Header().PickleSize
	_, err := open(p, &pytorch.Options{MaxHeader: size})
	require.NoError(t, err)
	_, err = open(p, &pytorch.Options{MaxHeader: size - 1})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, fmt.Sprintf("pickle of %d bytes, the limit is %d", size, size-1))
	_, err = open(p, &pytorch.Options{MaxHeader: 10})
	require.ErrorContains(t, err, "central directory of")
}

// broken fails for every read that touches a byte.
type broken struct {
	p  []byte
	at int64
}

var errDisk = errors.New("input/output error")

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off <= b.at && b.at < off+int64(len(p)) {
		return 0, errDisk
	}
	return bytes.NewReader(b.p).ReadAt(p, off)
}

// TestReadErrors: an error of the disk stays what it is, at every byte.
func TestReadErrors(t *testing.T) {
	p := good().bytes()
	for at := range int64(len(p)) {
		f, err := pytorch.NewFile(broken{p, at}, int64(len(p)), nil)
		if err == nil {
			err = f.Verify(t.Context())
		}
		if err != nil {
			require.ErrorIs(t, err, errDisk)
			require.Equal(t, "no class", class(err))
		}
	}
	f, err := pytorch.NewFile(broken{p, int64(bytes.Index(p, []byte("jkl")))}, int64(len(p)), nil)
	if err == nil {
		_, err = f.Data(0).ReadAt(make([]byte, 12), 0)
	}
	require.ErrorIs(t, err, errDisk)
}

// TestOtherFormats: every file that is something else is called what it is.
func TestOtherFormats(t *testing.T) {
	for head, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n": "a Git LFS pointer",
		"<!DOCTYPE html><html><body>Not found</body></html>":                  "an HTML page",
		"GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00":                "a GGUF file",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03":                            "gzip-compressed data",
		"\x02\x00\x00\x00\x00\x00\x00\x00{}":                                  "a safetensors file",
		"\x80\x02}q\x00.":                                                     "a Python pickle",
	} {
		_, err := open([]byte(head), nil)
		require.ErrorIs(t, err, tensor.ErrFormat, head)
		require.ErrorContains(t, err, "not a PyTorch checkpoint: it is "+want)
	}
	_, err := open([]byte("\x01\x02\x03\x04\x05"), nil)
	require.ErrorContains(t, err, `it begins with "\x01\x02\x03\x04\x05"`)
	for head, want := range map[string]string{
		"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.":                   "before PyTorch 1.6",
		"\x80\x04\x95\x0d\x00\x00\x00\x00\x00\x00\x00\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.": "before PyTorch 1.6",
		"sys_info" + strings.Repeat("\x00", 249) + "ustar\x0000" + "":                    "a tar archive",
	} {
		_, err := open([]byte(head), nil)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "_use_new_zipfile_serialization=True")
	}
	_, err = open(nil, nil)
	require.ErrorContains(t, err, "file is empty")
}

// TestOpenRefuses: what is no regular file is not even opened.
func TestOpenRefuses(t *testing.T) {
	_, err := pytorch.Open(t.TempDir(), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	_, err = pytorch.Open("absent", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
