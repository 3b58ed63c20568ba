package format

import (
	"slices"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/tensor"
)

// parse decodes the index, which begins at off of the file.
func (f *File) parse(p []byte, off, limit int64) error {
	c := newCursor(f.name, "index", off, p)
	f.prologue(c)
	for n := c.count(4+1+8+8, "number of sections"); n > 0 && c.err == nil; n-- {
		f.takeSection(c)
	}
	if err := c.end(); err != nil {
		return err
	}
	if err := f.checkSections(limit); err != nil {
		return err
	}
	if err := f.parseTensors(); err != nil {
		return err
	}
	if err := f.parseBlocks(off); err != nil {
		return err
	}
	if err := f.parseMember(); err != nil {
		return err
	}
	return f.parseMeta()
}

func (f *File) prologue(c *cursor) {
	f.x.align = int64(c.u32("alignment"))
	if a := f.x.align; c.err == nil && (a < MinAlign || a > MaxAlign || a&(a-1) != 0) {
		c.fail(0, tensor.ErrFormat, "alignment is %d, want a power of two from %d to %d", a, MinAlign, MaxAlign)
	}
	for n := c.count(5, "number of features"); n > 0 && c.err == nil; n-- {
		at := c.at()
		required := c.u8("feature")
		name := c.str("name of a feature")
		switch {
		case c.err == nil && required > 1:
			c.fail(at, tensor.ErrFormat, "feature %s is marked %d, want 0 or 1", quote(name), required)
		case c.err == nil && required == 1:
			c.fail(at, tensor.ErrUnsupported, "the file needs the feature %s, which this program does not know", quote(name))
		}
		f.x.features = append(f.x.features, Feature{name, required == 1})
	}
}

// takeSection reads the head of a section and takes its bytes.
func (f *File) takeSection(c *cursor) {
	at := c.at()
	s := section{name: c.str("name of a section"), flags: c.u8("flags of a section")}
	known := slices.Contains(knownSections, s.name)
	stored := c.u64("length of a section")
	s.length = c.size64("length of a section")
	s.at = c.base + int64(c.at())
	s.stored = c.bytes(stored, "section "+quote(s.name))
	switch {
	case c.err != nil:
	case !known && s.flags&flagRequired != 0:
		c.fail(at, tensor.ErrUnsupported, "the file needs the section %s, which this program does not know", quote(s.name))
	case known && s.flags&^(flagRequired|flagCompressed) != 0:
		c.fail(at, tensor.ErrFormat, "section %q has unknown flags %#x", s.name, s.flags)
	case known && s.flags&flagCompressed == 0 && s.length != int64(len(s.stored)):
		c.fail(at, tensor.ErrFormat, "section %q has %d bytes stored as %d, and is not compressed", s.name, s.length, len(s.stored))
	}
	f.x.sections = append(f.x.sections, s)
}

// checkSections looks at the sections as a whole, before any of them is
// decoded.
func (f *File) checkSections(limit int64) error {
	seen := make(map[string]struct{}, len(f.x.sections))
	total := int64(0)
	for _, s := range f.x.sections {
		if _, dup := seen[s.name]; dup {
			return f.fail("", s.at, tensor.ErrFormat, "index: section %s comes twice", quote(s.name))
		}
		seen[s.name] = struct{}{}
		if s.flags&flagCompressed == 0 || !slices.Contains(knownSections, s.name) {
			continue
		}
		if s.length > f.size+slackSize-total {
			return f.fail("", s.at, tensor.ErrFormat, "index: section %s of %d bytes: compressed sections may have %d bytes more than the file", quote(s.name), s.length, slackSize)
		}
		if total += s.length; total > limit {
			return f.fail("", s.at, tensor.ErrLimit, "index: compressed sections of %d bytes, the limit is %d", total, limit)
		}
	}
	for _, name := range []string{secTensors, secBlocks} {
		if _, ok := seen[name]; !ok {
			return f.fail("", -1, tensor.ErrFormat, "index: section %q is missing", name)
		}
	}
	return nil
}

// open returns a cursor for a section.
func (f *File) open(s *section) (*cursor, error) {
	p, at, err := f.decompressed(s)
	if err != nil {
		return nil, err
	}
	return newCursor(f.name, "section "+s.name, at, p), nil
}

const minTensor = 4 + 1 + 1 + 2 + 8 + 8 // bytes of an entry at least

func (f *File) parseTensors() error {
	c, err := f.open(f.x.section(secTensors))
	if err != nil {
		return err
	}
	n := c.count(minTensor, "number of tensors")
	f.x.byName = make(map[string]int, likely(n))
	f.x.infos, f.x.entries = make([]tensor.Info, 0, likely(n)), make([]entry, 0, likely(n))
	for i := range n {
		at := c.at()
		in, e := readTensor(c)
		if _, dup := f.x.byName[in.Name]; dup {
			c.fail(at, tensor.ErrFormat, "tensor name %s comes twice", quote(in.Name))
		}
		if c.err != nil {
			return c.err
		}
		f.x.byName[in.Name] = i
		f.x.infos, f.x.entries = append(f.x.infos, in), append(f.x.entries, e)
	}
	return c.end()
}

