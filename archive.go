package demi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// An archive finds out, while a store is written that changes no tensor, what
// is needed to write the source files again: their headers and SHA-256.
type archive struct {
	plan   *Plan
	source *Checkpoint
	warn   func(string)
	cancel context.CancelFunc
	files  []sourceFile
	wg     sync.WaitGroup
	told   bool // what the store will lack
}

// A sourceFile is one file of the source.
type sourceFile struct {
	path   string
	header store.SourceHeader
	data   []span // of the tensors, by offset
	err    error

	swapped bool // its values are big-endian
	torch   bool // it is one of PyTorch's
}

// A span is the bytes from one offset up to another.
type span struct{ from, to int64 }

// errNoArchive is a file that cannot be written again from its tensors.
var errNoArchive = errors.New("the store will not give it back byte for byte")

// archived returns the Sink for a store that s writes, with the sources of c
// in it if no tensor is converted. o is that of s.
func (p *Plan) archived(c *Checkpoint, o *CreateOptions, create func(*CreateOptions) tensor.Sink) tensor.Sink {
	if p.Options.Format != Demi || len(c.layout) == 0 || c.quantized != nil {
		return create(o)
	}
	a := &archive{plan: p, source: c, warn: o.Warn}
	with := *o
	with.sources = a.sources
	return &archiveSink{create(&with), a}
}

// An archiveSink reads the source files for their hashes while the store is
// written.
type archiveSink struct {
	tensor.Sink
	archive *archive
}

func (s *archiveSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	s.archive.start()
	return s.Sink.Begin(infos, meta)
}

func (s *archiveSink) Abort() {
	s.archive.stop()
	s.Sink.Abort()
}

func (s *archiveSink) unwrap() tensor.Sink { return s.Sink }

// start begins to read the files.
func (a *archive) start() {
	if !a.plan.faithful() || a.source.format == Demi || a.cancel != nil {
		return
	}
	if len(a.source.sections) == 0 { // their hashes would take a second read of all bytes
		if a.warn != nil && !a.told {
			a.warn("the store will not give its source files back (--restore): that takes a source on this machine, not behind a URL")
			a.told = true
		}
		return
	}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(context.Background())
	a.files = a.source.sourceFiles()
	a.wg.Go(func() {
		for i := range a.files {
			a.files[i].err = a.files[i].read(ctx)
		}
	})
}

func (a *archive) stop() {
	if a.cancel != nil {
		a.cancel()
	}
	a.wg.Wait()
}

// sources waits for the files. A store that is copied hands on what it has.
func (a *archive) sources() (list []store.SourceHeader, err error) {
	if set, ok := a.source.src.(*store.Set); ok && a.plan.faithful() {
		return set.Sources()
	}
	a.wg.Wait()
	for i := range a.files {
		f := &a.files[i]
		if errors.Is(f.err, errNoArchive) {
			if a.warn != nil {
				a.warn(f.err.Error())
			}
			return nil, nil
		}
		if f.err != nil {
			return nil, f.err
		}
		list = append(list, f.header)
	}
	return list, nil
}

