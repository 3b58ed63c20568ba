package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// safetensors looks at one file, leniently, so that all its faults are found.
func (e *examiner) safetensors(w *weights, f *regular.File) {
	s, err := safetensors.NewFile(counted{f, &e.progress}, f.Size(), &safetensors.Options{Name: w.path})
	if err != nil {
		lenient, lerr := safetensors.NewFile(f, f.Size(), &safetensors.Options{Name: w.path, Lenient: true})
		if lerr != nil {
			e.refused(w.path, lerr)
			return
		}
		s = lenient
	}
	w.take(s)
	h := s.Header()
	padded := nulPadded(f, h)
	trailing := h.Trailing == 0 || zeros(f, f.Size()-h.Trailing, f.Size())
	if trailing && !w.link && plainHeader(s) {
		w.fix = &Repair{File: w.path, do: func(x *fixer) error { return x.rewrite(w.path) }}
	}
	if h.Trailing > 0 {
		e.trailing(w, f.Size()-h.Trailing, h.Trailing, trailing)
	}
	if padded {
		e.add("header-padding", Finding{File: w.path, Offset: h.DataStart - 1, Text: "the header is padded with NUL bytes, want spaces", repair: w.fix})
	}
	e.unknownTypes(w)
	e.alignment(w)
	e.values(w, s)
}

// trailing notes bytes after the last tensor. They may be anything: only zeros
// are no loss.
func (e *examiner) trailing(w *weights, at, n int64, zero bool) {
	f := Finding{File: w.path, Offset: at, Text: fmt.Sprintf("%d bytes after the last tensor", n), repair: w.fix}
	if zero {
		f.Text += ", all of them zero"
		f.Fix = "cut them off"
	} else {
		f.Fix = fmt.Sprintf("get the file again; or, if you know that they are of no use, cut it to %d bytes", at)
	}
	e.add("trailing-bytes", f)
}

// nulPadded reports whether the header ends with a NUL byte.
func nulPadded(r io.ReaderAt, h safetensors.Header) bool {
	var last [1]byte
	n, _ := r.ReadAt(last[:], h.DataStart-1)
	return n == 1 && last[0] == 0
}

// plainHeader reports whether the header has nothing that would be lost if it
// were written again: no fields beside the three of each tensor.
func plainHeader(s *safetensors.File) bool {
	section := s.HeaderSection()
	if _, err := section.Seek(8, io.SeekStart); err != nil {
		return false
	}
	var tensors map[string]map[string]json.RawMessage
	if json.NewDecoder(section).Decode(&tensors) != nil {
		return false
	}
	for name, fields := range tensors {
		if name != "__metadata__" && len(fields) != 3 {
			return false
		}
	}
	return true
}

// unknownTypes notes element types that no other reader knows either.
func (e *examiner) unknownTypes(w *weights) {
	for i, in := range w.infos {
		if in.DType == tensor.Opaque {
			e.add("unsupported", Finding{File: w.path, Tensor: in.Name, Offset: w.offset[i], Text: fmt.Sprintf("unknown element type %q", in.Foreign.Name)})
		}
	}
}

// alignment notes tensors that do not begin on a multiple of the size of their
// elements.
func (e *examiner) alignment(w *weights) {
	first, count := -1, 0
	for i, in := range w.infos {
		if in.Size > 0 && w.offset[i]%elementAlign(in.DType) != 0 {
			if count++; first < 0 {
				first = i
			}
		}
	}
	if count > 0 {
		e.add("unaligned", Finding{File: w.path, Offset: w.offset[first], repair: w.fix,
			Text: fmt.Sprintf("%d of %d tensors do not begin on a multiple of the size of their elements, the first is %q of type %v", count, len(w.infos), w.infos[first].Name, w.infos[first].DType)})
	}
}

// elementAlign is the size of an element in bytes, 1 for those that are
// narrower than a byte.
func elementAlign(d tensor.DType) int64 {
	if d.Bits()%8 != 0 {
		return 1
	}
	return max(int64(d.Bits()/8), 1)
}

// formatKey notes metadata that transformers refuses. Where there is neither
// metadata nor a configuration, other programs made the file for others.
func (e *examiner) formatKey(w *weights, configured bool) {
	if _, has := w.meta.Get("format"); w.kind != safetensorsKind || !w.sound || has {
		return
	}
	f := Finding{File: w.path, Text: `the metadata lack "format"`, repair: w.fix}
	if !configured {
		f.Severity = Note
	}
	if len(w.meta) == 0 {
		f.Text = `there are no metadata, and so no "format"`
	}
	if w.fix == nil && w.link {
		f.Fix = strings.TrimSuffix(codeOf("no-format").Fix, ")") + "; the name is a symbolic link, which --fix leaves alone)"
	}
	e.add("no-format", f)
}
