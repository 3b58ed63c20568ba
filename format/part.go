package format

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A part is one file of an output, or the stream.
type part struct {
	name     string // "" for a stream
	from, to int    // tensors of the output
	file     *atomicfile.File
	out      output
	x        index
	end      int64 // of the last block
	fresh    bool  // no block of the tensor has come yet
	kept     bool  // an earlier run has written it
	omitted  bool  // somebody else writes it
	placed   bool  // it is complete and has its name
	digest   tensor.Hash
}

// begin opens the file and writes the header.
func (p *part) begin(o *WriteOptions, infos []tensor.Info, meta tensor.Metadata) (err error) {
	p.x = index{align: o.Align, infos: infos[p.from:p.to], meta: meta}
	switch {
	case p.omitted:
		p.placed = true
		return nil
	case p.kept:
		return p.adopt()
	}
	if p.out.w == nil {
		if p.file, err = atomicfile.Create(p.name); err != nil {
			return err
		}
		p.out.w = p.file
	}
	p.end = headerSize
	p.out.put(appendHeader(nil))
	return p.out.flush()
}

// adopt takes a file that is there already.
func (p *part) adopt() error {
	f, err := Open(p.name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	p.digest, p.placed = f.Digest(), true
	p.x.blocks, p.x.member = f.x.blocks, f.x.member
	return nil
}

// enter begins the next tensor.
func (p *part) enter() {
	at := alignUp(p.end, p.x.align)
	p.x.entries = append(p.x.entries, entry{offset: at, first: p.x.blocks.len()})
	p.end = at
	p.fresh = true
}

// entry returns the entry of tensor i of the output.
func (p *part) entry(i int) *entry { return &p.x.entries[i-p.from] }

// block writes a block.
func (p *part) block(e *Encoded) error {
	if !p.fresh {
		p.end = alignUp(p.end, blockAlign)
	}
	p.fresh = false
	p.out.pad(p.end)
	p.out.put(e.Data)
	p.end += int64(len(e.Data))
	p.x.blocks = p.x.blocks.append(int64(len(e.Data)), e.ID, e.CRC)
	return p.out.err
}

// finish writes the index and the footer. The records are those of its tensors.
func (p *part) finish(o *WriteOptions, first bool, records []tensor.Record) error {
	for i := range records {
		if o.Hash == HashRecords {
			p.x.entries[i].hash, p.x.entries[i].hashed = records[i].Hash, true
		}
	}
	add := func(name string, flags byte, stored []byte) {
		p.x.sections = append(p.x.sections, section{name: name, flags: flags, stored: stored, length: int64(len(stored))})
	}
	add(secTensors, flagRequired, appendTensors(nil, p.x.infos, p.x.entries))
	add(secBlocks, flagRequired, p.x.blocks)
	if first && o.Container != "" {
		add(secContainer, 0, appendStr(nil, o.Container))
	}
	if p.x.member.no > 0 {
		add(secSet, 0, p.x.member.append(nil))
	}
	if len(p.x.meta) > 0 {
		add(secMetadata, 0, appendMeta(nil, p.x.meta))
	}
	if len(records) > 0 {
		add(secRecords, 0, appendRecords(nil, records))
	}
	if first && o.Sources != nil {
		list, err := o.Sources()
		if err == nil {
			err = checkSources(list)
		}
		if err != nil {
			return err
		}
		if len(list) > 0 {
			add(secSources, 0, appendSources(nil, list))
		}
	}
	at := alignUp(p.end, blockAlign)
	index := p.x.append(nil, at)
	if err := checkIndex(int64(len(index))); err != nil {
		return &tensor.FileError{File: p.name, Offset: -1, Err: err}
	}
	p.digest = digestOf(index)
	foot := footer{at, int64(len(index)), p.digest}
	p.out.pad(at)
	p.out.put(index)
	p.out.put(foot.append(nil))
	p.x.sections = nil
	return p.out.flush()
}

func (p *part) commit() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Commit()
	p.placed = err == nil
	return err
}

func (p *part) remove() error {
	if p.file == nil {
		return nil
	}
	return os.Remove(p.name)
}

func (p *part) abort() {
	if p.file != nil {
		p.file.Abort()
	}
}

