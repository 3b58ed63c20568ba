package kernels

import (
	"fmt"

	"github.com/demi-weights/demi/tensor"
)

// The Diff functions measure what became of a tile: element i of ref, x, is
// compared with element i of got, y, widened to the type of x. They take at
// most Tile elements, else they panic, as for slices of unequal length. A
// tensor is measured tile by tile from index 0, the results merged in order.
// Every figure is defined to the bit, whatever the processor:
//
//   - Overflow is judged by m: what the mode would round beyond the largest
//     finite value counts, whatever y is, and so does every finite x whose y is
//     Inf.
//   - Errors y-x are rounded once, in the type of x.
//   - The sums of float64 are made in 16 lanes: element i adds to lane i%16, in
//     order; then the upper half of the lanes is added to the lower half, four
//     times.
//   - Errors in ULP count the step of the target at the magnitude of x (of its
//     subnormals, below its smallest normal value), each rounded to the nearest
//     2^-16 ULP and limited to 2^31-1 of them.

// DiffF16 measures FP16 values got from ref under m.
func DiffF16(ref []float32, got []uint16, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	n := diffF16Arch(d, ref, got)
	diffF16Generic(d, ref, got, n, len(ref))
	return d.stats()
}

// DiffBF16 measures BF16 values got from ref under m.
func DiffBF16(ref []float32, got []uint16, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	n := diffBF16Arch(d, ref, got)
	diffBF16Generic(d, ref, got, n, len(ref))
	return d.stats()
}

// DiffF32 measures values of the same type.
func DiffF32(ref, got []float32, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	diffF32Generic(d, ref, got)
	return d.stats()
}

// DiffF64F16 measures FP16 values got from ref under m.
func DiffF64F16(ref []float64, got []uint16, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	diffF64F16Generic(d, ref, got, m)
	return d.stats()
}

// DiffF64BF16 measures BF16 values got from ref under m.
func DiffF64BF16(ref []float64, got []uint16, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	diffF64BF16Generic(d, ref, got, m)
	return d.stats()
}

// DiffF64F32 measures FP32 values got from ref under m.
func DiffF64F32(ref []float64, got []float32, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	diffF64F32Generic(d, ref, got, m)
	return d.stats()
}

// DiffF64 measures values of the same type.
func DiffF64(ref, got []float64, m Mode) tensor.Stats {
	checkTile(len(ref), len(got))
	d := newDiff(m)
	diffF64Generic(d, ref, got)
	return d.stats()
}

func checkTile(ref, got int) {
	if ref != got {
		panic(fmt.Sprintf("kernels: %d elements to compare with %d", got, ref))
	}
	if ref > Tile {
		panic(fmt.Sprintf("kernels: %d elements are more than a tile of %d", ref, Tile))
	}
}

// lanes is the number of sums that the elements of a tile take turns in.
const lanes = 16

// A diff gathers the figures of a tile.
type diff struct {
	tensor.Stats                // but for the sums in lanes
	overF16, overBF16 [2]uint32 // the least magnitude that overflows, as bits, by sign of x
	err2, ref2, refEr [lanes]float64
}

// newDiff returns an empty diff. It is inlined, so that it stays on the stack.
func newDiff(m Mode) *diff {
	d := new(diff)
	d.start(m)
	return d
}

func (d *diff) start(m Mode) {
	d.MaxIndex = -1
	for sign, t := range m.Rounding.towards() {
		d.overF16[sign] = uint32(f32ToF16(m).over(t))
		d.overBF16[sign] = uint32(f32ToBF16(m).over(t))
	}
}

// over returns the least magnitude, as the source has it, that becomes Inf or
// would if the direction did not forbid it. What dice and inward have in
// common is that it would be Inf if exponents had no end.
func (s step) over(t toward) uint64 {
	switch t {
	case outward:
		return s.safe + 1
	case even, away:
		return s.safe + 1<<s.low>>1
	}
	return s.safe + 1<<s.low
}

// stats returns the figures with the lanes added up.
func (d *diff) stats() tensor.Stats {
	s := d.Stats
	s.SumErr2, s.SumRef2, s.SumRefEr = fold(d.err2), fold(d.ref2), fold(d.refEr)
	return s
}

func fold(l [lanes]float64) float64 {
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}
