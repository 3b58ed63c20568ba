package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

const (
	magic            = "GGUF"
	defaultAlign     = 32
	defaultMaxHeader = 1 << 30
)

// Options are those of reading. A nil *Options and the zero value mean the
// defaults.
type Options struct {
	// Name is the file's name in errors and in Place. Open and OpenSet set it.
	Name string
	// FS is where Open and OpenSet look names up, which are paths with slashes
	// then; its files must have a ReadAt. nil means the operating system.
	FS fs.FS
	// Map makes Open and OpenSet map the files into memory as well, where the
	// system can: see Bytes. Reads do not use the mapping.
	Map bool
	// Lenient reads tensors of types that ggml does not know, or has removed,
	// as Opaque; their size is the distance to the next tensor or, for the
	// last one, to the end of the file, padding included. Otherwise they are
	// refused by name.
	Lenient bool
	// MaxHeader is a limit on the bytes of the header: keys, values and tensor
	// descriptions. 0 means 1 GiB.
	MaxHeader int64
}

func (o *Options) maxHeader() int64 {
	if o.MaxHeader <= 0 {
		return defaultMaxHeader
	}
	return o.MaxHeader
}

// A Header says how a file is laid out. Sizes and offsets are bytes.
type Header struct {
	Version   uint32
	BigEndian bool
	Alignment int64 // of the data section and of each tensor in it
	Size      int64 // of the header up to the last tensor description
	DataStart int64 // where tensor data begins; beyond the file's end if there is none
	Padding   int64 // missing after the last tensor
	Trailing  int64 // after the last tensor and its padding
}

// A File is a tensor.Source over one GGUF file. Its methods may be called by
// several goroutines at once; reads that are under way when Close is called,
// and later ones, fail or end as if it had come after them.
type File struct {
	name     string
	r        io.ReaderAt
	size     int64
	closer   io.Closer        // nil if the caller owns r
	mapped   *regular.Mapping // nil if the file is not mapped
	head     Header
	meta     tensor.Metadata
	infos    []tensor.Info
	offsets  []int64 // from the start of the file
	warnings []string
}

var _ tensor.Mapped = (*File)(nil)

// Open opens the named file. Close closes it. Its errors are *tensor.FileError
// or those of the operating system.
func Open(name string, opts *Options) (*File, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.Name = name
	file, err := regular.Tree{FS: o.FS}.Open(name)
	if err != nil {
		return nil, err
	}
	f, err := NewFile(file, file.Size(), &o)
	if err != nil {
		file.Close()
		return nil, err
	}
	f.closer = file
	if o.Map {
		f.mapped = file.Map()
	}
	return f, nil
}

// NewFile reads the header of a GGUF file of size bytes. r must stay valid
// while the File is used, and be safe for concurrent use if the File is to be;
// Close does not close it. Errors about the content are *tensor.FileError.
func NewFile(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	if opts == nil {
		opts = &Options{}
	}
	f := &File{name: opts.Name, r: r, size: max(size, 0), head: Header{Alignment: defaultAlign}}
	d := newDecoder(r, f.size, opts)
	if err := f.preamble(d); err != nil {
		return nil, err
	}
	tensors, err := d.u64("number of tensors")
	if err != nil {
		return nil, err
	}
	keys, err := d.u64("number of keys")
	if err != nil {
		return nil, err
	}
	if err := checkCounts(d, tensors, keys); err != nil {
		return nil, err
	}
	if err := f.metadata(d, keys); err != nil {
		return nil, err
	}
	if err := f.tensors(d, tensors, opts.Lenient); err != nil {
		return nil, err
	}
	return f, nil
}

// preamble reads magic and version; the version tells the byte order.
func (f *File) preamble(d *decoder) error {
	if err := f.checkMagic(d); err != nil {
		return err
	}
	version, err := d.u32("version")
	if err != nil {
		return err
	}
	if version&0xFFFF == 0 && version != 0 {
		d.order, f.head.BigEndian = binary.BigEndian, true
		version = bits.ReverseBytes32(version)
	}
	f.head.Version = version
	switch version {
	case 2, 3:
		return nil
	case 1:
		return d.fail(4, tensor.ErrUnsupported, "GGUF version 1 is too old (llama.cpp refuses it too); convert the model again")
	}
	return d.fail(4, tensor.ErrUnsupported, "GGUF version %d, want 2 or 3", version)
}

