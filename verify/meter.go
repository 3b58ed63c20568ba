package verify

import (
	"bytes"
	"math"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A Meter measures what became of the values of a tile. It holds scratch
// memory, so each goroutine has its own. The zero Meter is ready.
type Meter struct {
	wide32 []byte
	wide64 []byte
}

// MeterMemory returns the bytes that a Meter holds after it has measured tiles
// of these two types.
func MeterMemory(from, to tensor.DType) int64 {
	switch {
	case from == tensor.F64:
		return 0
	case to == tensor.F64:
		return tile.Elems * 8
	case from == tensor.F32:
		return 0
	}
	return tile.Elems * 4
}

// Tile measures one tile: ref are the values before and got those after, in
// the byte order of the machine and in aligned memory, as many of the one as
// of the other and at most tile.Elems. Both types are F64, F32, F16 or BF16.
// mode says how the values were narrowed, as far as it is known: it decides
// what counts as overflow.
func (m *Meter) Tile(from tensor.DType, ref []byte, to tensor.DType, got []byte, mode kernels.Mode) tensor.Stats {
	var s tensor.Stats
	switch {
	case from == tensor.F64 || to == tensor.F64:
		s = m.tile64(from, ref, to, got, mode)
	case to == tensor.F16:
		s = kernels.DiffF16(m.float32s(from, ref), tile.Uint16s(got), mode)
	case to == tensor.BF16:
		s = kernels.DiffBF16(m.float32s(from, ref), tile.Uint16s(got), mode)
	default:
		s = kernels.DiffF32(m.float32s(from, ref), tile.Float32s(got), mode)
	}
	switch {
	case from == to:
		s.Changed = differing(ref, got, from.Bits()/8) // widening has hidden which NaNs signal
	case from.Bits() == 16 && to.Bits() == 16:
		s.Changed += quietened(from, tile.Uint16s(ref), to, tile.Uint16s(got))
	case from.Bits() == 16:
		s.Changed += signalling(from, tile.Uint16s(ref))
	}
	return s
}

// tile64 measures where one side has 64 bits.
func (m *Meter) tile64(from tensor.DType, ref []byte, to tensor.DType, got []byte, mode kernels.Mode) tensor.Stats {
	x := m.float64s(from, ref)
	switch to {
	case tensor.F16:
		return kernels.DiffF64F16(x, tile.Uint16s(got), mode)
	case tensor.BF16:
		return kernels.DiffF64BF16(x, tile.Uint16s(got), mode)
	case tensor.F32:
		return kernels.DiffF64F32(x, tile.Float32s(got), mode)
	}
	return kernels.DiffF64(x, tile.Float64s(got), mode)
}

// float32s returns the values of b as float32, which holds them exactly.
func (m *Meter) float32s(d tensor.DType, b []byte) []float32 {
	if d == tensor.F32 {
		return tile.Float32s(b)
	}
	if m.wide32 == nil {
		m.wide32 = tile.NewBuffer(tile.Elems * 4)
	}
	wide := tile.Float32s(m.wide32[:len(b)*2])
	Widen(wide, d, b)
	return wide
}

// float64s returns the values of b as float64, which holds them exactly.
func (m *Meter) float64s(d tensor.DType, b []byte) []float64 {
	if d == tensor.F64 {
		return tile.Float64s(b)
	}
	if m.wide64 == nil {
		m.wide64 = tile.NewBuffer(tile.Elems * 8)
	}
	wide := tile.Float64s(m.wide64[:len(b)/(d.Bits()/8)*8])
	widen64(wide, d, b)
	return wide
}

// differing counts the elements of size bytes that are not the same in a and b.
func differing(a, b []byte, size int) (n int64) {
	if bytes.Equal(a, b) {
		return 0
	}
	for i := 0; i < len(a); i += size {
		if !bytes.Equal(a[i:i+size], b[i:i+size]) {
			n++
		}
	}
	return n
}

// signalling counts the NaNs of a 16-bit type that come back quiet when they
// are widened and narrowed again.
func signalling(d tensor.DType, h []uint16) (n int64) {
	inf, quiet := uint16(0x7c00), uint16(0x0200)
	if d == tensor.BF16 {
		inf, quiet = 0x7f80, 0x0040
	}
	for _, v := range h {
		if v&0x7fff > inf && v&quiet == 0 {
			n++
		}
	}
	return n
}

// quietened counts the signalling NaNs of one 16-bit type that are the same in
// another but for being quiet: those that widening both has made equal.
func quietened(from tensor.DType, ref []uint16, to tensor.DType, got []uint16) (n int64) {
	if signalling(from, ref) == 0 {
		return 0
	}
	var x, y [1]float32
	for i := range ref {
		if signalling(from, ref[i:i+1]) == 0 {
			continue
		}
		widen16(x[:], from, ref[i:i+1])
		widen16(y[:], to, got[i:i+1])
		if math.Float32bits(x[0]) == math.Float32bits(y[0]) {
			n++
		}
	}
	return n
}
