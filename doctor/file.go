package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

// A kind is a format of weights, by its usual extension.
type kind string

const (
	safetensorsKind kind = ".safetensors"
	ggufKind        kind = ".gguf"
	demiKind        kind = ".demi"
	pytorchKind     kind = ".bin"
)

// kindOfName returns the format that a name promises; "" for names of other
// files.
func kindOfName(name string) kind {
	switch ext := filepath.Ext(name); ext {
	case ".safetensors", ".gguf", ".demi", ".bin":
		return kind(ext)
	case ".pt", ".pth", ".ckpt":
		return pytorchKind
	}
	return ""
}

// Weights are what is known of one file of weights.
type weights struct {
	path   string
	kind   kind // by its content
	infos  []tensor.Info
	meta   tensor.Metadata
	offset []int64 // of each tensor in the file
	bytes  int64   // of all tensors
	sound  bool    // the tensors can be read and all of them are there
	link   bool    // the name is a symbolic link
	fix    *Repair // of its header, if that is possible
	digest string  // of a store
	member bool    // a store says of which set it is
}

func (w *weights) base() string { return filepath.Base(w.path) }

// take keeps what a reader knows of the tensors.
func (w *weights) take(s tensor.Source) {
	w.infos, w.meta, w.sound = s.Tensors(), s.Meta(), true
	for i, in := range w.infos {
		_, at := s.Place(i)
		w.offset = append(w.offset, at)
		w.bytes += in.Size
	}
}

// file looks at one file that should have weights. It returns nil for what is
// not a file of weights after all.
func (e *examiner) file(path string) *weights {
	e.progress.file(path)
	defer e.progress.end()
	f, link := e.open(path)
	if f == nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, min(f.Size(), sniff.Size))
	if n, err := f.ReadAt(head, 0); n < len(head) {
		e.unreadable(path, err)
		return nil
	}
	e.report.Files++
	what, hint := sniff.Sniff(head)
	if e.placeholder(path, what, hint, head) {
		return nil
	}
	w := &weights{path: path, link: link, kind: kindOf(head, what, kindOfName(path))}
	if w.kind == "" {
		e.notWeights(path, what, hint)
		return nil
	}
	e.extension(w)
	e.read(w, f)
	e.report.Tensors += len(w.infos)
	e.report.Bytes += w.bytes
	return w
}

// open opens a regular file; it is nil if there is none.
func (e *examiner) open(path string) (f *regular.File, link bool) {
	l, err := os.Lstat(path)
	if err != nil {
		e.unreadable(path, err)
		return nil, false
	}
	link = l.Mode()&fs.ModeSymlink != 0
	info, err := os.Stat(path)
	switch {
	case err != nil && link && !errors.Is(err, fs.ErrPermission):
		to, _ := os.Readlink(path)
		e.add("broken-link", Finding{File: path, Text: fmt.Sprintf("a symbolic link to %q, which is not there", to)})
		return nil, link
	case err != nil:
		e.unreadable(path, err)
		return nil, link
	case !info.Mode().IsRegular():
		e.add("not-a-file", Finding{File: path, Text: fmt.Sprintf("not a regular file but a %s", modeName(info.Mode()))})
		return nil, link
	}
	if f, _, err = regular.Open(path); err != nil {
		e.unreadable(path, err)
	}
	return f, link
}

func modeName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// placeholder notes what stands in for a file; true if it is that.
func (e *examiner) placeholder(path, what, hint string, head []byte) bool {
	code := ""
	switch {
	case what == sniff.LFSPointer:
		code, what = "lfs-pointer", what+lfsSize(head)
	case strings.HasPrefix(what, sniff.LinkText):
		code = "link-text"
	case what == sniff.HTML, strings.HasPrefix(what, "an XML"):
		code, hint = "html-page", ""
	case what == sniff.Empty, what == sniff.Zeros:
		code = "empty-file"
	default:
		return false
	}
	e.add(code, Finding{File: path, Text: "it is " + what, Fix: hint})
	return true
}

