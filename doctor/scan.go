package doctor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/tensor"
)

// scanBlock is how many bytes are read at once: whole elements of every type.
const scanBlock = 256 << 10

// values reads all values of a file and notes those that are not finite.
func (e *examiner) values(w *weights, s tensor.Source) {
	if !e.Scan || !w.sound {
		return
	}
	found := make([]notFinite, len(w.infos))
	var failed atomic.Bool
	errs := make([]error, len(w.infos))
	ordered.Each(e.ctx, int64(len(w.infos)), e.Workers, func(k int64) error {
		i := int(k)
		if errs[i] = found[i].read(e, s, i); errs[i] != nil {
			failed.Store(true)
		}
		return e.ctx.Err()
	})
	w.sound = w.sound && !failed.Load()
	for i, in := range w.infos {
		if errs[i] != nil && e.ctx.Err() == nil {
			e.refused(w.path, errs[i])
		}
		found[i].note(e, w, i, in)
	}
}

// notFinite are the values of a tensor that are NaN or Inf.
type notFinite struct {
	nan, inf           int64
	firstNaN, firstInf int64 // elements
}

func (v *notFinite) note(e *examiner, w *weights, i int, in tensor.Info) {
	if v.nan > 0 {
		e.add("nan", Finding{File: w.path, Tensor: in.Name, Offset: w.offset[i], Text: fmt.Sprintf("%d of %d values are NaN, the first at [%d]", v.nan, in.Elements(), v.firstNaN)})
	}
	if v.inf > 0 {
		e.add("inf", Finding{File: w.path, Tensor: in.Name, Offset: w.offset[i], Text: fmt.Sprintf("%d of %d values are infinite, the first at [%d]", v.inf, in.Elements(), v.firstInf)})
	}
}

// read looks at tensor i of a source.
func (v *notFinite) read(e *examiner, s tensor.Source, i int) error {
	in := s.Tensors()[i]
	look, mask := looks[in.DType].look, looks[in.DType].mask
	if look == nil {
		return nil
	}
	width := in.DType.Bits() / 8
	buf := make([]byte, min(scanBlock, in.Size))
	for off := int64(0); off < in.Size && e.ctx.Err() == nil; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), in.Size-off)]
		if err := tensor.ReadFull(s, i, buf, off); err != nil {
			return err
		}
		if !hasAll(buf, width, mask) {
			continue
		}
		for k := 0; k < len(buf); k += width {
			if isNaN, isInf := look(buf[k:]); isNaN || isInf {
				v.count(off/int64(width)+int64(k/width), isNaN)
			}
		}
	}
	return nil
}

func (v *notFinite) count(at int64, isNaN bool) {
	n, first := &v.inf, &v.firstInf
	if isNaN {
		n, first = &v.nan, &v.firstNaN
	}
	if *n == 0 {
		*first = at
	}
	*n++
}

// hasAll reports whether there is a value with all bits of a mask.
func hasAll(p []byte, width int, mask uint64) bool {
	switch width {
	case 8:
		for ; len(p) >= 8; p = p[8:] {
			if binary.LittleEndian.Uint64(p)&mask == mask {
				return true
			}
		}
	case 4:
		for ; len(p) >= 4; p = p[4:] {
			if m := uint32(mask); binary.LittleEndian.Uint32(p)&m == m {
				return true
			}
		}
	case 2:
		for ; len(p) >= 2; p = p[2:] {
			if m := uint16(mask); binary.LittleEndian.Uint16(p)&m == m {
				return true
			}
		}
	case 1:
		m := byte(mask)
		return slices.ContainsFunc(p, func(b byte) bool { return b&m == m })
	}
	return false
}

// looks tells for each type the bits that are set in every value that is not
// finite, which is a quick look, and what the value at the start of some bytes
// is.
var looks = map[tensor.DType]struct {
	mask uint64
	look func(p []byte) (isNaN, isInf bool)
}{
	tensor.F64:        {0x7ff << 52, func(p []byte) (bool, bool) { return above(binary.LittleEndian.Uint64(p)<<1, 0x7ff<<53) }},
	tensor.F32:        {0xff << 23, func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint32(p)<<1), 0xff<<24) }},
	tensor.F16:        {0x1f << 10, func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint16(p)<<1), 0x1f<<11) }},
	tensor.BF16:       {0xff << 7, func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint16(p)<<1), 0xff<<8) }},
	tensor.F8E5M2:     {0x1f << 2, func(p []byte) (bool, bool) { return above(uint64(p[0]<<1), 0x1f<<3) }},
	tensor.F8E4M3:     {0x7f, func(p []byte) (bool, bool) { return p[0]&0x7f == 0x7f, false }},
	tensor.F8E4M3FNUZ: {0x80, func(p []byte) (bool, bool) { return p[0] == 0x80, false }},
	tensor.F8E5M2FNUZ: {0x80, func(p []byte) (bool, bool) { return p[0] == 0x80, false }},
	tensor.F8E8M0:     {0xff, func(p []byte) (bool, bool) { return p[0] == 0xff, false }},
}

// above compares the bits of a value without its sign with those of Inf.
func above(abs, inf uint64) (isNaN, isInf bool) { return abs > inf, abs == inf }
