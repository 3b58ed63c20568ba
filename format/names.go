package format

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/demi-weights/demi/tensor"
)

const (
	fileSuffix  = ".demi"
	indexSuffix = ".demi.index.json"
	maxShards   = 99_999 // of the five digits
)

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this stem (which may have a directory): "stem-00001-of-00003.demi".
func ShardName(stem string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", stem, no, count, fileSuffix)
}

// ParseShardName is the reverse of ShardName; ok is false for other names.
func ParseShardName(name string) (stem string, no, count int, ok bool) {
	rest, ok := strings.CutSuffix(name, fileSuffix)
	at := len(rest) - len("-00001-of-00001")
	if !ok || at < 0 {
		return "", 0, 0, false
	}
	stem, tail := rest[:at], rest[at:]
	no, err1 := strconv.Atoi(tail[1:6])
	count, err2 := strconv.Atoi(tail[10:])
	if err1 != nil || err2 != nil || no < 1 || no > count || ShardName(stem, no, count) != name {
		return "", 0, 0, false
	}
	return stem, no, count, true
}

// IndexName returns the name of the index of the set with this stem:
// "stem.demi.index.json".
func IndexName(stem string) string { return stem + indexSuffix }

// checkFileName refuses what is not the plain name of a file of a set, on any
// system: the same index must mean the same files everywhere.
func checkFileName(name string) error {
	switch {
	case strings.ContainsAny(name, `/\`):
		return classed(tensor.ErrFormat, "file name %s leaves the directory of the index, want a plain name", quote(name))
	case strings.ContainsAny(name, `:*?"<>|`) || strings.ContainsFunc(name, control) || !utf8.ValidString(name):
		return classed(tensor.ErrFormat, "file name %s has characters that not every system takes", quote(name))
	case reserved(name):
		return classed(tensor.ErrFormat, "file name %s is reserved on Windows", quote(name))
	case !strings.HasSuffix(name, fileSuffix) || name == fileSuffix:
		return classed(tensor.ErrUnsupported, "file name %s does not end in %s", quote(name), fileSuffix)
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

// listed joins names, the first ten of them.
func listed(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}
