// Package sniff says what a file is that is not what it should be, from its
// first bytes, and what its owner can do about it. It serves error texts: call
// it after a reader has failed, never to decide how to read.
package sniff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Size is the number of bytes from the start of a file that Sniff wants; all
// of a shorter file.
const Size = 512

// The answers that a caller may want to compare with: a reader its own format,
// damaged; others what is no model at all. That for the text of a symbolic link
// has more behind LinkText.
const (
	Safetensors = "a safetensors file"
	GGUF        = "a GGUF file"
	Demi        = "a Demi store"
	PyTorch     = "a PyTorch checkpoint (a zip archive with a pickle in it)"
	LFSPointer  = "a Git LFS pointer, not the file that it stands for"
	LinkText    = "the text of a symbolic link"
	HTML        = "an HTML page"
	Empty       = "an empty file"
	Zeros       = "zeros, as of a download that reserved the file and then failed"
)

// Sniff looks at the first bytes of a file (Size of them, or the whole file)
// and returns what it is, with an article ("a zip archive"), and what to do,
// as an imperative. Both are "" for bytes that it does not recognise. It
// allocates little, whatever the bytes.
func Sniff(head []byte) (what, hint string) {
	head = head[:min(len(head), Size)]
	for _, s := range signatures {
		if s.match(head) {
			return s.what, s.hint
		}
	}
	for _, guess := range []func([]byte) (what, hint string){store, zip, linkText, text, blank} {
		if what, hint = guess(head); what != "" {
			return what, hint
		}
	}
	return "", ""
}

type signature struct {
	at         int
	magic      string
	what, hint string
}

const (
	hintDecompress = "decompress it first"
	hintLegacy     = "convert the original model to GGUF again, tools no longer read this"
	hintTorch      = "load it with PyTorch and save it again with torch.save"
	hintPickle     = "convert it to safetensors with the library that wrote it"
	legacy         = "a legacy GGML file, older than GGUF"
)

var signatures = []signature{
	{0, "\x89Demi\r\n\x1a\n\x00", Demi, "read it as a Demi store"},
	{0, "version https://git-lfs", LFSPointer, "fetch the file with git lfs pull"},
	{0, "GGUF", GGUF, "read it as GGUF"},
	{0, "FUGG", "a GGUF file with its magic reversed", "get the file again, or make it little-endian"},
	{0, "lmgg", legacy, hintLegacy},
	{0, "fmgg", legacy, hintLegacy},
	{0, "tjgg", legacy, hintLegacy},
	{0, "algg", "a legacy GGML adapter", hintLegacy},
	{0, "ggml", legacy, hintLegacy},
	{0, "ggmf", legacy, hintLegacy},
	{0, "ggjt", legacy, hintLegacy},
	{0, "ggla", "a legacy GGML adapter", hintLegacy},
	{0, "\x1f\x8b", "gzip-compressed data", hintDecompress},
	{0, "\x28\xb5\x2f\xfd", "zstd-compressed data", hintDecompress},
	{0, "\xfd7zXZ\x00", "xz-compressed data", hintDecompress},
	{0, "BZh", "bzip2-compressed data", hintDecompress},
	{0, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"},
	{257, "ustar", "a tar archive", "unpack it first"},
	{0, "\x80\x02", "a Python pickle, as of an old PyTorch checkpoint", hintTorch},
	{0, "\x80\x03", "a Python pickle", hintPickle},
	{0, "\x80\x04", "a Python pickle", hintPickle},
	{0, "\x80\x05", "a Python pickle", hintPickle},
	{0, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", hintPickle},
	{0, "\x93NUMPY", "a NumPy array", hintPickle},
	{4, "TFL3", "a TensorFlow Lite model", hintPickle},
}

func (s *signature) match(head []byte) bool {
	return len(head) >= s.at+len(s.magic) && string(head[s.at:s.at+len(s.magic)]) == s.magic
}

// store finds Demi stores whose signature has come through a transfer that took
// it for text: of 7 bits, in UTF-8, or with other ends of lines.
func store(head []byte) (what, hint string) {
	at := bytes.Index(head[:min(len(head), 10)], []byte("Demi"))
	if at < 1 || at > 3 || !bytes.HasPrefix(head[at+4:], []byte("\r")) && !bytes.HasPrefix(head[at+4:], []byte("\n")) {
		return "", ""
	}
	return "a Demi store whose signature is damaged (a transfer in text mode?)", "get the file again, in binary mode"
}

// zip tells the checkpoints of PyTorch, which are zip archives, from others,
// by the name of their first entry; and protobuf messages that begin as ONNX
// models do, for these too have no magic of their own.
func zip(head []byte) (what, hint string) {
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")) && bytes.Contains(head, []byte("data.pkl")):
		return PyTorch, "read it as a PyTorch checkpoint"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return "a zip archive, as NumPy (.npz) and Keras write", "unpack it, or " + hintPickle
	case onnx(head):
		return "an ONNX model, as it seems", "export its weights as safetensors"
	case safetensors(head):
		return Safetensors, "read it as safetensors"
	}
	return "", ""
}

// onnx: field 1 (ir_version, a small number), then field 2 (producer_name, a
// short printable string).
func onnx(head []byte) bool {
	if len(head) < 8 || head[0] != 0x08 || head[1] < 3 || head[1] > 15 || head[2] != 0x12 {
		return false
	}
	n := int(head[3])
	return n > 0 && n < 64 && len(head) >= 4+n && printable(head[4:4+n])
}

// safetensors: a sensible length, then a JSON object.
func safetensors(head []byte) bool {
	return len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= 1<<32
}

// linkText finds the text of a symbolic link: what Git checks out where links
// are switched off.
func linkText(head []byte) (what, hint string) {
	line := strings.TrimSuffix(string(head), "\n")
	if len(head) >= Size || !printable([]byte(line)) || !strings.Contains(line, "/") || strings.ContainsAny(line, "<>{}\"") {
		return "", ""
	}
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "/") || !strings.Contains(line, " ") {
		return fmt.Sprintf(LinkText+" to %q, not the file that it points to", line),
			"check out with symbolic links enabled (git config core.symlinks true), or copy that file here"
	}
	return "", ""
}

func printable(p []byte) bool {
	for _, c := range p {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return len(p) > 0 && utf8.Valid(p)
}

// text finds web pages and messages of servers, saved under the model's name.
func text(head []byte) (what, hint string) {
	const again = "look into it for a message, and get the file again (address, login, licence to accept?)"
	start := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, tag := range []string{"<!doctype", "<html", "<head", "<!--"} {
		if bytes.HasPrefix(start, []byte(tag)) {
			return HTML, again
		}
	}
	switch {
	case bytes.HasPrefix(start, []byte("<?xml")):
		return "an XML document", again
	case bytes.HasPrefix(start, []byte("{")), bytes.HasPrefix(start, []byte("[")):
		if jsonText(start) {
			return "a JSON text", "look into it: it may be an index, or a message of a server; name the model's file"
		}
	}
	return "", ""
}

// jsonText: printable text, or white space.
func jsonText(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// blank finds files that have no content at all.
func blank(head []byte) (what, hint string) {
	const again = "get the file again"
	if len(head) == 0 {
		return Empty, again
	}
	if len(head) >= 16 && len(bytes.Trim(head, "\x00")) == 0 {
		return Zeros, again
	}
	return "", ""
}
