package format

import (
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/zstdframe"
	"github.com/demi-weights/demi/tensor"
)

// The sections of version 1.
const (
	secTensors   = "tensors"
	secBlocks    = "blocks"
	secContainer = "container"
	secSet       = "set"
	secMetadata  = "metadata"
	secRecords   = "records"
	secSources   = "sources"
)

var knownSections = []string{secTensors, secBlocks, secContainer, secSet, secMetadata, secRecords, secSources}

// Flags of a section.
const (
	flagRequired   = 1 << 0
	flagCompressed = 1 << 1
)

// Flags of a tensor.
const (
	flagForeign = 1 << 0
	flagHash    = 1 << 1
)

// A Feature is something that a file makes use of beyond what every reader of
// its version knows.
type Feature struct {
	Name     string
	Required bool // a reader that does not know it must refuse the file
}

// A section is a part of the index.
type section struct {
	name   string
	flags  byte
	stored []byte
	length int64 // when it is not compressed
	at     int64 // of stored in the file
}

// An entry is what the index has of a tensor beside its Info.
type entry struct {
	offset int64
	end    int64 // of its last block
	first  int64 // number of its first block
	hash   tensor.Hash
	hashed bool
}

// A blockTable has 8 bytes for each block, as they are in the file.
type blockTable []byte

func (t blockTable) len() int64 { return int64(len(t) / 8) }

// at returns the stored length, the codec and the checksum of block k.
func (t blockTable) at(k int64) (stored int64, id codec.ID, crc uint32) {
	b := t[8*k:][:8]
	v := le.Uint32(b)
	return int64(v & 0xffffff), codec.ID(v >> 24), le.Uint32(b[4:])
}

func (t blockTable) append(stored int64, id codec.ID, crc uint32) blockTable {
	return le.AppendUint32(le.AppendUint32(t, uint32(stored)|uint32(id)<<24), crc)
}

// An index is what the index of a file says, as far as it is decoded.
type index struct {
	align    int64
	features []Feature
	sections []section
	infos    []tensor.Info
	entries  []entry
	byName   map[string]int
	blocks   blockTable
	marks    []int64 // offset of every markEvery-th block
	meta     tensor.Metadata

	container string // "" if the file does not say
	member    member // zero if the file does not say
}

const markEvery = 64

// append appends the index, whose first byte is at off of the file. Sections
// that are worth it are compressed while the budget lasts.
func (x *index) append(p []byte, off int64) []byte {
	p = le.AppendUint32(p, uint32(x.align))
	p = le.AppendUint32(p, uint32(len(x.features)))
	for _, f := range x.features {
		required := byte(0)
		if f.Required {
			required = 1
		}
		p = appendStr(append(p, required), f.Name)
	}
	p = le.AppendUint32(p, uint32(len(x.sections)))
	budget := min(off+slackSize, MaxIndex)
	for _, s := range x.sections {
		if frame := compressed(&s, budget); frame != nil {
			s.stored, s.flags = frame, s.flags|flagCompressed
			budget -= s.length
		}
		p = s.append(p)
	}
	return p
}

func (s *section) append(p []byte) []byte {
	p = append(appendStr(p, s.name), s.flags)
	p = le.AppendUint64(p, uint64(len(s.stored)))
	p = le.AppendUint64(p, uint64(s.length))
	return append(p, s.stored...)
}

const (
	compressFrom  = 4 << 10 // bytes from which a section is worth it
	compressShare = 8       // it must save one of so many bytes
)

// compressed returns the frame of a section, or nil if it stays as it is.
func compressed(s *section, budget int64) []byte {
	if s.length < compressFrom || s.length > budget || s.name == secBlocks {
		return nil
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		return nil
	}
	frame := w.EncodeAll(s.stored, nil)
	if int64(len(frame)) > s.length-s.length/compressShare {
		return nil
	}
	return frame
}

// decompressed returns the bytes of a section and where they are in the file,
// -1 if they are not there as they are.
func (f *File) decompressed(s *section) (p []byte, at int64, err error) {
	if s.flags&flagCompressed == 0 {
		return s.stored, s.at, nil
	}
	if err = zstdframe.Check(s.stored, s.length); err == nil {
		p, err = unframe(s.stored, s.length)
	}
	if err == nil && int64(len(p)) != s.length {
		err = fmt.Errorf("it decodes to %d bytes", len(p))
	}
	if err != nil {
		return nil, 0, f.fail("", s.at, tensor.ErrFormat, "section %q, %d bytes: %v", s.name, s.length, err)
	}
	return p, -1, nil
}

// unframe decodes a frame of n bytes.
func unframe(frame []byte, n int64) ([]byte, error) {
	limit := uint64(zstdframe.Window(n))
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(limit), zstd.WithDecoderMaxWindow(limit))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(frame, make([]byte, 0, n))
}

func (x *index) section(name string) *section {
	i := slices.IndexFunc(x.sections, func(s section) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &x.sections[i]
}

// foreign reports whether the file has something that is not defined here.
func (x *index) foreign() bool {
	return len(x.features) > 0 || slices.ContainsFunc(x.sections, func(s section) bool { return !slices.Contains(knownSections, s.name) })
}

func appendTensors(p []byte, infos []tensor.Info, entries []entry) []byte {
	p = le.AppendUint32(p, uint32(len(infos)))
	for i := range infos {
		p = appendTensor(p, &infos[i], &entries[i])
	}
	return p
}

func appendTensor(p []byte, in *tensor.Info, e *entry) []byte {
	flags := byte(0)
	if in.DType == tensor.Opaque {
		flags |= flagForeign
	}
	if e.hashed {
		flags |= flagHash
	}
	p = append(appendStr(p, in.Name), codeOf(in.DType), flags)
	p = le.AppendUint16(p, uint16(len(in.Shape)))
	for _, dim := range in.Shape {
		p = le.AppendUint64(p, uint64(dim))
	}
	p = le.AppendUint64(p, uint64(in.Size))
	p = le.AppendUint64(p, uint64(e.offset))
	if t := in.Foreign; flags&flagForeign != 0 {
		p = le.AppendUint32(appendStr(p, t.Name), t.ID)
		p = le.AppendUint64(p, uint64(t.BlockElems))
		p = le.AppendUint64(p, uint64(t.BlockBytes))
	}
	if e.hashed {
		p = append(p, e.hash[:]...)
	}
	return p
}
