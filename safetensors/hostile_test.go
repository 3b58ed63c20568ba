package safetensors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// golden are small files that the sweeps below damage.
func golden(t testing.TB) map[string][]byte {
	files := make(map[string][]byte)
	for _, v := range vectors() {
		switch v.name {
		case "ok_one", "ok_metadata", "ok_no_data_between", "ok_names", "ok_any_order", "ok_extra_field", "dtype_bf16", "dtype_f6_e2m3", "ok_rank_100":
			files[v.name] = v.bytes
		}
	}
	m := &memory{infos: []tensor.Info{info("w", tensor.F16, 3, 2), info("b", tensor.I64, 2)},
		data: map[string]string{"w": "abcdefghijkl", "b": "0123456789abcdef"}, meta: tensor.Metadata{{Key: "k", Value: "v"}}}
	files["written"] = written(t, m.source(t), nil)
	return files
}

// source reads what m writes.
func (m *memory) source(t testing.TB) tensor.Source {
	t.Helper()
	var out bytes.Buffer
	m.into(t, m.infos, safetensors.NewWriter(&out, nil))
	return mustOpen(t, out.Bytes())
}

// requireSound opens bytes and, if that works, reads everything: the tensors
// tile the data. It returns the error, which must be of a class and in place.
func requireSound(t testing.TB, p []byte, o *safetensors.Options) error {
	t.Helper()
	f, err := open(p, o)
	if err != nil {
		var place *tensor.FileError
		require.True(t, errors.As(err, &place), "%v", err)
		require.NotEqual(t, "no class", class(err), "%v", err)
		require.LessOrEqual(t, place.Offset, int64(len(p)))
		return err
	}
	next := f.Header().DataStart
	for i, in := range f.Tensors() {
		_, at := f.Place(i)
		require.Equal(t, next, at)
		n, err := io.Copy(io.Discard, io.NewSectionReader(f.Data(i), 0, in.Size+1))
		require.NoError(t, err)
		require.Equal(t, in.Size, n)
		next += n
	}
	require.Equal(t, int64(len(p)), next+f.Header().Trailing)
	return nil
}

// TestTruncation cuts small files at every length.
func TestTruncation(t *testing.T) {
	for name, p := range golden(t) {
		require.NoError(t, requireSound(t, p, nil))
		for n := range p {
			for _, o := range []*safetensors.Options{nil, {Lenient: true}} {
				err := requireSound(t, p[:n], o)
				require.ErrorIs(t, err, tensor.ErrTruncated, "%s cut to %d bytes", name, n)
			}
		}
	}
}

// TestTruncationMessages: what a user is told about a file that was not
// downloaded whole.
func TestTruncationMessages(t *testing.T) {
	p := made(`{`+a4+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)
	head := len(p) - 8
	for n, want := range map[int]string{
		3:          "file has 3 bytes, the header's length alone takes 8",
		9:          fmt.Sprintf("file has 9 bytes, header needs %d: truncated by %d", head, head-9),
		head - 1:   fmt.Sprintf("file has %d bytes, header needs %d: truncated by 1", head-1, head),
		head:       fmt.Sprintf("file has %d bytes, header needs %d: truncated by 8; no tensor is complete", head, head+8),
		head + 6:   fmt.Sprintf(`file has %d bytes, header needs %d: truncated by 2; last complete tensor "a" (1 of 2)`, head+6, head+8),
		len(p) - 1: `truncated by 1; last complete tensor "a" (1 of 2)`,
	} {
		_, err := open(p[:n], &safetensors.Options{Name: "x"})
		require.ErrorContains(t, err, want, n)
		require.ErrorContains(t, err, "x: ", n)
	}
}

// TestCorruption changes every byte of small files in several ways, under
// -short one in seven of them. What is still a file has as many bytes, and
// Lenient takes all that strict takes.
func TestCorruption(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, p := range golden(t) {
		for i := 0; i < len(p); i += step {
			old := p[i]
			for _, v := range []byte{0, 1, ' ', '"', ',', '0', '9', '[', ']', '{', '}', 0x7F, 0x80, 0xFF, old ^ 1, old ^ 0x20, old + 1} {
				p[i] = v
				strict := requireSound(t, p, nil)
				lenient := requireSound(t, p, &safetensors.Options{Lenient: true})
				require.False(t, strict == nil && lenient != nil)
			}
			p[i] = old
		}
	}
}

// FuzzNewFile reads anything; what can be read can be written, and comes back
// the same.
func FuzzNewFile(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.bytes, v.strict != v.lenient)
	}
	f.Fuzz(func(t *testing.T, p []byte, lenient bool) {
		o := &safetensors.Options{Lenient: lenient}
		if requireSound(t, p, o) != nil {
			return
		}
		src, err := open(p, o)
		require.NoError(t, err)
		w := &safetensors.WriteOptions{Lenient: lenient, NoFormat: true}
		out := written(t, src, w)
		again, err := open(out, o)
		require.NoError(t, err)
		require.Equal(t, content(t, src), content(t, again))
		require.Len(t, again.Tensors(), len(src.Tensors()))
		require.Len(t, again.Meta(), len(src.Meta()))
		require.Equal(t, out, written(t, again, w), "a second time changes nothing")
	})
}

