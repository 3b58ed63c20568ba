package format

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/tensor"
)

// MaxIndex is the largest index, in bytes, that is read by default.
const MaxIndex = 1 << 30

// Options are those of reading. A nil *Options and the zero value mean the
// defaults.
type Options struct {
	// Name is the file's name in errors and in Place. Open and OpenSet set it.
	Name string
	// MaxIndex is a limit on the bytes of the index, on those of its
	// compressed sections, and on those of the index of a set. 0 means the
	// constant MaxIndex.
	MaxIndex int64
	// FS is where Open and OpenSet look names up, which are paths with slashes
	// then; its files must have a ReadAt. nil means the operating system.
	FS fs.FS
	// Map makes Open and OpenSet map the file into memory, where the system
	// can: see Tensor.Bytes. Data that change or go while a file is mapped can
	// end the program; the default, to read, gives an error.
	Map bool
	// IgnoreIndex makes OpenSet take the files by their names, whatever an
	// index says.
	IgnoreIndex bool
}

func (o *Options) orZero() (r Options) {
	if o != nil {
		r = *o
	}
	if r.MaxIndex <= 0 {
		r.MaxIndex = MaxIndex
	}
	r.MaxIndex = min(r.MaxIndex, math.MaxInt)
	return r
}

// A File is a tensor.Source over one file. Its methods may be called by several
// goroutines at once; reads that are under way when Close is called, and later
// ones, fail or end as if it had come after them.
type File struct {
	name   string
	r      io.ReaderAt
	size   int64
	closer io.Closer        // nil if the caller owns r
	mapped *regular.Mapping // nil if the file is not mapped
	foot   footer
	x      index
	slots  slots
}

var _ tensor.Mapped = (*File)(nil)

// Open opens the named file. Close closes it. Errors about the content are
// *tensor.FileError, others those of the operating system.
func Open(name string, opts *Options) (*File, error) {
	o := opts.orZero()
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

// NewFile reads the header, the footer and the index of a file of size bytes;
// all but the header lie in the last 64 KiB unless the index is larger. The
// rest of the file is not looked at before it is asked for. r must stay valid
// while the File is used, and be safe for concurrent use if the File is to be;
// Close does not close it. Errors about the content are *tensor.FileError and
// wrap tensor.ErrFormat (and ErrChecksum), ErrTruncated, ErrUnsupported (a
// version, a feature, a section or a type that is not known) or ErrLimit.
func NewFile(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	o := opts.orZero()
	f := &File{name: o.Name, r: r, size: max(size, 0)}
	if err := f.checkHeader(); err != nil {
		return nil, err
	}
	foot, before, err := f.readFooter()
	if err != nil {
		return nil, err
	}
	p, err := f.readIndex(foot, before, o.MaxIndex)
	if err != nil {
		return nil, err
	}
	f.foot = foot
	if err := f.parse(p, foot.index, o.MaxIndex); err != nil {
		return nil, err
	}
	return f, nil
}

// fail makes an error at a byte of the file.
func (f *File) fail(name string, off int64, class error, format string, args ...any) error {
	return &tensor.FileError{File: f.name, Tensor: name, Offset: off, Err: classed(class, format, args...)}
}

// wrap is fail for an error that is made already.
func (f *File) wrap(off int64, err error) error {
	return &tensor.FileError{File: f.name, Offset: off, Err: err}
}

// Tensors returns the tensors in the order of their data.
func (f *File) Tensors() []tensor.Info { return f.x.infos }

// Data returns a reader of the bytes of tensor i, decompressed. It is safe for
// concurrent use. Reads of whole tiles, such as internal/tile cuts them, go
// straight to the caller's memory; of others, the File keeps the tile that was
// read last, and one more for each further goroutine that reads.
func (f *File) Data(i int) io.ReaderAt { return &data{f, i} }

// Meta returns the metadata.
func (f *File) Meta() tensor.Metadata { return f.x.meta }

// Place returns the file's name and the offset of tensor i in it. Where its
// blocks are compressed, an offset in the tensor is not one in the file.
func (f *File) Place(i int) (file string, offset int64) { return f.name, f.x.entries[i].offset }

// Name returns the file's name, as it was given.
func (f *File) Name() string { return f.name }

// Size returns the bytes of the file.
func (f *File) Size() int64 { return f.size }

// Align returns the alignment of the tensors in bytes.
func (f *File) Align() int64 { return f.x.align }

// Features returns the features that the file names. None of them is required,
// or it could not have been read.
func (f *File) Features() []Feature { return slices.Clone(f.x.features) }

// Digest returns the BLAKE3 hash of the index, which has the checksums of all
// blocks and the hashes of all tensors: two files with the same digest have the
// same content.
func (f *File) Digest() tensor.Hash { return f.foot.digest }

// Container returns the name of the container that the tensors and the metadata
// come from, such as "gguf": see WriteOptions.Container. It is "" if the file
// does not say.
func (f *File) Container() string { return f.x.container }

// Member returns that the file is number no, counted from 1, of the count files
// of a set; zeros if it does not say.
func (f *File) Member() (no, count int) { return int(f.x.member.no), int(f.x.member.count) }

// IndexSize returns the bytes of the index and of the footer: what the file
// has beside its tensors, its first 64 bytes and the padding.
func (f *File) IndexSize() int64 { return f.foot.length + footerSize }

// Len returns the number of tensors.
func (f *File) Len() int { return len(f.x.infos) }

// All yields the tensors in the order of their data.
func (f *File) All() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		for i := range f.x.infos {
			if !yield(f.At(i)) {
				return
			}
		}
	}
}

// At returns tensor i.
func (f *File) At(i int) *Tensor { return &Tensor{f, i} }

// Lookup returns the tensor of a name; ok is false if there is none.
func (f *File) Lookup(name string) (t *Tensor, ok bool) {
	i, ok := f.x.byName[name]
	if !ok {
		return nil, false
	}
	return f.At(i), true
}

// Close closes the file if Open opened it. It does not wait: memory that is
// mapped goes when the last slice of Tensor.Bytes has been released.
func (f *File) Close() error {
	f.slots.close()
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// checkRange refuses what tensor in does not have.
func checkRange(in *tensor.Info, from, n, all int64, what string) error {
	if from < 0 || n < 0 || from > all || n > all-from {
		return fmt.Errorf("tensor %q: %s %d to %d of %d", in.Name, what, from, from+n, all)
	}
	return nil
}