// lfsSize tells the size of the file that a pointer stands for.
func lfsSize(head []byte) string {
	_, rest, ok := bytes.Cut(head, []byte("\nsize "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if n, err := strconv.ParseUint(string(line), 10, 63); ok && err == nil {
		return fmt.Sprintf(" (of %d bytes)", n)
	}
	return ""
}

// kindOf returns the format of a file by its first bytes, and by its name where
// these do not tell; "" for what has nothing to do with the formats.
func kindOf(head []byte, what string, named kind) kind {
	switch {
	case bytes.HasPrefix(head, []byte("GGUF")):
		return ggufKind
	case bytes.HasPrefix(head, []byte("\x89Demi")):
		return demiKind
	case what == sniff.PyTorch, named == pytorchKind && bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return pytorchKind
	case what == sniff.Safetensors:
		return safetensorsKind
	case what != "" && !strings.HasPrefix(what, "a Python pickle"):
		return ""
	}
	if strings.HasPrefix(what, "a Python pickle") {
		return pytorchKind
	}
	return named
}

// notWeights notes a file of another kind.
func (e *examiner) notWeights(path, what, hint string) {
	if what == "" {
		what, hint = "of a kind that is not known", ""
	}
	if kindOfName(path) == pytorchKind && !modelName(path) {
		return // files in .bin, .pt and the like hold many things
	}
	e.add("not-weights", Finding{File: path, Text: "not a file of weights: it is " + what, Fix: hint})
}

// modelName reports whether the name of a PyTorch file is that of a model.
func modelName(path string) bool {
	base := filepath.Base(path)
	return strings.HasPrefix(base, "pytorch_model") || filepath.Ext(base) == ".ckpt"
}

// extension notes a name that does not go with the content.
func (e *examiner) extension(w *weights) {
	if named := kindOfName(w.path); named != w.kind && named != "" {
		e.add("wrong-extension", Finding{File: w.path, Text: fmt.Sprintf("the content is that of a file in %s", w.kind),
			Fix: fmt.Sprintf("rename it to %s", strings.TrimSuffix(w.base(), filepath.Ext(w.path))+string(w.kind))})
	}
}

// read reads the headers of a file.
func (e *examiner) read(w *weights, f *regular.File) {
	switch w.kind {
	case ggufKind:
		e.gguf(w, f)
	case demiKind:
		e.demi(w, f)
	case pytorchKind:
		e.pytorch(w, f)
	default:
		e.safetensors(w, f)
	}
}

func (e *examiner) gguf(w *weights, f *regular.File) {
	g, err := gguf.NewFile(counted{f, &e.progress}, f.Size(), &gguf.Options{Name: w.path})
	if err != nil {
		e.refused(w.path, err)
		return
	}
	w.take(g)
	h := g.Header()
	if h.Trailing > 0 {
		e.add("trailing-bytes", Finding{Severity: Note, File: w.path, Offset: f.Size() - h.Trailing, Fix: rewrite,
			Text: fmt.Sprintf("%d bytes after the last tensor; readers of GGUF pass over them", h.Trailing)})
	}
	if h.Padding > 0 {
		e.add("missing-padding", Finding{File: w.path, Offset: f.Size(), Text: fmt.Sprintf("%d bytes of padding are missing after the last tensor", h.Padding)})
	}
	e.values(w, g)
}

func (e *examiner) demi(w *weights, f *regular.File) {
	d, err := format.NewFile(counted{f, &e.progress}, f.Size(), &format.Options{Name: w.path})
	if err != nil {
		e.refused(w.path, err)
		return
	}
	w.take(d)
	w.digest = d.Digest().String()
	_, count := d.Member()
	w.member = count > 1
	if !e.Scan {
		return
	}
	if err := d.Verify(e.ctx, e.Workers); err != nil {
		e.checksum(w, err)
		return
	}
	e.values(w, d)
}

// checksum notes what a comparison of checksums has found.
func (e *examiner) checksum(w *weights, err error) {
	w.sound = false
	var place *tensor.FileError
	if e.ctx.Err() != nil {
		return
	}
	if !errors.As(err, &place) {
		e.unreadable(w.path, err)
		return
	}
	e.add("checksum", Finding{File: w.path, Tensor: place.Tensor, Offset: max(place.Offset, 0), Text: place.Err.Error()})
}

// tensors looks at the names and types in one file.
func (e *examiner) tensors(w *weights) {
	for i, in := range w.infos {
		if strings.HasSuffix(in.Name, "position_ids") && in.DType.IsFloat() {
			e.add("float-position-ids", Finding{File: w.path, Tensor: in.Name, Offset: w.offset[i],
				Text: fmt.Sprintf("position ids of type %v, want I64", in.DType)})
		}
	}
}

// zeros reports whether all bytes from an offset on are 0.
func zeros(r io.ReaderAt, from, to int64) bool {
	buf := make([]byte, 64<<10)
	for from < to {
		p := buf[:min(int64(len(buf)), to-from)]
		if n, _ := r.ReadAt(p, from); n < len(p) || slices.ContainsFunc(p, func(b byte) bool { return b != 0 }) {
			return false
		}
		from += int64(len(p))
	}
	return true
}
