package demi

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A Format is a container of tensors.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	GGUF        Format = "gguf"
	Demi        Format = "demi" // the compressed store, see package format
)

// Formats returns all formats.
func Formats() []Format { return []Format{Safetensors, GGUF, Demi} }

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	for _, f := range Formats() {
		if strings.EqualFold(s, string(f)) {
			return f, nil
		}
	}
	return "", fmt.Errorf("unknown format %q", s)
}

// ecosystem returns the format whose programs know the names and metadata of a
// checkpoint: a store keeps those that it was made from.
func ecosystem(f Format, meta tensor.Metadata) Format {
	if f != Demi {
		return f
	}
	for _, e := range meta {
		if _, text := e.Value.(string); !text || e.Key == "general.architecture" {
			return GGUF
		}
	}
	return Safetensors
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
