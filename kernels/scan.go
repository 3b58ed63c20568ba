package kernels

import "math"

// A Scan gathers what decides whether a tensor may become narrower. Its zero
// value has seen nothing; F32 and F64 add the values of a tile. The fields can
// be added in any order.
//
// A value fits a type if it is the same, to the bit, after narrowing and
// widening again. A signalling NaN fits no other type, for it becomes quiet; a
// quiet one fits if the part of its payload that is cut off is zero.
type Scan struct {
	Count     int64
	NotF16    int64 // values that do not fit FP16
	NotBF16   int64 // values that do not fit BF16
	NotF32    int64 // values of FP64 that do not fit FP32
	NaN       int64
	Inf       int64
	Zero      int64 // of either sign
	Subnormal int64 // subnormal in the type of the values

	Largest  float64 // largest finite |x|; 0 without any
	Smallest float64 // smallest finite |x| that is not zero; 0 without any

	// Exponents counts all values by their biased exponent as FP32: 0 are
	// zeros and subnormals, 255 Inf and NaN. Values of FP64 whose exponents
	// are outside count in the nearest bin.
	Exponents [256]int64
}

// F32 adds the values of a tile.
func (s *Scan) F32(tile []float32) {
	n := scanF32Arch(s, tile)
	s.f32Generic(tile[n:])
}

// F64 adds the values of a tile.
func (s *Scan) F64(tile []float64) {
	f16, bf16, f32 := f64ToF16(Mode{}), f64ToBF16(Mode{}), f64ToF32(Mode{})
	s.Count += int64(len(tile))
	for _, f := range tile {
		a := math.Float64bits(f) &^ sign64
		count(&s.NotF16, !f16.fits(a))
		count(&s.NotBF16, !bf16.fits(a))
		count(&s.NotF32, !f32.fits(a))
		e := min(max(int64(a>>52), 1023-127), 1023+128) - (1023 - 127)
		s.Exponents[e]++
		s.class(a > inf64, a == inf64, a, normal64, math.Abs(f))
	}
}

// Merge adds what t has seen.
func (s *Scan) Merge(t *Scan) {
	s.Count += t.Count
	s.NotF16 += t.NotF16
	s.NotBF16 += t.NotBF16
	s.NotF32 += t.NotF32
	s.NaN += t.NaN
	s.Inf += t.Inf
	s.Zero += t.Zero
	s.Subnormal += t.Subnormal
	s.extremes(t.Largest, t.Smallest)
	for e, n := range t.Exponents {
		s.Exponents[e] += n
	}
}

// extremes takes the largest and the smallest magnitude of some values, 0 if
// they have none.
func (s *Scan) extremes(largest, smallest float64) {
	s.Largest = max(s.Largest, largest)
	if s.Smallest == 0 || smallest != 0 && smallest < s.Smallest {
		s.Smallest = smallest
	}
}

func (s *Scan) f32Generic(tile []float32) {
	f16, bf16 := f32ToF16(Mode{}), f32ToBF16(Mode{})
	s.Count += int64(len(tile))
	for _, f := range tile {
		a := math.Float32bits(f) &^ sign32
		count(&s.NotF16, !f16.fits(uint64(a)))
		count(&s.NotBF16, !bf16.fits(uint64(a)))
		s.Exponents[a>>23]++
		s.class(a > inf32, a == inf32, uint64(a), normal32, math.Abs(float64(f)))
	}
}

// class counts a value whose magnitude is abs, or a as bits.
func (s *Scan) class(isNaN, isInf bool, a, normal uint64, abs float64) {
	switch {
	case isNaN:
		s.NaN++
	case isInf:
		s.Inf++
	case a == 0:
		s.Zero++
	default:
		count(&s.Subnormal, a < normal)
		s.extremes(abs, abs)
	}
}

// fits tells whether the magnitude a comes back from the target.
func (s *step) fits(a uint64) bool {
	lost, quiet := uint64(1)<<s.low-1, uint64(1)<<s.srcMant>>1
	switch {
	case a > s.srcInf:
		return a&lost == 0 && a&quiet != 0
	case a == s.srcInf:
		return true
	case a > s.safe:
		return false
	case a >= s.normal:
		return a&lost == 0
	}
	// On the grid of subnormals, as magnitude has it.
	e := max(a>>s.srcMant, 1)
	m := a - (e-1)<<s.srcMant
	return m&(1<<(s.low+uint(s.normal>>s.srcMant-e))-1) == 0
}
