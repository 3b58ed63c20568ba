package pytorch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// The parts of a zip archive that are read, by APPNOTE.TXT of PKWARE: sizes of
// the fixed parts in bytes.
const (
	localSize     = 30
	centralSize   = 46
	endSize       = 22
	locatorSize   = 20
	end64Size     = 56
	maxComment    = math.MaxUint16
	localMagic    = "PK\x03\x04"
	centralMagic  = "PK\x01\x02"
	endMagic      = "PK\x05\x06"
	locatorMagic  = "PK\x06\x07"
	end64Magic    = "PK\x06\x06"
	flagEncrypted = 1 << 0
	flagLater     = 1 << 3 // CRC and sizes come behind the content
	zip64Extra    = 1
)

var le = binary.LittleEndian

// An entry is one file of the archive.
type entry struct {
	name   string
	header int64 // offset of the local header
	data   int64 // offset of the content
	size   int64 // of the content as it is used
	packed int64 // of the content as it is stored
	crc    uint32
	method uint16
	flags  uint16
}

func (e *entry) end() int64 { return e.data + e.packed }

// A directory says where the central directory lies, by the end record.
type directory struct {
	offset, size, count uint64
	end                 int64 // where the end records begin
}

// readArchive reads the central directory and the local headers into f.entries,
// in the order of the directory.
func (f *File) readArchive(limit uint64) error {
	d, err := f.findDirectory()
	if err != nil {
		return err
	}
	if err := f.checkDirectory(d, limit); err != nil {
		return err
	}
	text, err := f.readRange(int64(d.offset), int64(d.size))
	if err != nil {
		return err
	}
	f.dir = *d
	if err := f.parseDirectory(text, d); err != nil {
		return err
	}
	for i := range f.entries {
		if err := f.locate(&f.entries[i], int64(d.offset)); err != nil {
			return err
		}
	}
	return f.checkOverlaps()
}

// findDirectory reads the end record, and that of zip64 if there is one.
func (f *File) findDirectory() (*directory, error) {
	start := max(0, f.size-endSize-maxComment)
	tail, err := f.readRange(start, f.size-start)
	if err != nil {
		return nil, err
	}
	at := lastEnd(tail)
	if at < 0 {
		return nil, f.fail("", f.size, tensor.ErrTruncated, "zip archive has no end record in its last %d bytes: the file is truncated, or has other data behind it", len(tail))
	}
	p, off := tail[at:], start+int64(at)
	if le.Uint16(p[4:]) != le.Uint16(p[6:]) || le.Uint16(p[8:]) != le.Uint16(p[10:]) {
		return nil, f.fail("", off, tensor.ErrUnsupported, "zip archive is split over several files")
	}
	d := &directory{offset: uint64(le.Uint32(p[16:])), size: uint64(le.Uint32(p[12:])), count: uint64(le.Uint16(p[10:])), end: off}
	return d, f.findZip64(d)
}

// lastEnd returns where in tail the end record begins whose comment ends with
// tail, or -1.
func lastEnd(tail []byte) int {
	for at := len(tail); ; {
		at = bytes.LastIndex(tail[:at], []byte(endMagic))
		if at < 0 {
			return -1
		}
		if rest := tail[at:]; len(rest) >= endSize && int(le.Uint16(rest[20:])) == len(rest)-endSize {
			return at
		}
	}
}

// findZip64 puts the numbers of the zip64 end record into d. Numbers of the
// plain record that are not all ones must be the same.
func (f *File) findZip64(d *directory) error {
	saturated := d.offset == math.MaxUint32 || d.size == math.MaxUint32 || d.count == math.MaxUint16
	off := d.end - locatorSize
	var p []byte
	if off >= 0 {
		var err error
		if p, err = f.readRange(off, locatorSize); err != nil {
			return err
		}
	}
	if !strings.HasPrefix(string(p), locatorMagic) {
		if saturated {
			return f.fail("", d.end, tensor.ErrFormat, "zip archive says that it has a zip64 end record and has none")
		}
		return nil
	}
	at := le.Uint64(p[8:])
	if off < end64Size || at > uint64(off-end64Size) {
		return f.fail("", off, tensor.ErrFormat, "zip64 end record at %d does not lie before its locator at %d", at, off)
	}
	return f.readZip64(d, int64(at), off)
}

