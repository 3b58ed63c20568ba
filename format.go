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
	Demi        Format = "demi" // the compressed store, see package format

	PyTorch Format = "pytorch" // read and not written; what it holds becomes Safetensors
)

// Formats returns the formats that are read and written: all but PyTorch.
func Formats() []Format { return []Format{Safetensors, GGUF, Demi} }

// ParseFormat reads the name of a format that can be written.
func ParseFormat(s string) (Format, error) {
	for _, f := range Formats() {
		if strings.EqualFold(s, string(f)) {
			return f, nil
		}
	}
	if strings.EqualFold(s, string(PyTorch)) {
		return "", fmt.Errorf("files of PyTorch are read and not written: safetensors is what their programs read as well")
	}
	return "", fmt.Errorf("unknown format %q", s)
}

// output returns the format that files of format f become by default.
func (f Format) output() Format {
	if f == PyTorch {
		return Safetensors
	}
	return f
}

// container returns the format whose programs know the names and metadata of
// c, if that is known: a store keeps those that it was made from, and says so
// unless it is an old one.
func (c *Checkpoint) container() Format {
	if len(c.components) > 0 {
		return c.components[0].c.container()
	}
	if c.format != Demi {
		return c.format.output()
	}
	if src, ok := c.src.(interface{ Container() string }); ok {
		return FormatOf("x." + src.Container())
	}
	return ""
}

// ecosystem returns what container does or, of a store that does not say, what
// its metadata look like.
func (c *Checkpoint) ecosystem() Format {
	if f := c.container(); f != "" {
		return f
	}
	for _, e := range c.Meta() {
		if _, text := e.Value.(string); !text || e.Key == "general.architecture" {
			return GGUF
		}
	}
	return Safetensors
}

// FormatOf returns the format, of those that can be written, that the extension
// of a file name stands for, or "".
func FormatOf(name string) Format {
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	f, err := ParseFormat(ext)
	if err != nil {
		return ""
	}
	return f
}