// sourceFiles returns the files of c with the places of their tensors, and the
// index of a set.
func (c *Checkpoint) sourceFiles() (files []sourceFile) {
	of := map[string]int{}
	for i := range c.sections {
		s := &c.sections[i]
		of[s.File] = len(files)
		h := store.SourceHeader{Name: c.relative(s.File), Size: s.Size, Bytes: make([]byte, 0, s.Header)}
		files = append(files, sourceFile{path: s.File, header: h, swapped: s.Order != "", torch: s.format == PyTorch})
	}
	for i, in := range c.src.Tensors() {
		file, offset := c.src.Place(i)
		f := &files[of[file]]
		f.header.Tensors = append(f.header.Tensors, store.SourceTensor{Name: in.Name, Offset: offset})
		f.data = append(f.data, span{offset, offset + in.Size})
	}
	for i := range files {
		t, data := files[i].header.Tensors, files[i].data
		slices.SortStableFunc(t, func(a, b store.SourceTensor) int { return cmp.Compare(a.Offset, b.Offset) })
		slices.SortStableFunc(data, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	}
	for _, index := range c.indexFiles() {
		info, err := os.Stat(index)
		f := sourceFile{path: index, err: err, header: store.SourceHeader{Name: c.relative(index)}}
		if err == nil {
			f.header.Size = info.Size()
			f.header.Bytes = make([]byte, 0, info.Size())
		}
		files = append(files, f)
	}
	return files
}

// relative returns the name of a file of c: in a pipeline, with that of the
// component.
func (c *Checkpoint) relative(file string) string {
	if c.components != nil {
		if rel, err := filepath.Rel(c.dir, file); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(file)
}

// indexFiles returns the paths of the indexes of safetensors sets.
func (c *Checkpoint) indexFiles() (list []string) {
	if c.format != Safetensors {
		return nil
	}
	for i := range c.sections {
		stem, no, _, ok := safetensors.ParseShardName(c.sections[i].File)
		if !ok || no != 1 {
			continue
		}
		index := safetensors.IndexName(stem)
		if _, err := os.Stat(index); err == nil {
			list = append(list, index)
		}
	}
	return list
}

// read reads the whole file: the header is kept, all bytes are hashed, and
// those that are of no tensor must be zero.
func (f *sourceFile) read(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	if f.torch {
		return fmt.Errorf("%s: a file of PyTorch: %w", f.path, errNoArchive)
	}
	if f.swapped {
		return fmt.Errorf("%s: its byte order is not that of the store: %w", f.path, errNoArchive)
	}
	in, _, err := regular.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	h := &f.header
	sum := sha256.New()
	buf := make([]byte, 1<<20)
	gaps := f.gaps()
	for pos := int64(0); pos < h.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := buf[:min(int64(len(buf)), h.Size-pos)]
		if n, err := in.ReadAt(p, pos); n < len(p) {
			return readError(f.path, pos+int64(n), h.Size, err)
		}
		sum.Write(p)
		if room := int64(cap(h.Bytes) - len(h.Bytes)); room > 0 {
			h.Bytes = append(h.Bytes, p[:min(room, int64(len(p)))]...)
		}
		if off := notZero(p, pos, gaps); off >= 0 {
			return fmt.Errorf("%s: byte %d is of no tensor and not zero: %w", f.path, off, errNoArchive)
		}
		pos += int64(len(p))
	}
	sum.Sum(h.SHA256[:0])
	return nil
}

// readError is the error of a read that ended at a byte of a file.
func readError(file string, at, size int64, err error) error {
	if err == io.EOF {
		return changedFile(file, "it ends at byte %d, and had %d", at, size)
	}
	return &tensor.FileError{File: file, Offset: at, Err: err}
}

// gaps returns the bytes that are neither of the header nor of a tensor.
func (f *sourceFile) gaps() (gaps []span) {
	end := int64(cap(f.header.Bytes))
	for _, d := range append(f.data, span{f.header.Size, f.header.Size}) {
		if d.from > end {
			gaps = append(gaps, span{end, d.from})
		}
		end = max(end, d.to)
	}
	return gaps
}

// notZero returns the offset of the first byte that is not zero, of those of p,
// which begins at pos, that are in gaps; -1 if there is none.
func notZero(p []byte, pos int64, gaps []span) int64 {
	end := pos + int64(len(p))
	first, _ := slices.BinarySearchFunc(gaps, pos, func(g span, pos int64) int { return cmp.Compare(g.to, pos+1) })
	for _, g := range gaps[first:] {
		if g.from >= end {
			break
		}
		for off := max(g.from, pos); off < min(g.to, end); off++ {
			if p[off-pos] != 0 {
				return off
			}
		}
	}
	return -1
}

// Restore writes the files that a store was made from, byte for byte, and
// compares each with its SHA-256. The store must have been made with the target
// Keep, or so that no tensor changed; others do not have what it takes, which
// is tensor.ErrUnsupported. path is a file, if it has the extension of a format
// and there is one file to write, or a directory, which gets the names of the
// source files. Restore returns the paths of what it has written.
func Restore(ctx context.Context, c *Checkpoint, path string, o *CreateOptions) ([]string, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	set, ok := c.src.(*store.Set)
	if !ok {
		return nil, fmt.Errorf("%w: only a store gives source files back, this is %s", tensor.ErrUnsupported, c.format)
	}
	list, err := set.Sources()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the store does not have the headers of its source: it was not made with --dtype keep, or from another store, a URL or dequantised tensors", tensor.ErrUnsupported)
	}
	if err := checkRestore(path, list, c, o); err != nil {
		return nil, err
	}
	if FormatOf(path) != "" {
		return []string{path}, restoreFile(ctx, path, &list[0], c.src)
	}
	return restoreDir(ctx, path, list, c.src)
}