// FuzzParseIndex reads anything; what can be read can be written, and comes
// back the same. No name leaves the directory.
func FuzzParseIndex(f *testing.F) {
	for _, text := range []string{`{"metadata":{"total_size":1},"weight_map":{"a":"m.safetensors"}}`, `{"weight_map":{}}`, `{"weight_map":{"a":"../m.safetensors"}}`,
		`{"metadata":null,"weight_map":{"\u0061\ud83d\ude00":"é.safetensors"},"x":[1e3,"y"]}`, `{"weight_map":{"a":"nul.safetensors"}}`, "[", `{"metadata":{"x": [1, 2]},"weight_map":{}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := safetensors.ParseIndex(text)
		if err != nil {
			require.NotEqual(t, "no class", class(err), "%v", err)
			return
		}
		for _, name := range x.Names() {
			require.True(t, filepath.IsLocal(name) && filepath.Base(name) == name && !strings.ContainsAny(name, `/\:`), "%q", name)
		}
		total, _ := x.TotalSize()
		out, err := x.AppendJSON(nil, total)
		require.NoError(t, err)
		again, err := safetensors.ParseIndex(out)
		require.NoError(t, err)
		require.Equal(t, x.Files, again.Files)
		twice, err := again.AppendJSON(nil, total)
		require.NoError(t, err)
		require.Equal(t, string(out), string(twice))
	})
}

// TestMemory: no vector makes the reader allocate much, whatever it claims.
func TestMemory(t *testing.T) {
	for _, v := range vectors() {
		for _, o := range []*safetensors.Options{nil, {Lenient: true}} {
			n := allocated(func() { _, _ = open(v.bytes, o) })
			require.Less(t, n, uint64(1<<20), v.name)
		}
	}
}

// A liar has fewer bytes than its size says.
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

// TestMemoryOfALiar: a length that fits the size that was given, but not the
// bytes.
func TestMemoryOfALiar(t *testing.T) {
	p := append([]byte("\x00\xe1\xf5\x05\x00\x00\x00\x00"), make([]byte, 52)...) // 100,000,000
	n := allocated(func() {
		_, err := safetensors.NewFile(liar{p}, 1<<40, nil)
		require.ErrorContains(t, err, "no such bytes")
	})
	require.Less(t, n, uint64(1<<20))
}

// TestManyTensorsOnOneRange: descriptions of the same bytes, 10,000 of them,
// are refused at the second one.
func TestManyTensorsOnOneRange(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `%c"%d":{"dtype":"F32","shape":[200,200],"data_offsets":[0,160000]}`, ",{"[min(i, 1)^1], i)
	}
	_, err := open(made(b.String()+"}", 160_000), nil)
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.ErrorContains(t, err, "overlap tensor")
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
	p := golden(t)["written"]
	f := mustOpen(t, p)
	for at := range f.Header().DataStart {
		_, err := safetensors.NewFile(broken{p, at}, int64(len(p)), nil)
		require.ErrorIs(t, err, errDisk)
		require.Equal(t, "no class", class(err))
	}
	f, err := safetensors.NewFile(broken{p, f.Header().DataStart}, int64(len(p)), nil)
	require.NoError(t, err)
	_, err = f.Data(0).ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, errDisk)
}

// TestShrinks: a file that got shorter since its size was asked.
func TestShrinks(t *testing.T) {
	p := golden(t)["written"]
	for n := range p[:40] {
		_, err := safetensors.NewFile(bytes.NewReader(p[:n]), int64(len(p)), nil)
		require.ErrorIs(t, err, tensor.ErrTruncated)
		require.ErrorContains(t, err, fmt.Sprintf("its size was given as %d", len(p)))
	}
}

// TestOpenRefuses: what is no regular file is not even opened.
func TestOpenRefuses(t *testing.T) {
	_, err := safetensors.Open(t.TempDir(), nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	_, err = safetensors.Open(os.DevNull, nil)
	require.ErrorContains(t, err, "not a regular file")
	_, err = safetensors.Open("absent", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestOtherFormats: every file that is something else is called what it is.
func TestOtherFormats(t *testing.T) {
	for head, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n": "a Git LFS pointer",
		"PK\x03\x04\x00\x00archive/data.pkl":                                  "a PyTorch checkpoint",
		"<!DOCTYPE html><html><body>Not found</body></html>":                  "an HTML page",
		"GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00":                "a GGUF file",
		"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.":                          "a Python pickle",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03":                            "gzip-compressed data",
		"../blobs/0123456789abcdef":                                           `the text of a symbolic link to "../blobs/0123456789abcdef"`,
		`{"error":"Invalid username or password."}`:                           "a JSON text",
	} {
		for _, pad := range []int{0, 600} {
			_, err := open([]byte(head+strings.Repeat("\x00", pad)), nil)
			require.ErrorIs(t, err, tensor.ErrFormat, head)
			if pad == 0 {
				require.ErrorContains(t, err, "not a safetensors file: it is "+want)
			}
		}
	}
}

// TestLimit: the limit of the header can be set, and is named.
func TestLimit(t *testing.T) {
	p := made("{"+a4+"}", 4)
	_, err := open(p, &safetensors.Options{MaxHeader: int64(len(p) - 12)})
	require.NoError(t, err)
	_, err = open(p, &safetensors.Options{MaxHeader: int64(len(p) - 13)})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, fmt.Sprintf("header length %d, the limit is %d", len(p)-12, len(p)-13))
}

// TestHeaderSection: the bytes before the data, as they are stored.
func TestHeaderSection(t *testing.T) {
	p := golden(t)["written"]
	f := mustOpen(t, p)
	head, err := io.ReadAll(f.HeaderSection())
	require.NoError(t, err)
	require.Equal(t, p[:f.Header().DataStart], head)
	require.NoError(t, f.Close(), "the reader is the caller's")
}
