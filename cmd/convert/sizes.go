package main

import (
	"math"

	"github.com/dustin/go-humanize"
)

// parseBytes reads a size: "5GB" is decimal, "5GiB" binary.
func parseBytes(flag, s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, usagef("%s %q is not a size such as 5GB or 512MiB", flag, s)
	}
	return int64(n), nil
}

// formatBytes writes a size with its decimal unit.
func formatBytes(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// comma writes a count with separators.
func comma(n int64) string { return humanize.Comma(n) }
