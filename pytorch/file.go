package pytorch

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

// MaxHeader is the largest pickle, and the largest central directory, in bytes,
// that this package reads by default. That of a model with 100,000 tensors has
// about 13 MB.
const MaxHeader = 100_000_000

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
	// says so in Warnings: objects of classes that are not known, which are left
	// out with all that is in them; tensors under keys that have no name; a
	// missing or unknown version. Otherwise these are errors. Nothing is called
	// either way. Sums and OtherSums have nothing then.
	Lenient bool
	// Once is for files that are expensive to read: Sums and OtherSums leave out what
	// would have to be read for its sum alone.
	Once bool
	// MaxHeader is a limit on the bytes of the pickle, of the central directory
	// of the zip archive, and of an index. 0 means the constant MaxHeader.
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

// A Header says what a file tells about itself beside its tensors.
type Header struct {
	Root            string // the directory of the archive, such as "archive" or "pytorch_model"
	Version         int    // of the archive's layout; 0 if there is none (Options.Lenient)
	SerializationID string // a digest by PyTorch 2 of names and CRCs; "" if there is none
	PickleOffset    int64  // of data.pkl in the file
	PickleSize      int64  // bytes of data.pkl
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
	once     bool
	head     Header
	dir      directory
	entries  []entry
	byName   map[string]int
	meta     tensor.Metadata
	infos    []tensor.Info
	views    []view // of each tensor
	bands    *bands // of tensors that are permuted
	warnings []string
}

var (
	_ tensor.Mapped = (*File)(nil)
	_ tensor.Summed = (*File)(nil)
)

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

// NewFile reads the directory and the pickle of a file of size bytes. r must
// stay valid while the File is used, and be safe for concurrent use if the File
// is to be; Close does not close it. Errors about the content are
// *tensor.FileError and wrap tensor.ErrFormat, ErrTruncated, ErrUnsupported (a
// class that is not known, a sparse or quantized tensor, the layout of before
// PyTorch 1.6) or ErrLimit.
func NewFile(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	if opts == nil {
		opts = &Options{}
	}
	f := &File{name: opts.Name, r: r, size: max(size, 0), lenient: opts.Lenient, once: opts.Once, bands: &bands{}}
	limit := opts.maxHeader()
	if err := f.identify(); err != nil {
		return nil, err
	}
	if err := f.readArchive(limit); err != nil {
		return nil, err
	}
	if err := f.readRecords(); err != nil {
		return nil, err
	}
	if err := f.readPickle(limit); err != nil {
		return nil, err
	}
	return f, nil
}

// identify tells a zip archive from all else by the first bytes.
func (f *File) identify() error {
	if f.size == 0 {
		return f.fail("", 0, tensor.ErrTruncated, "file is empty")
	}
	head := make([]byte, min(f.size, sniff.Size))
	if err := f.read(head, 0); err != nil {
		return err
	}
	const save = `load it with PyTorch and save it again: torch.save(..., _use_new_zipfile_serialization=True)`
	switch {
	case bytes.HasPrefix(head, []byte(localMagic)):
		return nil
	case len(head) < len(localMagic) && strings.HasPrefix(localMagic, string(head)):
		return f.fail("", f.size, tensor.ErrTruncated, "file has %d bytes", f.size)
	case bytes.Contains(head[:min(len(head), 32)], []byte(legacyMagic)):
		return f.fail("", 0, tensor.ErrUnsupported, "a checkpoint in the layout of before PyTorch 1.6 (pickles, no zip archive); %s", save)
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return f.fail("", 0, tensor.ErrUnsupported, "a tar archive, as PyTorch 0.1 wrote; %s", save)
	}
	if what, hint := sniff.Sniff(head); what != "" {
		return f.fail("", 0, tensor.ErrFormat, "not a PyTorch checkpoint: it is %s; %s", what, hint)
	}
	return f.fail("", 0, tensor.ErrFormat, "not a PyTorch checkpoint: it begins with %.16q, a zip archive with %q", head, localMagic)
}

// legacyMagic is the number that begins files of before PyTorch 1.6,
// 0x1950a86a20f9469cfc6c, as a pickle has it.
const legacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"

