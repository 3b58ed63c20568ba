package format

import (
	"bufio"
	"fmt"
	"io"
	"iter"
)

// A Range is a run of bytes of a file and what it is.
type Range struct {
	Offset, Length int64
	What           string
}

// Ranges yields what the file consists of, in order: the ranges do not overlap
// and leave nothing out.
func (f *File) Ranges() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		r := &ranger{yield: yield, more: true}
		r.to(10, "header: magic")
		r.to(12, "header: version %d", Version)
		r.to(60, "header: zeros")
		r.to(64, "header: CRC-32C")
		f.rangeTensors(r)
		if f.x.foreign() {
			r.to(f.foot.index, "data that this program does not know, or padding")
		}
		r.to(f.foot.index, "padding")
		f.rangeIndex(r)
		f.rangeFooter(r)
	}
}

// A ranger yields ranges one after another.
type ranger struct {
	yield func(Range) bool
	more  bool
	pos   int64
}

// to yields the bytes up to end, unless there are none.
func (r *ranger) to(end int64, format string, args ...any) {
	if end <= r.pos || !r.more {
		return
	}
	r.more = r.yield(Range{r.pos, end - r.pos, fmt.Sprintf(format, args...)})
	r.pos = end
}

func (f *File) rangeTensors(r *ranger) {
	for i := range f.x.infos {
		in := &f.x.infos[i]
		n := tileCount(in)
		for k := int64(0); k < n && r.more; k++ {
			b := f.block(i, k)
			r.to(b.Offset, "padding")
			r.to(b.Offset+b.Stored, "tensor %q %s %v, block %d of %d: %d bytes, %v, CRC-32C %08x",
				in.Name, in.TypeName(), in.Shape, k+1, n, b.Size, b.ID, b.CRC)
		}
	}
}

func (f *File) rangeIndex(r *ranger) {
	at := f.foot.index
	r.to(at+4, "index: alignment %d", f.x.align)
	r.to(at+8, "index: %d features", len(f.x.features))
	for _, x := range f.x.features {
		r.to(r.pos+1+4+int64(len(x.Name)), "index: feature %q, required %v", x.Name, x.Required)
	}
	r.to(r.pos+4, "index: %d sections", len(f.x.sections))
	for i := range f.x.sections {
		s := &f.x.sections[i]
		how := "stored"
		if s.flags&flagCompressed != 0 {
			how = "compressed"
		}
		r.to(s.at, "index: section %q, flags %#x, %s, %d bytes", s.name, s.flags, how, s.length)
		r.to(s.at+int64(len(s.stored)), "index: section %q, its bytes%s", s.name, f.about(s.name))
	}
}

// about says what a section has.
func (f *File) about(name string) string {
	switch name {
	case secTensors:
		return fmt.Sprintf(": %d tensors", len(f.x.infos))
	case secBlocks:
		return fmt.Sprintf(": %d blocks", f.x.blocks.len())
	case secContainer:
		return fmt.Sprintf(": %q", f.x.container)
	case secSet:
		return fmt.Sprintf(": file %d of %d, link %v", f.x.member.no, f.x.member.count, f.x.member.link)
	case secMetadata:
		return fmt.Sprintf(": %d keys", len(f.x.meta))
	}
	return ""
}

func (f *File) rangeFooter(r *ranger) {
	at := f.size - footerSize
	r.to(at+8, "footer: index at %d", f.foot.index)
	r.to(at+16, "footer: index of %d bytes", f.foot.length)
	r.to(at+48, "footer: digest %v", f.foot.digest)
	r.to(at+50, "footer: version %d", Version)
	r.to(at+52, "footer: zeros")
	r.to(at+56, "footer: CRC-32C")
	r.to(at+64, "footer: magic")
}

// Dump writes to w what a file of size bytes consists of, a line for every
// range: its offset and its length in bytes, and what it is. The lengths add
// up to the size, which the last line says.
func Dump(w io.Writer, r io.ReaderAt, size int64) error {
	f, err := NewFile(r, size, nil)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	sum := int64(0)
	for x := range f.Ranges() {
		fmt.Fprintf(out, "%12d %10d  %s\n", x.Offset, x.Length, x.What)
		sum += x.Length
	}
	fmt.Fprintf(out, "%12d %10s  end\n", sum, "")
	return out.Flush()
}
