package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sumsName is the file of checksums, in the form of sha256sum.
const sumsName = "SHA256SUMS"

// writeSums writes the checksums of all files of a directory into it.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(b.String()), 0o666)
}

// readSums returns the checksums of a file by the names that they are of.
func readSums(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || len(sum) != 2*sha256.Size {
			return nil, fmt.Errorf("%s: %q is no line of checksum and name", file, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

func sortedNames(sums map[string]string) []string { return slices.Sorted(maps.Keys(sums)) }
