package demi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// A FileIdentity tells one file of a checkpoint from any other, without its
// data having been read. Two of them can be compared with ==.
type FileIdentity struct {
	Name string `json:"file"`  // base name
	Size int64  `json:"bytes"` // of the whole file

	// Header is the hash of what describes the tensors, with its algorithm:
	// "sha256:" and 64 hexadecimal digits of all bytes before the data of a
	// safetensors or GGUF file; "blake3:" and the digest of the index of a
	// store, which covers also the values.
	Header string `json:"header"`

	// ModTime is when the file was last written to, in nanoseconds since 1970.
	// Plans leave it 0: a copy is as good as the file that was planned for.
	ModTime int64 `json:"mtime_ns,omitempty"`
}

// Identity returns the identity of each file, in the order of Sections; none
// for a Checkpoint that has no files. It reads the headers again, from the
// paths. A file that is not as large as when it was opened is
// tensor.ErrChanged, in a *tensor.FileError.
func (c *Checkpoint) Identity() (files []FileIdentity, err error) {
	for i := range c.sections {
		f, err := c.identify(&c.sections[i])
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
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
	if c.format == Demi {
		f.Header, err = storeDigest(s)
	} else {
		f.Header, err = headerHash(s)
	}
	return f, err
}

func changedFile(file, format string, args ...any) error {
	return &tensor.FileError{File: file, Offset: -1, Err: fmt.Errorf("%w: %s", tensor.ErrChanged, fmt.Sprintf(format, args...))}
}

func storeDigest(s *Section) (string, error) {
	f, err := store.Open(s.File, &store.Options{MaxIndex: s.Header}) // what has been read once may be read again
	if err != nil {
		return "", err
	}
	digest := f.Digest()
	return "blake3:" + digest.String(), f.Close()
}

func headerHash(s *Section) (string, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.CopyN(h, f, s.Header)
	if err == io.EOF {
		return "", changedFile(s.File, "its header had %d bytes, %d are there", s.Header, n)
	}
	if err != nil {
		return "", fmt.Errorf("read the header of %s: %w", s.File, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