func (f *File) readZip64(d *directory, at, end int64) error {
	p, err := f.readRange(at, end64Size)
	if err != nil {
		return err
	}
	if string(p[:4]) != end64Magic || le.Uint64(p[4:]) != uint64(end-at-12) {
		return f.fail("", at, tensor.ErrFormat, "no zip64 end record of %d bytes here", end-at)
	}
	wide := directory{offset: le.Uint64(p[48:]), size: le.Uint64(p[40:]), count: le.Uint64(p[32:]), end: at}
	differs := func(narrow, limit, wide uint64) bool { return narrow != limit && narrow != wide }
	if differs(d.offset, math.MaxUint32, wide.offset) || differs(d.size, math.MaxUint32, wide.size) || differs(d.count, math.MaxUint16, wide.count) {
		return f.fail("", at, tensor.ErrFormat, "the two end records of the zip archive differ: offset %d and %d, size %d and %d, entries %d and %d",
			d.offset, wide.offset, d.size, wide.size, d.count, wide.count)
	}
	*d = wide
	return nil
}

// checkDirectory: it ends where the end records begin, and is long enough for
// what it says.
func (f *File) checkDirectory(d *directory, limit uint64) error {
	end := uint64(d.end)
	switch {
	case d.size > limit:
		return f.fail("", -1, tensor.ErrLimit, "central directory of %d bytes, the limit is %d", d.size, limit)
	case d.offset > end || d.size > end || d.offset+d.size != end:
		return f.fail("", d.end, tensor.ErrFormat, "central directory of %d bytes at %d does not end at the end record at %d", d.size, d.offset, d.end)
	case d.count > d.size/centralSize:
		return f.fail("", int64(d.offset), tensor.ErrFormat, "central directory of %d bytes cannot hold %d entries", d.size, d.count)
	}
	return nil
}

// parseDirectory fills f.entries and f.byName.
func (f *File) parseDirectory(text []byte, d *directory) error {
	f.entries = make([]entry, 0, d.count)
	f.byName = make(map[string]int, d.count)
	off := int64(d.offset)
	for len(text) > 0 {
		e, n, err := f.parseEntry(text, off)
		if err != nil {
			return err
		}
		if _, twice := f.byName[e.name]; twice {
			return f.fail("", off, tensor.ErrFormat, "zip entry %s comes twice", quote(e.name))
		}
		f.byName[e.name] = len(f.entries)
		f.entries = append(f.entries, e)
		text, off = text[n:], off+int64(n)
	}
	if uint64(len(f.entries)) != d.count {
		return f.fail("", int64(d.offset), tensor.ErrFormat, "central directory has %d entries, the end record says %d", len(f.entries), d.count)
	}
	return nil
}

// parseEntry reads the entry that begins at p, and returns its length there.
func (f *File) parseEntry(p []byte, off int64) (e entry, n int, err error) {
	if len(p) < centralSize || string(p[:4]) != centralMagic {
		return e, 0, f.fail("", off, tensor.ErrFormat, "no entry of the central directory here")
	}
	nameEnd := centralSize + int(le.Uint16(p[28:]))
	extraEnd := nameEnd + int(le.Uint16(p[30:]))
	n = extraEnd + int(le.Uint16(p[32:]))
	if n > len(p) {
		return e, 0, f.fail("", off, tensor.ErrFormat, "entry of the central directory needs %d bytes, %d are left", n, len(p))
	}
	e = entry{name: string(p[centralSize:nameEnd]), flags: le.Uint16(p[8:]), method: le.Uint16(p[10:]), crc: le.Uint32(p[16:])}
	wide := [3]uint64{uint64(le.Uint32(p[24:])), uint64(le.Uint32(p[20:])), uint64(le.Uint32(p[42:]))}
	if !widen(&wide, p[nameEnd:extraEnd]) {
		return e, 0, f.fail("", off, tensor.ErrFormat, "zip entry %s lacks its zip64 sizes", quote(e.name))
	}
	for i, to := range []*int64{&e.size, &e.packed, &e.header} {
		if wide[i] > uint64(f.size) {
			return e, 0, f.fail("", off, tensor.ErrFormat, "zip entry %s has a size or offset of %d, the file has %d bytes", quote(e.name), wide[i], f.size)
		}
		*to = int64(wide[i])
	}
	return e, n, nil
}

