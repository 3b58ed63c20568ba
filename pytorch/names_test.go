package pytorch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

func unknownGlobals(p []byte, o *pytorch.Options) ([]string, error) {
	return pytorch.UnknownGlobals(bytes.NewReader(p), int64(len(p)), o)
}

// TestUnknownGlobalsOfSamples: what Python's pickletools find in the files that
// PyTorch wrote, less what the reader knows.
func TestUnknownGlobalsOfSamples(t *testing.T) {
	want := map[string][]string{
		"evil.pt":   {"posix.system"},
		"module.pt": {"torch.nn.modules.linear.Linear"},
		"script.pt": {"__torch__.torch.nn.modules.linear.Linear"},
		// One of them is a tensor that cannot be read; no name is unknown.
		"legacy.pt": nil, "nested.pt": nil, "nested4.pt": nil, "meta.pt": nil, "quantized.pt": nil, "sparse.pt": nil,
	}
	files, err := filepath.Glob(filepath.Join(samplesDir, "*", "*.*t"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		names, err := unknownGlobals(p, nil)
		require.NoError(t, err, file)
		require.Equal(t, want[filepath.Base(file)], names, file)
	}
}

// TestUnknownGlobals: every way that a pickle can name what it calls.
func TestUnknownGlobals(t *testing.T) {
	for _, c := range []struct {
		pickle string
		want   []string
	}{
		// Python's pickle.dumps({"a": E(), "b": E()}) of protocol 0 to 5.
		{"(dp0\x0aVa\x0ap1\x0acposix\x0asystem\x0ap2\x0a(Vtrue\x0ap3\x0atp4\x0aRp5\x0asVb\x0ap6\x0ag2\x0ag4\x0aRp7\x0as.", []string{"posix.system"}},
		{"}q\x00(X\x01\x00\x00\x00aq\x01cposix\x0asystem\x0aq\x02(X\x04\x00\x00\x00trueq\x03tq\x04Rq\x05X\x01\x00\x00\x00bq\x06h\x02h\x04Rq\x07u.", []string{"posix.system"}},
		{"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01cposix\x0asystem\x0aq\x02X\x04\x00\x00\x00trueq\x03\x85q\x04Rq\x05X\x01\x00\x00\x00bq\x06h\x02h\x04Rq\x07u.", []string{"posix.system"}},
		{"\x80\x03}q\x00(X\x01\x00\x00\x00aq\x01cposix\x0asystem\x0aq\x02X\x04\x00\x00\x00trueq\x03\x85q\x04Rq\x05X\x01\x00\x00\x00bq\x06h\x02h\x04Rq\x07u.", []string{"posix.system"}},
		{"\x80\x04\x951\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94\x8c\x01b\x94h\x04h\x06R\x94u.", []string{"posix.system"}},
		{"\x80\x05\x951\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94\x8c\x01b\x94h\x04h\x06R\x94u.", []string{"posix.system"}},
		{"(S'true'\niposix\nsystem\n.", []string{"posix.system"}},
		{"(cposix\nsystem\nS'true'\no.", []string{"posix.system"}},
		{"\x80\x04\x8c\x02os\x8c\x06system0\x8c\x06system\x93.", []string{pytorch.Computed}},
		{"\x80\x04\x8c\x02os\x94\x8c\x04exec\x94h\x00h\x01\x93.", []string{"os.exec"}},
		{"\x80\x04\x8c\x02osN\x93.", []string{pytorch.Computed}},
		{"\x80\x04\x82\x07N.", []string{"(extension 7 of copyreg)"}},
		{"\x80\x02ccollections\nOrderedDict\n)R.", nil},
		{"\x80\x02ca\nb\n.\x80\x02cc\nd\n.", []string{"a.b"}},
		{"c\"\n\x01\n.", []string{`\".\x01`}},
		{"c" + strings.Repeat("m", 200) + "\nn\n.", []string{strings.Repeat("m", 100) + "..."}},
	} {
		names, err := unknownGlobals([]byte(c.pickle), nil)
		require.NoError(t, err, "%q", c.pickle)
		require.Equal(t, c.want, names, "%q", c.pickle)
	}
}

// TestUnknownGlobalsOfBrokenPickles: names come back beside an error.
func TestUnknownGlobalsOfBrokenPickles(t *testing.T) {
	for _, p := range []string{"cposix\nsystem\n", "cposix\nsystem\n\xff", "cposix\nsystem\nX\xff\xff\xff\x7fabc", "cposix\nsystem\ngx\n."} {
		names, err := unknownGlobals([]byte(p), &pytorch.Options{Name: "x.pt"})
		require.ErrorIs(t, err, tensor.ErrFormat, "%q", p)
		require.ErrorContains(t, err, "x.pt: byte 14: ")
		require.Equal(t, []string{"posix.system"}, names)
	}
	evil, err := os.ReadFile(filepath.Join(samplesDir, "torch-2.6", "evil.pt"))
	require.NoError(t, err)
	_, err = unknownGlobals(evil, &pytorch.Options{MaxHeader: 10})
	require.ErrorIs(t, err, tensor.ErrLimit)
	_, err = unknownGlobals(evil[:len(evil)-1], nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
}

// FuzzUnknownGlobals: nothing panics, and the work is bounded by the length.
func FuzzUnknownGlobals(f *testing.F) {
	f.Add([]byte("\x80\x04\x8c\x02os\x94\x8c\x04exec\x94h\x00h\x01\x93."))
	f.Add([]byte("cposix\nsystem\n(S'x'\ntR."))
	f.Add(good().bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		names, _ := unknownGlobals(p, nil)
		for _, name := range names {
			require.LessOrEqual(t, len(name), 4*104)
		}
	})
}
