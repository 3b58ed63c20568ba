package demi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/regular"
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
	// Dequantize decodes quantised tensors to F32, in every use of the
	// Checkpoint; "" means DequantizeNone.
	Dequantize Dequantize
	// Map maps the files into memory as well, where the system can, so that
	// Tensor.Bytes has the tensors without a copy. Other reads are as before,
	// but for those of stores, which decode from the mapping.
	//
	// A file that is made shorter while it is mapped ends the program when the
	// bytes that it lacks are touched (SIGBUS), and so does a disk that fails;
	// a read gives an error. That is why Map is not the default: use it for
	// files that nobody else writes to.
	Map bool
}

// Open opens a checkpoint: a file, any shard of a set, an index, or a
// directory, which is opened for its files of PyTorch only if it has no others,
// also that of a pipeline of diffusers, whose model_index.json names
// components: their tensors have the component before their names, as in
// "unet/conv_in.weight". What it is, its content tells. Errors about the content are
// *tensor.FileError and wrap a class such as tensor.ErrFormat; others are
// those of the operating system.
func Open(path string, o *OpenOptions) (*Checkpoint, error) {
	return newOpener(nil, o).openAt(path)
}

// openAt opens what path stands for, and says in the Checkpoint where that is.
func (o *opener) openAt(path string) (*Checkpoint, error) {
	c, err := o.open(path)
	if err != nil {
		return nil, err
	}
	if err := c.dequantized(o.Dequantize); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.tree = o.tree
	if info, err := o.tree.Stat(path); err == nil && info.IsDir() {
		c.dir = path
	}
	return c, nil
}

// OpenFS is Open in a file system: os.DirFS, os.Root, embed.FS, or one of the
// caller's own. Names are as fs.ValidPath has them, "." is the root, also in
// errors, Sections and Tensor.Place. Files must implement io.ReaderAt, for
// concurrent use: those of others, such as zip.Reader, whose files are read
// front to back, are tensor.ErrUnsupported. They stay open until Close and,
// if reads are under way then, until those have ended. Map maps those that are
// the operating system's.
//
// Create takes files such as config.json from beside a checkpoint of Open, not
// from a file system; nor does a store get the headers of such files.
func OpenFS(fsys fs.FS, name string, o *OpenOptions) (*Checkpoint, error) {
	if fsys == nil {
		return nil, fmt.Errorf("open %s: %w: the file system is nil", name, fs.ErrInvalid)
	}
	c, err := newOpener(fsys, o).openAt(name)
	if err != nil {
		return nil, err
	}
	c.sections = nil
	return c, nil
}

// An opener is one call of Open or OpenFS.
type opener struct {
	OpenOptions
	tree regular.Tree
}

func newOpener(fsys fs.FS, o *OpenOptions) *opener {
	if o == nil {
		o = &OpenOptions{}
	}
	return &opener{*o, regular.Tree{FS: fsys}}
}

func (o *opener) open(path string) (*Checkpoint, error) {
	if o.isPipeline(path) {
		return o.openPipeline(path)
	}
	format, err := o.formatAt(path)
	if err != nil {
		return nil, err
	}
	switch format {
	case GGUF:
		return o.openGGUF(path)
	case Demi:
		return o.openDemi(path)
	case PyTorch:
		return o.openTorch(path)
	}
	return o.openSafetensors(path)
}

func (o *opener) openGGUF(path string) (*Checkpoint, error) {
	set, err := gguf.OpenSet(path, &gguf.Options{FS: o.tree.FS, Map: o.Map, Lenient: o.Lenient, MaxHeader: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	return newCheckpoint(set, GGUF, set.Warnings(), ggufSections(set)), nil
}

func (o *opener) openDemi(path string) (*Checkpoint, error) {
	set, err := store.OpenSet(path, &store.Options{FS: o.tree.FS, Map: o.Map, MaxIndex: o.MaxHeader})
	if err != nil {
		return nil, err
	}
	return newCheckpoint(set, Demi, set.Warnings(), storeSections(set)), nil
}

func (o *opener) openSafetensors(path string) (*Checkpoint, error) {
	set, err := safetensors.OpenSet(path, &safetensors.Options{FS: o.tree.FS, Map: o.Map, Lenient: o.Lenient, MaxHeader: o.MaxHeader})
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
func (o *opener) formatAt(path string) (Format, error) {
	info, err := o.tree.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return o.formatIn(path)
	}
	if stem, ok := strings.CutSuffix(path, indexSuffix); ok && FormatOf(stem) != "" {
		return FormatOf(stem), nil
	} else if ok && hasTorchExtension(stem) {
		return PyTorch, nil
	}
	f, err := o.tree.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [9]byte
	n, err := f.ReadAt(magic[:], 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	switch head := string(magic[:n]); {
	case strings.HasPrefix(head, "GGUF"):
		return GGUF, nil
	case n >= 5 && head[1:5] == "Demi": // its reader says that the first byte is damaged; no header of safetensors is so long
		return Demi, nil
	case isTorch(head):
		return PyTorch, nil
	}
	return Safetensors, nil
}

// formatIn returns the format of the checkpoint in a directory, which goes by
// names here: several files may be in question.
func (o *opener) formatIn(dir string) (Format, error) {
	names, err := o.weightsIn(dir)
	if err != nil {
		return "", err
	}
	found := map[Format][]string{}
	for _, name := range names {
		f := FormatOf(strings.TrimSuffix(name, indexSuffix))
		found[f] = append(found[f], name)
	}
	var formats, examples []string
	for _, f := range Formats() {
		if len(found[f]) > 0 {
			formats, examples = append(formats, string(f)), append(examples, found[f][0])
		}
	}
	switch len(formats) {
	case 0:
		if o.torchIn(dir) {
			return PyTorch, nil
		}
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
	Tensors int64  `json:"tensor_bytes"`    // of all tensors; of a file of PyTorch, of the storages that tensors lie in
	Extra   int64  `json:"extra_bytes"`     // between and after the tensors: padding, trailing bytes
	Align   int64  `json:"align,omitempty"` // of every tensor, where the format promises one
	Version uint32 `json:"version,omitempty"`
	Order   string `json:"byte_order,omitempty"`

	format Format
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