func (f *File) checkMagic(d *decoder) error {
	head, err := d.r.Peek(int(min(f.size, sniff.Size)))
	if err != nil && !errors.Is(err, io.EOF) {
		return &tensor.FileError{File: f.name, Offset: 0, Err: err}
	}
	if len(head) < len(magic) && magic[:len(head)] == string(head) {
		return d.fail(0, tensor.ErrTruncated, "file has %d bytes, a GGUF header takes at least 24", f.size)
	}
	if string(head[:min(4, len(head))]) != magic {
		return d.fail(0, tensor.ErrFormat, "%s", notGGUF(head))
	}
	var p [len(magic)]byte
	return d.fill(p[:])
}

// checkCounts compares the counts with the fewest bytes that a key (8 + 1 + 4
// + 1) and a tensor (8 + 4 + 4 + 8) take.
func checkCounts(d *decoder, tensors, keys uint64) error {
	if tensors > d.left()/minInfo {
		return d.fail(8, tensor.ErrTruncated, "header counts %d tensors, %d bytes are left in the file", tensors, d.left())
	}
	if keys > d.left()/minKey {
		return d.fail(16, tensor.ErrTruncated, "header counts %d keys, %d bytes are left in the file", keys, d.left())
	}
	return nil
}

const (
	minKey  = 14
	minInfo = 24
)

func (f *File) warn(format string, args ...any) {
	const most = 100 // a hostile file does not get to write a book
	if len(f.warnings) < most {
		f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
	}
}

// Tensors returns the tensors in file order.
func (f *File) Tensors() []tensor.Info { return f.infos }

// Data returns a reader of tensor i, little-endian also if the file is not.
// It is safe for concurrent use if the reader given to NewFile is.
func (f *File) Data(i int) io.ReaderAt {
	section := io.NewSectionReader(f.r, f.offsets[i], f.infos[i].Size)
	if width := f.infos[i].DType.Bits() / 8; f.head.BigEndian && width > 1 {
		return &swapped{section, int64(width)}
	}
	return section
}

// Meta returns the keys and values in file order, general.alignment and the
// split.* keys of a shard included.
func (f *File) Meta() tensor.Metadata { return f.meta }

// Place returns the file's name and the offset of tensor i in it.
func (f *File) Place(i int) (file string, offset int64) { return f.name, f.offsets[i] }

// Header returns the layout of the file.
func (f *File) Header() Header { return f.head }

// HeaderSection returns a reader of the bytes before the tensor data, as they
// are stored.
func (f *File) HeaderSection() *io.SectionReader {
	return io.NewSectionReader(f.r, 0, min(f.head.DataStart, f.size))
}

// Warnings returns what was accepted although it is not quite right, a
// sentence each: missing padding after the last tensor, trailing bytes, types
// that Lenient let pass.
func (f *File) Warnings() []string { return f.warnings }

// Bytes returns the bytes of tensor i in the memory of the file, without a
// copy, if Open has mapped it (Options.Map) and if they are little-endian
// there; else ok is false. They are not to be written to, and are valid until
// release is called, also after Close. They begin on a multiple of
// Header.Alignment. Where the file has been made shorter meanwhile, touching
// them ends the program.
func (f *File) Bytes(i int) (p []byte, release func(), ok bool) {
	if f.head.BigEndian && f.infos[i].DType.Bits() > 8 {
		return nil, nil, false
	}
	return f.mapped.Bytes(f.offsets[i], f.infos[i].Size)
}

// Close closes the file if Open opened it. It does not wait: memory that is
// mapped goes when the last slice of Bytes has been released.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Name returns the file's name, as it was given.
func (f *File) Name() string { return f.name }

// Size returns the bytes of the file.
func (f *File) Size() int64 { return f.size }
