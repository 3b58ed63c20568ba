// Package shardset knows the sets of files that hold one checkpoint: how the
// files are named, which of them a path stands for, how an index and its files
// can disagree, and where one file ends and the next begins. It looks at names
// and reads the index; the files themselves are its callers'.
package shardset

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/demi-weights/demi/tensor"
)

// MaxShards is how many files the five digits of their names count.
const MaxShards = 99_999

// A Kind is one format of files that come in sets.
type Kind struct {
	Ext  string // of a file's name, with the dot: ".demi"
	Noun string // what errors call a file of a set: "file" or "shard"
}

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this stem (which may have a directory): "stem-00001-of-00003.ext".
func (k Kind) ShardName(stem string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", stem, no, count, k.Ext)
}

// ParseShardName is the reverse of ShardName; ok is false for other names.
func (k Kind) ParseShardName(name string) (stem string, no, count int, ok bool) {
	rest, ok := strings.CutSuffix(name, k.Ext)
	at := len(rest) - len("-00001-of-00001")
	if !ok || at < 0 {
		return "", 0, 0, false
	}
	stem, tail := rest[:at], rest[at:]
	no, err1 := strconv.Atoi(tail[1:6])
	count, err2 := strconv.Atoi(tail[10:])
	if err1 != nil || err2 != nil || no < 1 || no > count || k.ShardName(stem, no, count) != name {
		return "", 0, 0, false
	}
	return stem, no, count, true
}

// FileName returns the name of a file to write: that of a shard or, if it is
// the only one, stem.ext.
func (k Kind) FileName(stem string, no, count int) string {
	if count == 1 {
		return stem + k.Ext
	}
	return k.ShardName(stem, no, count)
}

// IndexName returns the name of the index of the set with this stem:
// "stem.ext.index.json".
func (k Kind) IndexName(stem string) string { return stem + k.Ext + ".index.json" }

// CheckName refuses what is not the plain name of a file of a set, on any
// system: the same index must mean the same files everywhere. quote prints the
// name for the error.
func (k Kind) CheckName(name string, quote func(string) string) error {
	switch {
	case strings.ContainsAny(name, `/\`):
		return classed(tensor.ErrFormat, "file name %s leaves the directory of the index, want a plain name", quote(name))
	case strings.ContainsAny(name, `:*?"<>|`) || strings.ContainsFunc(name, control) || !utf8.ValidString(name):
		return classed(tensor.ErrFormat, "file name %s has characters that not every system takes", quote(name))
	case reserved(name):
		return classed(tensor.ErrFormat, "file name %s is reserved on Windows", quote(name))
	case !strings.HasSuffix(name, k.Ext):
		return classed(tensor.ErrUnsupported, "file name %s does not end in %s", quote(name), k.Ext)
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// reserved names mean devices on Windows, whatever their extension.
func reserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, isPort := strings.CutPrefix(base, "COM")
	if !isPort {
		port, isPort = strings.CutPrefix(base, "LPT")
	}
	return isPort && strings.Contains("0 1 2 3 4 5 6 7 8 9 ¹ ² ³", port) && port != "" && port != " "
}

// Listed joins names for an error, the first ten of them.
func Listed(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}

func classed(class error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))
}

// inFile is an error about a whole file.
func inFile(name string, class error, format string, args ...any) error {
	return &tensor.FileError{File: name, Offset: -1, Err: classed(class, format, args...)}
}
