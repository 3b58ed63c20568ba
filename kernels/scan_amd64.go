//go:build !purego

package kernels

import (
	"math"

	"github.com/demi-weights/demi/internal/cpu"
)

// scanMin is the length from which the histograms are worth their upkeep.
const scanMin = 2048

// scanned is what the kernel of Scan gathers, of finite values.
type scanned struct {
	hist    [8][512]uint32 // values by sign and exponent
	fitF16  [8]uint32      // values that fit FP16
	fitBF16 [8]uint32
	zeros   [8]uint32
	largest [8]uint32 // magnitude
	least   [8]uint32 // magnitude that is not zero, less one
}

// scanF32x256 returns how many values it did before 32 of which one is not
// finite. It serves both tiers, for counting exponents takes most of the time.
//
//go:noescape
func scanF32x256(c *scanned, src *float32, n int) int

func scanF32Arch(s *Scan, src []float32) int {
	if !cpu.HasAVX2 || len(src) < scanMin {
		return 0
	}
	n := len(src) &^ 31
	for i := 0; i < n; i += Tile {
		s.f32Piece(src[i:min(i+Tile, n)])
	}
	return n
}

// f32Piece adds a multiple of 32 values.
func (s *Scan) f32Piece(src []float32) {
	var c scanned
	for i := range c.least {
		c.least[i] = math.MaxUint32
	}
	finite := 0
	for i := 0; i < len(src); {
		n := scanF32x256(&c, &src[i], len(src)-i)
		finite += n
		i += n
		if i < len(src) {
			s.f32Generic(src[i : i+32])
			i += 32
		}
	}
	s.add(&c, int64(finite))
}

// add adds what the kernel found in n values.
func (s *Scan) add(c *scanned, n int64) {
	var f16, bf16, zeros int64
	largest, least := uint32(0), uint32(math.MaxUint32)
	for i := range c.zeros {
		f16 += int64(c.fitF16[i])
		bf16 += int64(c.fitBF16[i])
		zeros += int64(c.zeros[i])
		largest, least = max(largest, c.largest[i]), min(least, c.least[i])
	}
	s.Count += n
	s.NotF16 += n - f16
	s.NotBF16 += n - bf16
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
	var n uint32
	for i := range c.hist {
		n += c.hist[i][e] + c.hist[i][e+256]
	}
	return int64(n)
}