func checkRestore(path string, list []store.SourceHeader, c *Checkpoint, o *CreateOptions) error {
	if err := checkOutput(path, FormatOf(path)); err != nil {
		return err
	}
	if FormatOf(path) != "" && len(list) > 1 {
		return fmt.Errorf("%w: %d files are to be written: name a directory", ErrOutput, len(list))
	}
	if was := FormatOf(list[0].Name); FormatOf(path) != "" && FormatOf(path) != was {
		return fmt.Errorf("%w: %s: the file that comes back is %s", ErrOutput, path, list[0].Name)
	}
	seen := map[string]bool{}
	for i := range list {
		name := list[i].Name
		if !filepath.IsLocal(name) || strings.ContainsRune(name, '\\') || filepath.Clean(name) != name || name == "." || seen[name] {
			return fmt.Errorf("%w: a source file of the name %q", tensor.ErrFormat, name)
		}
		seen[name] = true
		if strings.ContainsFunc(name, unicode.IsControl) || list[i].SHA256 == [32]byte{} {
			return fmt.Errorf("%w: the source file %q has a name with control characters, or no SHA-256 to compare it with", tensor.ErrFormat, name)
		}
		if most := stored(c.src); list[i].Size > 2*(int64(len(list[i].Bytes))+most)+(64<<20) {
			return fmt.Errorf("%w: the source file %q has %d bytes, the tensors %d", tensor.ErrFormat, name, list[i].Size, most)
		}
	}
	return checkFree(path, c, o.IfExists == Replace && FormatOf(path) != "")
}

// stored returns the bytes of all tensors.
func stored(src tensor.Source) (n int64) {
	for _, in := range src.Tensors() {
		n += in.Size
	}
	return n
}

// restoreFile writes one file.
func restoreFile(ctx context.Context, path string, h *store.SourceHeader, src tensor.Source) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := f.Allocate(h.Size); err != nil {
		return err
	}
	if err := h.Restore(cancelled{ctx, f}, src); err != nil {
		return err
	}
	return f.Commit()
}

func restoreDir(ctx context.Context, path string, list []store.SourceHeader, src tensor.Source) (paths []string, err error) {
	create, name, inside := atomicfile.CreateDir, path, atomicfile.Mounted(path)
	if inside {
		create, name = atomicfile.CreateFiles, atomicfile.Inside(path)
	}
	dir, err := create(name)
	if err != nil {
		return nil, err
	}
	defer dir.Abort()
	if err := dir.Reset(); err != nil {
		return nil, err
	}
	if err := dir.Note([]byte("restore")); err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
		to := dir.Path(list[i].Name)
		if err := atomicfile.MkdirAll(filepath.Dir(to)); err != nil {
			return nil, err
		}
		if err := restoreFile(ctx, to, &list[i], src); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(path, list[i].Name))
	}
	if !inside {
		return paths, dir.Commit()
	}
	if entries, err := foreign(path); err != nil || len(entries) > 0 {
		return nil, errors.Join(err, exists(path, "the directory is not empty"))
	}
	return paths, dir.Merge(names, nil)
}

// cancelled is a writer that fails when its context has ended.
type cancelled struct {
	ctx context.Context
	w   io.Writer
}

func (c cancelled) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
