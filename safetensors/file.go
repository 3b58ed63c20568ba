package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

// MaxHeader is the largest header, in bytes, that the reference
// implementation reads, that this package reads by default, and that it
// writes.
const MaxHeader = 100_000_000

const lengthSize = 8 // bytes of the header's length, which come first

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
	// Lenient lets pass what can be read without a doubt about the values, and
	// says so in Warnings: element types that are not known (as Opaque, their
	// size from their offsets), bytes after the last tensor, a header padded
	// with NUL bytes. Otherwise these are errors.
	Lenient bool
	// MaxHeader is a limit on the bytes of the header, and of an index. 0 means
	// the constant MaxHeader.
	MaxHeader int64
	// IgnoreIndex makes OpenSet take the shards by their names, whatever an
	// index says.
	IgnoreIndex bool
}

func (o *Options) maxHeader() uint64 {
	if o == nil || o.MaxHeader <= 0 {
		return MaxHeader
	}
	return uint64(o.MaxHeader)
}

// A Header says how a file is laid out. Sizes and offsets are bytes.
type Header struct {
	Size      int64 // of the JSON text, its padding included
	DataStart int64 // where tensor data begins: Size + 8
	Trailing  int64 // after the last tensor; not 0 only with Options.Lenient
}

// A File is a tensor.Source over one file. Its methods may be called by several
// goroutines at once; reads that are under way when Close is called, and later
// ones, fail or end as if it had come after them.
type File struct {
	name     string
	r        io.ReaderAt
	size     int64
	closer   io.Closer        // nil if the caller owns r
	mapped   *regular.Mapping // nil if the file is not mapped
	lenient  bool
	head     Header
	meta     tensor.Metadata
	infos    []tensor.Info
	starts   []int64 // of each tensor, from the start of the file
	warnings []string
}

var _ tensor.Mapped = (*File)(nil)

// Open opens the named file. Close closes it. Errors about the content are
// *tensor.FileError, others those of the operating system.
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

// NewFile reads the header of a file of size bytes. r must stay valid while
// the File is used, and be safe for concurrent use if the File is to be; Close
// does not close it. Errors about the content are *tensor.FileError and wrap
// tensor.ErrFormat, ErrTruncated, ErrUnsupported (an element type that is not
// known) or ErrLimit.
func NewFile(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	if opts == nil {
		opts = &Options{}
	}
	f := &File{name: opts.Name, r: r, size: max(size, 0), lenient: opts.Lenient}
	header, err := f.readHeader(opts.maxHeader())
	if err != nil {
		return nil, err
	}
	p := newParser(f, header)
	if err := p.parse(); err != nil {
		return nil, err
	}
	if err := f.place(p.spans); err != nil {
		return nil, err
	}
	return f, nil
}

// readHeader returns the JSON text. Nothing is allocated for a length that the
// file does not have.
func (f *File) readHeader(limit uint64) ([]byte, error) {
	var length [lengthSize]byte
	if f.size == 0 {
		return nil, f.fail("", 0, tensor.ErrTruncated, "file is empty")
	}
	if f.size < lengthSize {
		return nil, f.notHeader(tensor.ErrTruncated, "file has %d bytes, the header's length alone takes %d", f.size, lengthSize)
	}
	if err := f.read(length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if err := f.checkLength(n, limit); err != nil {
		return nil, err
	}
	f.head.Size, f.head.DataStart = int64(n), lengthSize+int64(n)
	if n > 0 { // a size may be wrong: the last byte first
		if err := f.read(length[:1], f.head.DataStart-1); err != nil {
			return nil, err
		}
	}
	header := make([]byte, n)
	return header, f.read(header, lengthSize)
}

// checkLength makes the checks 2 and 3 of the reference.
func (f *File) checkLength(n, limit uint64) error {
	left := uint64(f.size - lengthSize)
	switch {
	case n > limit && n > left:
		return f.notHeader(tensor.ErrFormat, "not a safetensors file: header length %d, the limit is %d, the file has %d bytes", n, limit, f.size)
	case n > limit || n > math.MaxInt64-lengthSize:
		return f.fail("", 0, tensor.ErrLimit, "header length %d, the limit is %d", n, limit)
	case n > left:
		return f.notHeader(tensor.ErrTruncated, "file has %d bytes, header needs %d: truncated by %d", f.size, n+lengthSize, n-left)
	}
	return nil
}

func (f *File) read(p []byte, off int64) error {
	n, err := f.r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return f.fail("", off, tensor.ErrTruncated, "file ends at byte %d, its size was given as %d", off+int64(n), f.size)
	}
	return &tensor.FileError{File: f.name, Offset: off, Err: err}
}

// notHeader is fail for a file that may be something else: then it says what.
func (f *File) notHeader(class error, format string, args ...any) error {
	head := make([]byte, min(f.size, sniff.Size))
	if err := f.read(head, 0); err != nil {
		return err
	}
	if what, hint := sniff.Sniff(head); what != "" && what != sniff.Safetensors {
		return f.fail("", -1, tensor.ErrFormat, "not a safetensors file: it is %s; %s", what, hint)
	}
	return f.fail("", 0, class, format, args...)
}

// fail makes an error at a byte of the file.
func (f *File) fail(name string, off int64, class error, format string, args ...any) error {
	return &tensor.FileError{File: f.name, Tensor: name, Offset: off, Err: classed(class, format, args...)}
}

func classed(class error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))
}

func (f *File) warn(format string, args ...any) {
	const most = 100 // a hostile file does not get to write a book
	if len(f.warnings) < most {
		f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
	}
}

// Tensors returns the tensors in the order of their data in the file, those
// without data at the place that their offsets name.
func (f *File) Tensors() []tensor.Info { return f.infos }

// Data returns a reader of tensor i. It is safe for concurrent use if the
// reader given to NewFile is.
func (f *File) Data(i int) io.ReaderAt {
	return io.NewSectionReader(f.r, f.starts[i], f.infos[i].Size)
}

// Meta returns the strings of __metadata__ in the order of the header.
func (f *File) Meta() tensor.Metadata { return f.meta }

// Place returns the file's name and the offset of tensor i in it.
func (f *File) Place(i int) (file string, offset int64) { return f.name, f.starts[i] }

// Header returns the layout of the file.
func (f *File) Header() Header { return f.head }

// HeaderSection returns a reader of the bytes before the tensor data, as they
// are stored: the length and the JSON text.
func (f *File) HeaderSection() *io.SectionReader {
	return io.NewSectionReader(f.r, 0, f.head.DataStart)
}

// Warnings returns what was accepted although it is not quite right, a
// sentence each.
func (f *File) Warnings() []string { return f.warnings }

// Bytes returns the bytes of tensor i in the memory of the file, without a
// copy, if Open has mapped it (Options.Map); else ok is false. They are not to
// be written to, and are valid until release is called, also after Close.
// Memory begins at a page: the bytes are aligned as their offset in the file
// is, see Place, and files of other programs may not align them at all. Where
// the file has been made shorter meanwhile, touching them ends the program.
func (f *File) Bytes(i int) (p []byte, release func(), ok bool) {
	return f.mapped.Bytes(f.starts[i], f.infos[i].Size)
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
