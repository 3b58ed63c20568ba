//go:build !purego

package kernels

import (
	"math"

	"github.com/demi-weights/demi/internal/cpu"
)

// scanMin is the length from which the histograms are worth their upkeep,
// scanRun the most that they are kept for.
const (
	scanMin = 512
	scanRun = 1 << 16
)

// scanned is what the kernel of Scan gathers, of finite values.
type scanned struct {
	hist    [4][512]uint32 // values by sign and exponent
	fitF16  [4]uint32      // values that fit FP16
	notBF16 [4]uint32      // values that do not fit BF16
	zeros   [4]uint32
	largest [4]uint32 // magnitude
	least   [4]uint32 // magnitude that is not zero, less one
}

// f32Scan returns how many values it did before 16 of which one is not finite.
// n is a multiple of 16 that is not 0.
//
//go:noescape
func f32Scan(c *scanned, src *float32, n int) int

func scanF32Arch(s *Scan, src []float32) int {
	if !cpu.HasNEON || len(src) < scanMin {
		return 0
	}
	n := len(src) &^ 15
	for i := 0; i < n; i += scanRun {
		s.f32Run(src[i:min(i+scanRun, n)])
	}
	return n
}

// f32Run adds a multiple of 16 values.
func (s *Scan) f32Run(src []float32) {
	var c scanned
	for i := range c.least {
		c.least[i] = math.MaxUint32
	}
	finite := 0
	for i := 0; i < len(src); {
		n := f32Scan(&c, &src[i], len(src)-i)
		finite += n
		i += n
		if i < len(src) {
			s.f32Generic(src[i : i+16])
			i += 16
		}
	}
	s.add(&c, int64(finite))
}

// add adds what the kernel found in n values.
func (s *Scan) add(c *scanned, n int64) {
	var fit, not, zeros int64
	largest, least := uint32(0), uint32(math.MaxUint32)
	for i := range c.zeros {
		fit += int64(c.fitF16[i])
		not += int64(c.notBF16[i])
		zeros += int64(c.zeros[i])
		largest, least = max(largest, c.largest[i]), min(least, c.least[i])
	}
	s.Count += n
	s.NotF16 += n - fit
	s.NotBF16 += not
	s.Zero += zeros
	s.extremes(float64(math.Float32frombits(largest)), float64(math.Float32frombits(least+1)))
	s.Subnormal += c.bin(0) - zeros
	for e := range s.Exponents {
		s.Exponents[e] += c.bin(e)
	}
}

// bin returns how many values have the biased exponent e.
func (c *scanned) bin(e int) int64 {
	e &= 255
	var n int64
	for i := range c.hist {
		n += int64(c.hist[i][e]) + int64(c.hist[i][e+256])
	}
	return n
}
