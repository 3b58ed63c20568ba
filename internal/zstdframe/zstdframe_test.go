package zstdframe_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/zstdframe"
)

func frame(t testing.TB, name string) []byte {
	p, err := os.ReadFile(filepath.Join("../../testdata/zstd", name+".zst"))
	require.NoError(t, err)
	return p
}

// TestReference: frames of the reference implementation, and the reasons for
// which those that are not ours are refused.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{
		"plain": "", "checksum": "",
		"unsized":   "does not say the size",
		"two":       "the frame has 1200 bytes of content, want 2400",
		"skippable": "is a skippable one",
		"trailing":  "12 bytes after the frame",
	} {
		err := zstdframe.Check(frame(t, name), 2400)
		if want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, want, name)
		}
	}
	require.NoError(t, zstdframe.Check(frame(t, "window"), 600000))
	require.ErrorContains(t, zstdframe.Check(frame(t, "plain"), 2401), "want 2401")
}

// TestTruncated: a frame that lacks bytes is refused before it is decoded.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"plain", "checksum"} {
		p := frame(t, name)
		for n := range p {
			require.Error(t, zstdframe.Check(p[:n], 2400), "%s cut to %d bytes", name, n)
		}
	}
}

// TestHeader: headers by hand, as RFC 8878 section 3.1.1.1 has them, before
// one raw block of 4 bytes.
func TestHeader(t *testing.T) {
	block := "\x21\x00\x00abcd"
	for header, want := range map[string]string{
		"\x20\x04":                             "",                  // a single segment
		"\x80\x50\x04\x00\x00\x00":             "",                  // a window of 1 MiB
		"\x80\x51\x04\x00\x00\x00":             "window of 1179648", // one of 9/8 MiB
		"\x21\x07\x04":                         "dictionary 7",
		"\xa0\x05\x00\x00\x00":                 "5 bytes of content",
		"\xe0\xff\xff\xff\xff\xff\xff\xff\xff": "18446744073709551615 bytes of content",
	} {
		err := zstdframe.Check([]byte("\x28\xb5\x2f\xfd"+header+block), 4)
		if want == "" {
			require.NoError(t, err, "%q", header)
		} else {
			require.ErrorContains(t, err, want, "%q", header)
		}
	}
	require.ErrorContains(t, zstdframe.Check([]byte("\x28\xb5\x2f\xfd\x20\x04\x27\x00\x00abcd"), 4), "reserved")
	require.NoError(t, zstdframe.Check([]byte("\x28\xb5\x2f\xfd\x20\x04\x23\x00\x00a"), 4), "one byte, four times")
}

func FuzzCheck(f *testing.F) {
	for _, name := range []string{"plain", "checksum", "two", "skippable", "trailing", "unsized"} {
		f.Add(frame(f, name))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if zstdframe.Check(p, 2400) == nil {
			require.Error(t, zstdframe.Check(p[:len(p)-1], 2400))
		}
	})
}