func readTensor(c *cursor) (in tensor.Info, e entry) {
	start := c.at()
	in.Name = c.str("name of a tensor")
	at := c.at()
	code, flags := c.u8("type"), c.u8("flags")
	in.DType = typeOf(code)
	if c.err == nil && in.DType == tensor.Invalid {
		c.fail(at, tensor.ErrUnsupported, "tensor %s has elements of type %d, which this program does not know", quote(in.Name), code)
	}
	if c.err == nil && (flags&^(flagForeign|flagHash) != 0 || (flags&flagForeign != 0) != (in.DType == tensor.Opaque)) {
		c.fail(at, tensor.ErrFormat, "tensor %s of type %d has flags %#x", quote(in.Name), code, flags)
	}
	in.Shape = readShape(c)
	in.Size, e.offset = c.size64("size"), c.size64("offset")
	if flags&flagForeign != 0 {
		in.Foreign = tensor.Foreign{Name: c.str("foreign type"), ID: c.u32("number of the foreign type")}
		in.Foreign.BlockElems, in.Foreign.BlockBytes = c.size64("elements of a block"), c.size64("bytes of a block")
	}
	if flags&flagHash != 0 {
		e.hash, e.hashed = c.hash("value hash"), true
	}
	if c.err == nil {
		if err := checkSize(&in); err != nil {
			c.fail(start, tensor.ErrFormat, "tensor %s: %v", quote(in.Name), err)
		}
	}
	return in, e
}

func readShape(c *cursor) []int64 {
	at := c.at()
	rank := int(c.u16("rank"))
	if 8*rank > len(c.p) {
		c.fail(at, tensor.ErrFormat, "rank is %d, %d bytes are left", rank, len(c.p))
		return nil
	}
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = c.size64("dimension")
	}
	return shape
}

// parseBlocks checks the table of blocks, and that the tensors lie where they
// must, up to the index at off.
func (f *File) parseBlocks(off int64) error {
	s := f.x.section(secBlocks)
	p, base, err := f.decompressed(s)
	if err != nil {
		return err
	}
	f.x.blocks = blockTable(p)
	left := int64(len(p)) / 8
	for i := range f.x.infos {
		if left -= tileCount(&f.x.infos[i]); left < 0 {
			break
		}
	}
	if left != 0 || len(p)%8 != 0 {
		return f.fail("", base, tensor.ErrFormat, "section %q has %d bytes, want 8 for each block of the tensors", s.name, len(p))
	}
	f.x.marks = make([]int64, 0, (f.x.blocks.len()+markEvery-1)/markEvery)
	end, block := int64(headerSize), int64(0)
	for i := range f.x.infos {
		e := &f.x.entries[i]
		if want := alignUp(end, f.x.align); e.offset != want {
			return f.fail(f.x.infos[i].Name, -1, tensor.ErrFormat, "offset is %d, want %d, the end of the tensor before it, aligned", e.offset, want)
		}
		if err := f.place(i, block, off); err != nil {
			return err
		}
		end, block = e.end, block+tileCount(&f.x.infos[i])
	}
	if want := alignUp(end, blockAlign); off != want && !(off > want && f.x.foreign()) {
		return f.fail("", off, tensor.ErrFormat, "the index begins at %d, the tensors end at %d", off, end)
	}
	return nil
}

// place walks the blocks of tensor i, which begin with number block and must
// end before limit.
func (f *File) place(i int, block, limit int64) error {
	in, e := &f.x.infos[i], &f.x.entries[i]
	e.first = block
	if e.offset > limit {
		return f.fail(in.Name, -1, tensor.ErrFormat, "offset is %d, behind the index at %d", e.offset, limit)
	}
	size, whole := in.Size, tileSize(in.DType)
	at, end := e.offset, e.offset
	for ; size > 0; size -= whole {
		if block%markEvery == 0 {
			f.x.marks = append(f.x.marks, at)
		}
		stored, id, _ := f.x.blocks.at(block)
		if n := min(size, whole); stored < 1 || stored > n || id == codec.Raw && stored != n {
			return f.fail(in.Name, -1, tensor.ErrFormat, "block %d has %d bytes with codec %v, for a tile of %d", block-e.first, stored, id, n)
		}
		if end = at + stored; end > limit {
			return f.fail(in.Name, -1, tensor.ErrFormat, "block %d of %d bytes at %d runs into the index at %d", block-e.first, stored, at, limit)
		}
		at = alignUp(end, blockAlign)
		block++
	}
	e.end = end
	return nil
}

// blockAt returns the offset of block k, which belongs to the tensor of e.
func (x *index) blockAt(e *entry, k int64) int64 {
	from, at := k&^(markEvery-1), int64(0)
	if from < e.first {
		from, at = e.first, e.offset
	} else {
		at = x.marks[from/markEvery]
	}
	for ; from < k; from++ {
		stored, _, _ := x.blocks.at(from)
		at = alignUp(at+stored, blockAlign)
	}
	return at
}
