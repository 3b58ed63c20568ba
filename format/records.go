package format

import (
	"fmt"
	"math"

	"github.com/demi-weights/demi/tensor"
)

// Flags of a record.
const (
	flagRecord = 1 << 0
	flagFlush  = 1 << 1
	flagStats  = 1 << 2
)

// figures returns the fields of s in the order of the file.
func figures(s *tensor.Stats) []any {
	return []any{
		&s.Count, &s.Changed, &s.Overflowed, &s.Flushed, &s.Subnormal,
		&s.NaNIn, &s.NaNOut, &s.NaNLost, &s.NaNMade, &s.InfIn, &s.InfOut,
		&s.Finite, &s.SumErr2, &s.SumRef2, &s.SumRefEr, &s.ULPUp, &s.ULPAway,
		&s.MaxAbs, &s.MaxIndex, &s.MaxRef, &s.MaxGot,
	}
}

// appendRecords appends the section of records.
func appendRecords(p []byte, records []tensor.Record) []byte {
	p = le.AppendUint32(p, uint32(len(records)))
	for i := range records {
		p = appendRecord(p, &records[i])
	}
	return p
}

func appendRecord(p []byte, r *tensor.Record) []byte {
	flags := byte(flagRecord)
	if r.Flush {
		flags |= flagFlush
	}
	if r.Stats != nil {
		flags |= flagStats
	}
	p = appendStr(appendStr(append(p, flags), r.From), r.Reason)
	p = le.AppendUint64(p, uint64(r.SizeIn))
	p = appendStr(appendStr(p, r.Rounding), r.Overflow)
	p = le.AppendUint64(p, r.Seed)
	if r.Stats == nil {
		return p
	}
	fields := figures(r.Stats)
	p = le.AppendUint16(p, uint16(len(fields)))
	for _, v := range fields {
		switch v := v.(type) {
		case *int64:
			p = le.AppendUint64(p, uint64(*v))
		case *float64:
			p = le.AppendUint64(p, math.Float64bits(*v))
		}
	}
	return p
}

// checkRecords says whether records are those of the tensors.
func checkRecords(infos []tensor.Info, records []tensor.Record) error {
	if len(records) != 0 && len(records) != len(infos) {
		return fmt.Errorf("demi: %d records for %d tensors", len(records), len(infos))
	}
	for i := range records {
		if r, in := &records[i], &infos[i]; r.Name != in.Name || r.SizeOut != in.Size || r.SizeIn < 0 {
			return fmt.Errorf("demi: record %d is of %q with %d bytes, from %d; the tensor is %q with %d",
				i, r.Name, r.SizeOut, r.SizeIn, in.Name, in.Size)
		}
	}
	return nil
}

// Records returns how each tensor came to be, in the order of Tensors; nil if
// the file does not say. It decodes them at each call.
func (f *File) Records() ([]tensor.Record, error) {
	s := f.x.section(secRecords)
	if s == nil {
		return nil, nil
	}
	c, err := f.open(s)
	if err != nil {
		return nil, err
	}
	if n := c.u32("number of records"); int64(n) != int64(len(f.x.infos)) {
		c.fail(0, tensor.ErrFormat, "%d records for %d tensors", n, len(f.x.infos))
		return nil, c.err
	}
	if len(c.p) < len(f.x.infos) {
		c.fail(4, tensor.ErrFormat, "%d records in %d bytes", len(f.x.infos), len(c.p))
		return nil, c.err
	}
	var records []tensor.Record
	for i := range f.x.infos {
		if records = append(records, f.readRecord(c, i)); c.err != nil {
			return nil, c.err
		}
	}
	return records, c.end()
}

// readRecord reads the record of tensor i. What the tensor says itself is not
// in it.
func (f *File) readRecord(c *cursor, i int) (r tensor.Record) {
	in, e := &f.x.infos[i], &f.x.entries[i]
	at := c.at()
	flags := c.u8("flags of a record")
	if flags&^(flagRecord|flagFlush|flagStats) != 0 || flags != 0 && flags&flagRecord == 0 {
		c.fail(at, tensor.ErrFormat, "record of tensor %s has flags %#x", quote(in.Name), flags)
	}
	r.Name, r.To, r.Shape, r.SizeOut, r.Hash = in.Name, in.TypeName(), in.Shape, in.Size, e.hash
	if flags&flagRecord == 0 {
		return r
	}
	r.From, r.Reason = c.str("source type"), c.str("reason")
	r.SizeIn = c.size64("source size")
	r.Rounding, r.Overflow = c.str("rounding"), c.str("overflow policy")
	r.Flush, r.Seed = flags&flagFlush != 0, c.u64("seed")
	if flags&flagStats != 0 {
		r.Stats = readStats(c)
	}
	return r
}

func readStats(c *cursor) *tensor.Stats {
	s := &tensor.Stats{}
	raw := c.bytes(8*uint64(c.u16("number of figures")), "figures")
	for _, v := range figures(s) {
		if len(raw) == 0 {
			break
		}
		bits := le.Uint64(raw)
		switch v := v.(type) {
		case *int64:
			*v = int64(bits)
		case *float64:
			*v = math.Float64frombits(bits)
		}
		raw = raw[8:]
	}
	return s
}
