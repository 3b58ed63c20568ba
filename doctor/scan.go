package doctor

import (
	"encoding/binary"
	"fmt"
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
	look := looks[in.DType]
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

// looks tells for each type what the value at the start of some bytes is.
var looks = map[tensor.DType]func(p []byte) (isNaN, isInf bool){
	tensor.F64:        func(p []byte) (bool, bool) { return above(binary.LittleEndian.Uint64(p)<<1, 0x7ff<<53) },
	tensor.F32:        func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint32(p)<<1), 0xff<<24) },
	tensor.F16:        func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint16(p)<<1), 0x1f<<11) },
	tensor.BF16:       func(p []byte) (bool, bool) { return above(uint64(binary.LittleEndian.Uint16(p)<<1), 0xff<<8) },
	tensor.F8E5M2:     func(p []byte) (bool, bool) { return above(uint64(p[0]<<1), 0x1f<<3) },
	tensor.F8E4M3:     func(p []byte) (bool, bool) { return p[0]&0x7f == 0x7f, false },
	tensor.F8E4M3FNUZ: func(p []byte) (bool, bool) { return p[0] == 0x80, false },
	tensor.F8E5M2FNUZ: func(p []byte) (bool, bool) { return p[0] == 0x80, false },
	tensor.F8E8M0:     func(p []byte) (bool, bool) { return p[0] == 0xff, false },
}

// above compares the bits of a value without its sign with those of Inf.
func above(abs, inf uint64) (isNaN, isInf bool) { return abs > inf, abs == inf }
