package verify

import (
	"math"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A detailMeter measures the Detail of tiles. It belongs to one goroutine.
type detailMeter struct {
	x, y [chunk]float64
	all  pairBits // of a tensor that is one tile
}

// chunk is the number of elements that are widened at a time: what stays in
// the first cache.
const chunk = 1024

// detailMemory is what a detailMeter may hold, with its share of samples that
// wait to be merged.
const detailMemory = 2*chunk*8 + 2*tile.Elems*8 + 2*tile.Elems*8

// tile measures one tile, whose bytes are as Meter.Tile takes them. ref is the
// tensor, first the index of the first element in it.
func (m *detailMeter) tile(ref tensor.Info, x []byte, to tensor.DType, y []byte, first int64) *Detail {
	d := &Detail{MaxRelIndex: -1}
	p := paramsOf(to)
	total := ref.Elements()
	whole := total <= tile.Elems
	m.all.ref, m.all.got = m.all.ref[:0], m.all.got[:0]
	into, step := &d.sample, sampleStep(total)
	if whole {
		into, step = &m.all, 1
	}
	wx, wy := ref.DType.Bits()/8, to.Bits()/8
	for at, n := 0, len(x)/wx; at < n; at += chunk {
		k := min(chunk, n-at)
		a, b := m.x[:k], m.y[:k]
		widen64(a, ref.DType, x[at*wx:(at+k)*wx])
		widen64(b, to, y[at*wy:(at+k)*wy])
		d.pairs(p, a, b, int64(at))
		into.take(a, b, first+int64(at), step)
	}
	if whole {
		if len(ref.Shape) == 1 && total >= 2*topK {
			d.top(m.all.ref, m.all.got)
		}
		d.distinct(&m.all)
	}
	return d
}

// take adds the elements whose index in the tensor is a multiple of step; the
// first of x and y has index at.
func (p *pairBits) take(x, y []float64, at, step int64) {
	for i := -at & (step - 1); i < int64(len(x)); i += step {
		p.ref = append(p.ref, math.Float64bits(x[i]))
		p.got = append(p.got, math.Float64bits(y[i]))
	}
}

// widen64 converts values to float64, which holds each of them exactly.
func widen64(dst []float64, d tensor.DType, b []byte) {
	switch d {
	case tensor.F64:
		copy(dst, tile.Float64s(b))
	case tensor.F32:
		kernels.F32ToF64(dst, tile.Float32s(b))
	case tensor.F16:
		kernels.F16ToF64(dst, tile.Uint16s(b))
	case tensor.BF16:
		kernels.BF16ToF64(dst, tile.Uint16s(b))
	default:
		panic("verify: no float64 for " + d.String())
	}
}