// readRecords finds the root directory of the archive, which is that of its
// first entry, and reads the small records in it.
func (f *File) readRecords() error {
	if len(f.entries) == 0 {
		return f.fail("", -1, tensor.ErrFormat, "zip archive is empty")
	}
	root, _, ok := strings.Cut(f.entries[0].name, "/")
	f.head.Root = root
	if !ok || f.record("data.pkl") == nil {
		return f.fail("", -1, tensor.ErrFormat, "not a PyTorch checkpoint: zip archive has no %s; its first entry is %s", quote(root+"/data.pkl"), quote(f.entries[0].name))
	}
	if f.record("constants.pkl") != nil {
		return f.fail("", -1, tensor.ErrUnsupported, "a TorchScript archive, which holds code; load it with torch.jit.load and save its state_dict() with torch.save")
	}
	for _, read := range []func() error{f.readVersion, f.readByteOrder, f.readID} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// record returns an entry of the root directory, or nil.
func (f *File) record(name string) *entry {
	if i, ok := f.byName[f.head.Root+"/"+name]; ok {
		return &f.entries[i]
	}
	return nil
}

// small reads a record that should be short; ok is false if there is none.
func (f *File) small(name string) (text string, ok bool, err error) {
	const most = 256
	e := f.record(name)
	if e == nil {
		return "", false, nil
	}
	if err := f.stored(e); err != nil {
		return "", false, err
	}
	if e.size > most {
		return "", false, f.fail("", e.data, tensor.ErrFormat, "record %s has %d bytes, want %d at most", quote(e.name), e.size, most)
	}
	p, err := f.readRange(e.data, e.size)
	return string(p), true, err
}

// Versions of the layout, by caffe2/serialize/versions.h.
const (
	minVersion = 1
	maxVersion = 10
)

func (f *File) readVersion() error {
	text, ok, err := f.small("version")
	if err == nil && !ok {
		text, ok, err = f.small(".data/version")
	}
	if err != nil {
		return err
	}
	if !ok {
		return f.tolerate(tensor.ErrFormat, "record \"version\" is missing")
	}
	v, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || v < minVersion || v > maxVersion {
		return f.tolerate(tensor.ErrUnsupported, "version %.20q of the layout, known are %d to %d", text, minVersion, maxVersion)
	}
	f.head.Version = v
	return nil
}

func (f *File) readByteOrder() error {
	text, ok, err := f.small("byteorder")
	if err != nil || !ok || text == "little" {
		return err
	}
	return f.fail("", f.record("byteorder").data, tensor.ErrUnsupported, "byte order %.20q, only \"little\" can be read", text)
}

func (f *File) readID() (err error) {
	f.head.SerializationID, _, err = f.small(".data/serialization_id")
	return err
}

// readRange returns n bytes from off on. A size may be wrong: the last byte is
// read before memory is taken.
func (f *File) readRange(off, n int64) ([]byte, error) {
	var last [1]byte
	if n > 4096 {
		if err := f.read(last[:], off+n-1); err != nil {
			return nil, err
		}
	}
	p := make([]byte, n)
	return p, f.read(p, off)
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

// fail makes an error at a byte of the file.
func (f *File) fail(name string, off int64, class error, format string, args ...any) error {
	return &tensor.FileError{File: f.name, Tensor: name, Offset: off, Err: classed(class, format, args...)}
}

// tolerate is fail, or a warning where Lenient is set.
func (f *File) tolerate(class error, format string, args ...any) error {
	if !f.lenient {
		return f.fail("", -1, class, format, args...)
	}
	f.warn(format, args...)
	return nil
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

// quote prints a name for an error, the first 100 bytes of it.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// Tensors returns the tensors in the order of the pickle, which is that of the
// state dictionary. Names are the keys and indexes on the way to them, joined
// with dots.
func (f *File) Tensors() []tensor.Info { return f.infos }

// Data returns a reader of tensor i, row-major whatever its strides are in the
// file. It is safe for concurrent use if the reader given to NewFile is. A
// tensor that is contiguous in the file is read as it is; of others each ReadAt
// gathers the elements through a window of at most 64 KiB. If they are permuted,
// as in a transposed matrix, it gathers 2 MiB at once, and the File (or the Set)
// keeps the last four of these: 8 MiB and one more for each reader.
func (f *File) Data(i int) io.ReaderAt {
	v := &f.views[i]
	if v.contiguous {
		return io.NewSectionReader(f.r, v.place, f.infos[i].Size)
	}
	return &gather{r: f.r, view: v, size: f.infos[i].Size, bands: f.bands}
}

// Meta returns the values beside the tensors that are plain (numbers, strings,
// bools, and lists of these as JSON), as strings, in the order of the pickle.
// Values of more than 4 KiB, and what comes after the first MiB, are left out,
// with a warning.
func (f *File) Meta() tensor.Metadata { return f.meta }

// Place returns the file's name and the offset of the first element of tensor
// i in it.
func (f *File) Place(i int) (file string, offset int64) { return f.name, f.views[i].place }

// HeaderSection returns a reader of what describes the tensors: the pickle, and
// behind it the central directory, which has the CRC-32 of every storage.
// HeaderSize is how many bytes these are.
func (f *File) HeaderSection() io.Reader {
	return io.MultiReader(
		io.NewSectionReader(f.r, f.head.PickleOffset, f.head.PickleSize),
		io.NewSectionReader(f.r, int64(f.dir.offset), int64(f.dir.size)))
}

// HeaderSize returns the bytes of HeaderSection.
func (f *File) HeaderSize() int64 { return f.head.PickleSize + int64(f.dir.size) }

// StorageSize returns the bytes of all storages that tensors lie in, each
// counted once, whatever share of it the tensors take and how many share it.
func (f *File) StorageSize() (n int64) {
	seen := make(map[int]bool)
	for i := range f.views {
		if k := f.views[i].store; !seen[k] {
			seen[k] = true
			n += f.entries[k].size
		}
	}
	return n
}

// Header returns what the file tells about itself.
func (f *File) Header() Header { return f.head }

// Warnings returns what was accepted although it is not quite right, a
// sentence each.
func (f *File) Warnings() []string { return f.warnings }

// Bytes returns the bytes of tensor i in the memory of the file, without a
// copy, if Open has mapped it (Options.Map) and the tensor is contiguous in it;
// else ok is false. They are not to be written to, and are valid until release
// is called, also after Close. Memory begins at a page, and PyTorch puts
// storages on 64 bytes. Where the file has been made shorter meanwhile, touching
// them ends the program.
func (f *File) Bytes(i int) (p []byte, release func(), ok bool) {
	if !f.views[i].contiguous {
		return nil, nil, false
	}
	return f.mapped.Bytes(f.views[i].place, f.infos[i].Size)
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
