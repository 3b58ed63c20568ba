package demi

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A Format is a container of tensors.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	GGUF        Format = "gguf"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Safetensors, GGUF} }

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	for _, f := range Formats() {
		if strings.EqualFold(s, string(f)) {
			return f, nil
		}
	}
	return "", fmt.Errorf("unknown format %q", s)
}

// FormatOf returns the format that the extension of a file name stands for,
// or "".
func FormatOf(name string) Format {
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	f, err := ParseFormat(ext)
	if err != nil {
		return ""
	}
	return f
}