// widen replaces the numbers that are all ones by those of the zip64 extra
// field; false if they are not there. A number that is all ones on its own does
// not exist: writers use the field from there on.
func widen(numbers *[3]uint64, extra []byte) bool {
	field, found := extraField(extra, zip64Extra)
	for i, v := range numbers {
		if v != math.MaxUint32 {
			continue
		}
		if !found || len(field) < 8 {
			return false
		}
		numbers[i], field = le.Uint64(field), field[8:]
	}
	return true
}

func extraField(extra []byte, id uint16) (field []byte, found bool) {
	for len(extra) >= 4 {
		n := int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return nil, false
		}
		if le.Uint16(extra) == id {
			return extra[4 : 4+n], true
		}
		extra = extra[4+n:]
	}
	return nil, false
}

// locate reads the local header of e, compares it with the directory, and sets
// e.data. The content must end before limit.
func (f *File) locate(e *entry, limit int64) error {
	need := int64(localSize + len(e.name))
	if e.header > limit-need {
		return f.fail("", e.header, tensor.ErrFormat, "zip entry %s does not lie before the central directory at %d", quote(e.name), limit)
	}
	p, err := f.readRange(e.header, need)
	if err != nil {
		return err
	}
	nameLen := int64(le.Uint16(p[26:]))
	if string(p[:4]) != localMagic || nameLen != int64(len(e.name)) || string(p[localSize:]) != e.name || le.Uint16(p[8:]) != e.method {
		return f.fail("", e.header, tensor.ErrFormat, "no local header of the zip entry %s here", quote(e.name))
	}
	if err := f.compareSizes(e, p); err != nil {
		return err
	}
	e.data = e.header + need + int64(le.Uint16(p[28:]))
	if e.packed > limit || e.data > limit-e.packed {
		return f.fail("", e.header, tensor.ErrFormat, "zip entry %s of %d bytes does not lie before the central directory at %d", quote(e.name), e.packed, limit)
	}
	return nil
}

// compareSizes compares the sizes of a local header p, where it has them.
func (f *File) compareSizes(e *entry, p []byte) error {
	if (le.Uint16(p[6:])|e.flags)&flagLater != 0 {
		return nil
	}
	for _, pair := range [][2]int64{{int64(le.Uint32(p[18:])), e.packed}, {int64(le.Uint32(p[22:])), e.size}} {
		if pair[0] != pair[1] && pair[0] != math.MaxUint32 {
			return f.fail("", e.header, tensor.ErrFormat, "zip entry %s has %d bytes by its local header, %d by the central directory", quote(e.name), pair[0], pair[1])
		}
	}
	return nil
}

// checkOverlaps: no byte belongs to two entries.
func (f *File) checkOverlaps() error {
	order := f.inOrder()
	for k := 1; k < len(order); k++ {
		a, b := &f.entries[order[k-1]], &f.entries[order[k]]
		if b.header < a.end() {
			return f.fail("", b.header, tensor.ErrFormat, "zip entries %s and %s overlap: the first ends at %d", quote(a.name), quote(b.name), a.end())
		}
	}
	return nil
}

// inOrder returns the indexes of the entries in the order of the file.
func (f *File) inOrder() []int {
	order := make([]int, len(f.entries))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.entries[a].header, f.entries[b].header) })
	return order
}

// stored refuses an entry that is not stored as it is.
func (f *File) stored(e *entry) error {
	switch {
	case e.flags&flagEncrypted != 0:
		return f.fail("", e.header, tensor.ErrUnsupported, "zip entry %s is encrypted", quote(e.name))
	case e.method != 0:
		return f.fail("", e.header, tensor.ErrUnsupported, "zip entry %s is compressed (method %d): PyTorch stores them as they are; unpack the archive and pack it again without compression (zip -0)", quote(e.name), e.method)
	case e.size != e.packed:
		return f.fail("", e.header, tensor.ErrFormat, "zip entry %s is stored and has sizes of %d and %d bytes", quote(e.name), e.size, e.packed)
	}
	return nil
}
