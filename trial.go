package demi

import (
	"math"
	"math/bits"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A Trial is what one element type would cost a tensor: the figures that a
// conversion to it with the same options reports, to the bit.
type Trial struct {
	Type tensor.DType `json:"dtype"`
	Size int64        `json:"bytes"`
	// Faint is the number of finite values, not zero, of which the type holds
	// fewer than 8 significant bits, as it does below 2^-17 in F16 and below
	// 2^-126 in BF16 and F32.
	Faint int64 `json:"faint"`
	// Distinct is the number of distinct bit patterns that are left; nil for a
	// type of more than 16 bits.
	Distinct *int64 `json:"distinct"`
	// RelErr is the root of the sum of squared errors over that of squared
	// values; nil if that is no finite number.
	RelErr *float64 `json:"rel_err"`
	// Against says why Auto would not take the type; "" if nothing speaks
	// against it.
	Against string          `json:"against"`
	Figures *verify.Figures `json:"figures"`
	Stats   tensor.Stats    `json:"stats"`
}

// trials say what a tensor is tried as.
type trials struct {
	types []tensor.DType
	mode  kernels.Mode
}

// trialTypes returns the types that are worth a trial: those of 16 bits that a
// tensor does not have, and F32 for F64.
func trialTypes(from tensor.DType) (types []tensor.DType) {
	if !from.IsFloat() {
		return nil
	}
	for _, to := range []tensor.DType{tensor.F16, tensor.BF16} {
		if to != from {
			types = append(types, to)
		}
	}
	if from == tensor.F64 {
		types = append(types, tensor.F32)
	}
	return types
}

// memory returns the bytes that the trials of a tile of in need.
func (t *trials) memory(in tensor.Info) (n int64) {
	elements := min(tile.Elems, in.Elements())
	for _, to := range t.types {
		n = max(n, elements*int64(to.Bits()/8)+verify.MeterMemory(in.DType, to))
	}
	const result = 1<<16/8 + 512 // a patternSet and the figures
	return n + 3*int64(len(t.types))*result
}

// A trialTile is what one type makes of a tile, or of a tensor.
type trialTile struct {
	stats tensor.Stats
	left  patternSet // of types of 16 bits
}

// try casts a tile, in the byte order of the machine, to all types.
func (w *scanWorker) try(t *scanTile, from tensor.DType, p []byte, what *trials) {
	mode := what.mode
	mode.First = t.first
	for _, to := range what.types {
		out, stats := w.caster.castTile(from, p, to, mode)
		x := trialTile{stats: stats}
		if to.Bits() == 16 {
			w.mark(&x.left, tile.Uint16s(out))
		}
		t.trials = append(t.trials, x)
	}
}

// mergeTrials adds the trials of a tile that comes later.
func (t *scanTile) mergeTrials(u *scanTile) {
	for len(t.trials) < len(u.trials) {
		t.trials = append(t.trials, trialTile{stats: tensor.Stats{MaxIndex: -1}})
	}
	for k := range u.trials {
		t.trials[k].stats.Merge(&u.trials[k].stats)
		for i, w := range &u.trials[k].left {
			t.trials[k].left[i] |= w
		}
	}
}

// trialsOf writes down what the types have made of a tensor that was read as t.
func (t *scanTile) trialsOf(in tensor.Info, types []tensor.DType, o Options) (list []Trial) {
	for k, to := range types {
		x := Trial{Type: to, Size: in.Elements() * int64(to.Bits()/8), Stats: tensor.Stats{MaxIndex: -1}, Faint: t.faint(to, o.Flush)}
		if k < len(t.trials) { // a tensor without values has no tiles
			x.Stats = t.trials[k].stats
		}
		if to.Bits() == 16 {
			x.Distinct = new(int64)
			if k < len(t.trials) {
				*x.Distinct = t.trials[k].left.count()
			}
		}
		x.Figures = verify.NewFigures(&x.Stats)
		if e := relativeError(&x.Stats); !math.IsInf(e, 0) && !math.IsNaN(e) {
			x.RelErr = &e
		}
		list = append(list, x)
	}
	return list
}

func (s *patternSet) count() (n int64) {
	for _, w := range s {
		n += int64(bits.OnesCount64(w))
	}
	return n
}

// faint counts the values of which a type holds fewer than 8 bits, by their
// exponents. F16 has 10 bits of fraction down to 2^-14 and loses one with each
// step below, unless subnormal results are flushed.
func (t *scanTile) faint(to tensor.DType, flush bool) (n int64) {
	least := -126
	switch {
	case to == tensor.F16 && flush:
		least = -14
	case to == tensor.F16:
		least = -17
	}
	for _, count := range t.Exponents[:127+least] {
		n += count
	}
	return n - t.Zero
}

// relativeError returns the root of the sum of squared errors over that of
// squared values: 10^(-SNR/20).
func relativeError(s *tensor.Stats) float64 {
	if s.SumErr2 == 0 {
		return 0
	}
	return math.Sqrt(s.SumErr2 / s.SumRef2)
}
