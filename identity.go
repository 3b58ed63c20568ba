package demi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A FileIdentity tells one file of a checkpoint from any other, without its
// data having been read. Two of them can be compared with ==.
type FileIdentity struct {
	Name string `json:"file"`  // base name
	Size int64  `json:"bytes"` // of the whole file

	// Header is the hash of what describes the tensors, with its algorithm:
	// "sha256:" and 64 hexadecimal digits of all bytes before the data of a
	// safetensors or GGUF file, of the pickle and the central directory of a
	// file of PyTorch, which has the CRC-32 of the values; "blake3:" and the
	// digest of the index of a store, which covers also the values.
	Header string `json:"header"`

	// ModTime is when the file was last written to, in nanoseconds since 1970.
	// Plans leave it 0.
	ModTime int64 `json:"mtime_ns,omitempty"`

	// ETag is the strong entity tag of a file behind a URL. Plans leave it out.
	ETag string `json:"etag,omitempty"`
}

// Identity returns the identity of each file, in the order of Sections; none
// for a Checkpoint whose files are not the operating system's. It reads the
// headers again, by the paths. A file that is not as large as when it was
// opened is tensor.ErrChanged, in a *tensor.FileError.
func (c *Checkpoint) Identity() (files []FileIdentity, err error) {
	if c.site != nil {
		return c.identifySite()
	}
	for i := range c.sections {
		f, err := c.identify(&c.sections[i])
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// pins returns the identity of each file as a plan has it: without times, which
// a copy does not share, and also of files that have no path.
func (c *Checkpoint) pins() (files []FileIdentity, err error) {
	if len(c.sections) == 0 {
		return c.identifyOpen()
	}
	files, err = c.Identity()
	for i := range files {
		files[i].ModTime = 0
	}
	return files, err
}

// identifyOpen is Identity through the files that are open, without times.
func (c *Checkpoint) identifyOpen() (files []FileIdentity, err error) {
	for _, part := range c.components {
		of, err := part.c.identifyOpen()
		if err != nil {
			return nil, err
		}
		files = append(files, of...)
	}
	if c.components != nil {
		return files, nil
	}
	for i, s := range c.layout {
		f := FileIdentity{Name: path.Base(s.File), Size: s.Size}
		switch set := c.stored().(type) {
		case *safetensors.Set:
			f.Header, err = headerHash(&s, set.Files()[i].HeaderSection())
		case *gguf.Set:
			f.Header, err = headerHash(&s, set.Files()[i].HeaderSection())
		case *store.Set:
			f.Header = digestText(set.Files()[i])
		case *pytorch.Set:
			f.Header, err = torchHeaderHash(set.Files()[i])
		default:
			err = fmt.Errorf("%s: %w: the identity of a file of a %T", s.File, tensor.ErrUnsupported, set)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// identifySite is identifyOpen with entity tags: none without one for each file.
func (c *Checkpoint) identifySite() ([]FileIdentity, error) {
	files, err := c.identifyOpen()
	for i := range files {
		if files[i].ETag = c.site.ETag(c.layout[i].File); files[i].ETag == "" {
			return nil, err
		}
	}
	return files, err
}

func (c *Checkpoint) identify(s *Section) (f FileIdentity, err error) {
	info, err := os.Stat(s.File)
	if err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() || info.Size() != s.Size {
		return f, changedFile(s.File, "it has %d bytes (%v), and had %d", info.Size(), info.Mode().Type(), s.Size)
	}
	f = FileIdentity{Name: filepath.Base(s.File), Size: s.Size, ModTime: info.ModTime().UnixNano()}
	switch s.format {
	case Demi:
		f.Header, err = storeDigest(s)
	case PyTorch:
		f.Header, err = torchDigest(s)
	default:
		f.Header, err = fileHeaderHash(s)
	}
	return f, err
}

// A stamp changes when a file is written to.
type stamp struct {
	size int64
	time time.Time
}

// stamps returns those of the files in the operating system, the zero value for
// one that is not there any more: it can be read all the same.
func (c *Checkpoint) stamps() []stamp {
	list := make([]stamp, len(c.sections))
	for i := range c.sections {
		if info, err := os.Stat(c.sections[i].File); err == nil {
			list[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return list
}

// unchanged compares the files with what they were.
func (c *Checkpoint) unchanged(before []stamp) error {
	for i, s := range c.stamps() {
		if s != before[i] {
			return changedFile(c.sections[i].File, "it was written to or replaced while it was read")
		}
	}
	return nil
}

func changedFile(file, format string, args ...any) error {
	return &tensor.FileError{File: file, Offset: -1, Err: fmt.Errorf("%w: %s", tensor.ErrChanged, fmt.Sprintf(format, args...))}
}

func storeDigest(s *Section) (string, error) {
	f, err := store.Open(s.File, &store.Options{MaxIndex: max(s.Header, store.MaxIndex)}) // what was read once may be read again
	if err != nil {
		return "", err
	}
	return digestText(f), f.Close()
}

func digestText(f *store.File) string { return "blake3:" + f.Digest().String() }

func fileHeaderHash(s *Section) (string, error) {
	f, size, err := regular.Open(s.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return headerHash(s, io.NewSectionReader(f, 0, size))
}

// headerHash hashes the first bytes of a file.
func headerHash(s *Section, r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.CopyN(h, r, s.Header)
	if err == io.EOF {
		return "", changedFile(s.File, "its header had %d bytes, %d are there", s.Header, n)
	}
	if err != nil {
		return "", fmt.Errorf("read the header of %s: %w", s.File, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
