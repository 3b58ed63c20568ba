package demi

import (
	"fmt"
	"io"
	"os"
	"strings"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// OpenOptions are those of Open. The zero value means the defaults.
type OpenOptions struct {
	// Lenient lets pass what can be read without a doubt about the values,
	// such as trailing bytes and unknown element types, with a warning.
	Lenient bool
	// MaxHeader is a limit on the bytes of a header; 0 means that of the
	// format.
	MaxHeader int64
}

// Open opens a checkpoint: a file, any shard of a set, an index, or a
// directory. What it is, its content tells. Errors about the content are
// *tensor.FileError and wrap a class such as tensor.ErrFormat; others are
// those of the operating system.
func Open(path string, o *OpenOptions) (*Checkpoint, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	format, err := formatAt(path)
	if err != nil {
		return nil, err
	}
	switch format {
	case GGUF:
		return openGGUF(path, o)
	case Demi:
		return openDemi(path, o)
	}
	return openSafetensors(path, o)
}

func openGGUF(path string, o *OpenOptions) (*Checkpoint, error) {
	set, err := gguf.OpenSet(path, &gguf.Options{Lenient: o.Lenient, MaxHeader: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	return newCheckpoint(set, GGUF, set.Warnings(), ggufSections(set)), nil
}

func openDemi(path string, o *OpenOptions) (*Checkpoint, error) {
	set, err := store.OpenSet(path, &store.Options{MaxIndex: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	return newCheckpoint(set, Demi, set.Warnings(), storeSections(set)), nil
}

func openSafetensors(path string, o *OpenOptions) (*Checkpoint, error) {
	set, err := safetensors.OpenSet(path, &safetensors.Options{Lenient: o.Lenient, MaxHeader: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	c := newCheckpoint(set, Safetensors, set.Warnings(), safetensorsSections(set))
	if x := set.Index(); x != nil {
		c.indexMeta = x.Meta
	}
	return c, nil
}

// indexSuffix follows the extension of a format in the name of a set's index.
const indexSuffix = ".index.json"

// formatAt returns the format of what is at path. Safetensors stands for all
// that is not GGUF: its reader says best what is wrong with it.
func formatAt(path string) (Format, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return formatIn(path)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: %w: it is not a regular file: a checkpoint is read at random places", path, tensor.ErrUnsupported)
	}
	if stem, ok := strings.CutSuffix(path, indexSuffix); ok && FormatOf(stem) != "" {
		return FormatOf(stem), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [5]byte
	n, _ := io.ReadFull(f, magic[:])
	switch head := string(magic[:n]); {
	case strings.HasPrefix(head, "GGUF"):
		return GGUF, nil
	case head == "\x89Demi":
		return Demi, nil
	}
	return Safetensors, nil
}

// formatIn returns the format of the checkpoint in a directory, which goes by
// names here: several files may be in question.
func formatIn(dir string) (Format, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	found := map[Format][]string{}
	for _, e := range entries {
		if f := FormatOf(strings.TrimSuffix(e.Name(), indexSuffix)); f != "" && !e.IsDir() {
			found[f] = append(found[f], e.Name())
		}
	}
	var formats, examples []string
	for _, f := range Formats() {
		if len(found[f]) > 0 {
			formats, examples = append(formats, string(f)), append(examples, found[f][0])
		}
	}
	switch len(formats) {
	case 0:
		return Safetensors, nil
	case 1:
		return Format(formats[0]), nil
	}
	return "", fmt.Errorf("%s: %w: the directory has files of several formats, %s (%s): name one of them",
		dir, tensor.ErrUnsupported, strings.Join(formats, " and "), strings.Join(examples, ", "))
}

// A Section says what one file of a checkpoint consists of, in bytes: Header,
// tensors, and Extra add up to Size.
type Section struct {
	File    string `json:"file"`
	Size    int64  `json:"bytes"`
	Header  int64  `json:"header_bytes"`    // what describes the tensors: a header, or header, index and footer of a store
	Tensors int64  `json:"tensor_bytes"`    // of all tensors
	Extra   int64  `json:"extra_bytes"`     // between and after the tensors: padding, trailing bytes
	Align   int64  `json:"align,omitempty"` // of every tensor, where the format promises one
	Version uint32 `json:"version,omitempty"`
	Order   string `json:"byte_order,omitempty"`
}

func newSection(name string, size, start int64, infos []tensor.Info) Section {
	s := Section{File: name, Size: size, Header: min(start, size)}
	for _, in := range infos {
		s.Tensors += in.Size
	}
	s.Extra = s.Size - s.Header - s.Tensors
	return s
}

func safetensorsSections(set *safetensors.Set) (list []Section) {
	for _, f := range set.Files() {
		list = append(list, newSection(f.Name(), f.Size(), f.Header().DataStart, f.Tensors()))
	}
	return list
}

func storeSections(set *store.Set) (list []Section) {
	for _, f := range set.Files() {
		s := Section{File: f.Name(), Size: f.Size(), Align: f.Align(), Version: store.Version}
		s.Header = f.IndexSize() + 64
		for t := range f.All() {
			s.Tensors += t.Stored()
		}
		s.Extra = s.Size - s.Header - s.Tensors
		list = append(list, s)
	}
	return list
}

func ggufSections(set *gguf.Set) (list []Section) {
	for _, f := range set.Files() {
		h := f.Header()
		s := newSection(f.Name(), f.Size(), h.DataStart, f.Tensors())
		s.Align, s.Version = h.Alignment, h.Version
		if h.BigEndian {
			s.Order = "big-endian"
		}
		list = append(list, s)
	}
	return list
}
