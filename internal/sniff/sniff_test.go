package sniff_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/internal/sniff"
)

const (
	zipEntry = "PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00"
	tarHead  = "name" // its magic is at byte 257
)

// kinds has the beginning of each kind of file, what it is called, and a word
// of the advice.
var kinds = []struct{ name, head, what, hint string }{
	{"Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer, not the file that it stands for", "git lfs pull"},
	{"Git symlink", "../../blobs/4d7a214614ab2935c943f9e0ff69d22e", `the text of a symbolic link to "../../blobs/4d7a214614ab2935c943f9e0ff69d22e", not the file that it points to`, "core.symlinks"},
	{"Git symlink, absolute", "/data/my models/model.safetensors\n", `the text of a symbolic link to "/data/my models/model.safetensors", not the file that it points to`, "core.symlinks"},
	{"Git symlink, plain", "blobs/abc", `the text of a symbolic link to "blobs/abc", not the file that it points to`, "core.symlinks"},
	{"HTML", "<!DOCTYPE html>\n<html><head><title>403</title>", "an HTML page", "get the file again"},
	{"HTML, indented", " \r\n\t<HTML lang=en>", "an HTML page", "login"},
	{"HTML with a byte order mark", "\xef\xbb\xbf<!-- x --><html>", "an HTML page", "get the file again"},
	{"XML", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML document", "get the file again"},
	{"JSON", "{\n  \"weight_map\": {}\n}\n", "a JSON text", "it may be an index"},
	{"JSON array", " [1]", "a JSON text", "message of a server"},
	{"zip", zipEntry + "weights.npy", "a zip archive, as NumPy (.npz) and Keras write", "unpack it"},
	{"empty zip", "PK\x05\x06" + strings.Repeat("\x00", 18), "a zip archive, as NumPy (.npz) and Keras write", "unpack it"},
	{"PyTorch", zipEntry + "archive/data.pklFB", "a PyTorch checkpoint (a zip archive with a pickle in it)", "read it as a PyTorch checkpoint"},
	{"PyTorch before 1.6", "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "a Python pickle, as of an old PyTorch checkpoint", "load it with PyTorch and save it again"},
	{"pickle 3", "\x80\x03}q\x00.", "a Python pickle", "convert it to safetensors"},
	{"pickle 4", "\x80\x04\x95\x10", "a Python pickle", "convert it to safetensors"},
	{"pickle 5", "\x80\x05\x95\x10", "a Python pickle", "convert it to safetensors"},
	{"GGML", "lmgg\x00\x7d\x00\x00", "a legacy GGML file, older than GGUF", "convert the original model"},
	{"GGMF", "fmgg\x01\x00\x00\x00", "a legacy GGML file, older than GGUF", "convert the original model"},
	{"GGJT", "tjgg\x03\x00\x00\x00", "a legacy GGML file, older than GGUF", "convert the original model"},
	{"GGLA", "algg\x01\x00\x00\x00", "a legacy GGML adapter", "convert the original model"},
	{"GGML, big-endian", "ggml\x00\x00\x7d\x00", "a legacy GGML file, older than GGUF", "convert the original model"},
	{"GGJT, big-endian", "ggjt\x00\x00\x00\x03", "a legacy GGML file, older than GGUF", "convert the original model"},
	{"GGUF", "GGUF\x03\x00\x00\x00", sniff.GGUF, "read it as GGUF"},
	{"GGUF reversed", "FUGG\x00\x00\x00\x03", "a GGUF file with its magic reversed", "little-endian"},
	{"Demi", "\x89Demi\r\n\x1a\n\x00\x01\x00", sniff.Demi, "read it as a Demi store"},
	{"Demi, 7 bits", "\tDemi\r\n\x1a\n\x00\x01", "a Demi store whose signature is damaged (a transfer in text mode?)", "binary mode"},
	{"Demi, ends of lines", "\x89Demi\n\x1a\n\x00\x01", "a Demi store whose signature is damaged (a transfer in text mode?)", "binary mode"},
	{"Demi, UTF-8", "\xef\xbf\xbdDemi\r\n\x1a\n\x00\x01", "a Demi store whose signature is damaged (a transfer in text mode?)", "binary mode"},
	{"Demi, Latin-1 to UTF-8", "\xc2\x89Demi\r\n\x1a\n\x00\x01", "a Demi store whose signature is damaged (a transfer in text mode?)", "binary mode"},
	{"safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{}", sniff.Safetensors, "read it as safetensors"},
	{"gzip", "\x1f\x8b\x08\x00", "gzip-compressed data", "decompress"},
	{"zstd", "\x28\xb5\x2f\xfd\x04\x00", "zstd-compressed data", "decompress"},
	{"xz", "\xfd7zXZ\x00\x00", "xz-compressed data", "decompress"},
	{"bzip2", "BZh91AY&SY", "bzip2-compressed data", "decompress"},
	{"7-Zip", "7z\xbc\xaf\x27\x1c\x00", "a 7-Zip archive", "unpack"},
	{"tar", tarHead + strings.Repeat("\x00", 257-len(tarHead)) + "ustar\x0000", "a tar archive", "unpack"},
	{"ONNX", "\x08\x08\x12\x07pytorch\x1a\x052.1.0", "an ONNX model, as it seems", "export its weights"},
	{"HDF5", "\x89HDF\r\n\x1a\n\x00", "an HDF5 file, as Keras writes", "convert it"},
	{"NumPy", "\x93NUMPY\x01\x00v\x00{'descr'", "a NumPy array", "convert it"},
	{"TFLite", "\x1c\x00\x00\x00TFL3", "a TensorFlow Lite model", "convert it"},
	{"empty", "", "an empty file", "get the file again"},
	{"zeros", strings.Repeat("\x00", 600), "zeros, as of a download that reserved the file and then failed", "get the file again"},
	{"bytes", "\x07\x06\x05\xf0\xf1", "", ""},
	{"text", "just a note, not a path", "", ""},
	{"a few zeros", "\x00\x00\x00\x00", "", ""},
	{"a lone brace and binary", "{\x01\x02", "", ""},
	{"ONNX of a version that never was", "\x08\x02\x12\x07pytorch\x1a\x052.1.0", "", ""},
	{"ONNX of a version to come", "\x08\x10\x12\x07pytorch\x1a\x052.1.0", "", ""},
	{"ONNX with an empty producer", "\x08\x08\x12\x00pytorch\x1a", "", ""},
}

func TestSniff(t *testing.T) {
	for _, k := range kinds {
		what, hint := sniff.Sniff([]byte(k.head))
		require.Equal(t, k.what, what, k.name)
		require.Contains(t, hint, k.hint, k.name)
		require.Equal(t, what == "", hint == "", k.name)
		require.NotRegexp(t, `\.$`, hint, "it is a part of a sentence")
	}
}

// TestLongFiles: bytes behind the first ones change nothing, but for kinds that
// are text as a whole.
func TestLongFiles(t *testing.T) {
	for _, k := range kinds {
		if strings.Contains(k.what, "symbolic link") || strings.Contains(k.what, "JSON") || k.what == "an empty file" || k.what == "" {
			continue
		}
		long := append([]byte(k.head), bytes.Repeat([]byte{0}, 2000)...)
		what, _ := sniff.Sniff(long)
		require.Equal(t, k.what, what, k.name)
	}
}

// TestAnything: no bytes make it fail, and what it says can be printed.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := []byte(rapid.SampledFrom(kinds).Draw(t, "kind").head)
		head = append(head[:rapid.IntRange(0, len(head)).Draw(t, "cut")], rapid.SliceOf(rapid.Byte()).Draw(t, "rest")...)
		what, hint := sniff.Sniff(head)
		require.True(t, utf8.ValidString(what) && !strings.ContainsAny(what, "\x00\n\x1b"), "%q", what)
		require.Equal(t, what == "", hint == "")
		require.Less(t, len(what), 600)
	})
}

func FuzzSniff(f *testing.F) {
	for _, k := range kinds {
		f.Add([]byte(k.head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		what, hint := sniff.Sniff(head)
		require.Equal(t, what == "", hint == "")
		require.True(t, utf8.ValidString(what))
	})
}