// An output gathers bytes into writes of atomicfile.WriteSize. The first error
// stays.
type output struct {
	w   io.Writer
	buf []byte
	pos int64 // of the next byte that is put
	err error
}

func (o *output) put(p []byte) {
	o.pos += int64(len(p))
	for len(p) > 0 && o.err == nil {
		n := min(len(p), atomicfile.WriteSize-len(o.buf))
		o.buf = append(o.buf, p[:n]...)
		if p = p[n:]; len(o.buf) == atomicfile.WriteSize {
			o.flush()
		}
	}
}

var padding [MaxAlign]byte

// pad writes zeros up to byte to of the file: less than MaxAlign of them.
func (o *output) pad(to int64) { o.put(padding[:to-o.pos]) }

func (o *output) flush() error {
	if len(o.buf) > 0 && o.err == nil {
		n, err := o.w.Write(o.buf)
		if err == nil && n < len(o.buf) {
			err = io.ErrShortWrite
		}
		o.buf, o.err = o.buf[:0], err
	}
	return o.err
}

// checkIndex refuses an index that is longer than readers take.
func checkIndex(n int64) error {
	if n > MaxIndex {
		return classed(tensor.ErrUnsupported, "index of %d bytes or more, readers take %d: write a set of smaller files", n, MaxIndex)
	}
	return nil
}

// least returns how many bytes the index has at least: what is known of it
// before a tensor has come.
func (p *part) least(infos []tensor.Info) (n int64) {
	for i := range infos[p.from:p.to] {
		in := &infos[p.from+i]
		n += minTensor + int64(len(in.Name)) + 8*(int64(len(in.Shape))+tileCount(in))
	}
	return n
}

// check says what cannot be written.
func (o *WriteOptions) check(infos []tensor.Info, meta tensor.Metadata) error {
	var errs []error
	if o.Align < MinAlign || o.Align > MaxAlign || o.Align&(o.Align-1) != 0 {
		errs = append(errs, classed(tensor.ErrUnsupported, "alignment of %d bytes, want a power of two from %d to %d", o.Align, MinAlign, MaxAlign))
	}
	if o.Level > codec.Small {
		errs = append(errs, classed(tensor.ErrUnsupported, "compression level %v", o.Level))
	}
	errs = append(errs, checkMeta(meta)...)
	for i, err := range errs {
		errs[i] = &tensor.FileError{Offset: -1, Err: err}
	}
	return errors.Join(append(errs, o.checkTensors(infos)...)...)
}

func (o *WriteOptions) checkTensors(infos []tensor.Info) (errs []error) {
	seen := make(map[string]struct{}, len(infos))
	end := int64(headerSize)
	for i := range infos {
		in := &infos[i]
		err := checkInfo(in)
		if _, dup := seen[in.Name]; dup {
			err = classed(tensor.ErrUnsupported, "duplicate tensor name %q", in.Name)
		}
		seen[in.Name] = struct{}{}
		if err == nil {
			// more than it can take: blocks are not larger than tiles
			room := in.Size + o.Align + blockAlign*tileCount(in)
			if room < 0 || room > maxFile-end {
				err = classed(tensor.ErrUnsupported, "size of %d bytes ends beyond 2^63", in.Size)
			} else {
				end += room
			}
		}
		if err != nil {
			errs = append(errs, &tensor.FileError{Tensor: in.Name, Offset: -1, Err: err})
		}
	}
	return errs
}

func checkInfo(in *tensor.Info) error {
	switch {
	case codeOf(in.DType) == 0:
		return classed(tensor.ErrUnsupported, "elements of type %v", in.DType)
	case in.DType != tensor.Opaque && in.Foreign != tensor.Foreign{}:
		return fmt.Errorf("%w: a foreign type %q on elements of type %v", tensor.ErrFormat, in.Foreign.Name, in.DType)
	case len(in.Shape) > math.MaxUint16:
		return classed(tensor.ErrUnsupported, "%d dimensions", len(in.Shape))
	case uint64(len(in.Name)) > math.MaxUint32 || uint64(len(in.Foreign.Name)) > math.MaxUint32:
		return classed(tensor.ErrUnsupported, "a name longer than 4 GiB")
	}
	return checkSize(in)
}
