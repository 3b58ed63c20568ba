package main

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/bits"
	"sync"
)

// A shape is a kind of distribution.
type shape int

const (
	normal    shape = iota // mean and std
	uniform                // from mean-std to mean+std
	logNormal              // mean times about exp(std z)
	constant               // mean, as an integer
)

// A law says how the values of a tensor are distributed.
type law struct {
	shape     shape
	mean, std float64
	special   *channels // nil: all are alike
}

// A channels says which output channels are not like the others: their values
// are multiplied by factor. Element i is of channel i/stride mod width.
type channels struct {
	list          []int64
	factor        float64
	stride, width int64
}

// A generator gives the values of one tensor. Each is a function of the seed,
// the name of the tensor and its index, so that they can be read in any order,
// and the same on every machine: of floating-point arithmetic there are single,
// correctly rounded operations, which no compiler may fuse.
type generator struct {
	key uint64
	law law
}

// seed is part of every value.
const seed = 20230817

func newGenerator(name string, l law) generator {
	h := fnv.New64a()
	h.Write([]byte(name))
	return generator{mix(h.Sum64() ^ seed), l}
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes the values from index first on to p, as little-endian FP32, or
// I64 for a constant.
func (g generator) fill(p []byte, first int64) {
	if g.law.shape == constant {
		for ; len(p) > 0; p = p[8:] {
			binary.LittleEndian.PutUint64(p, uint64(g.law.mean))
		}
		return
	}
	for i := first; len(p) > 0; i, p = i+1, p[4:] {
		x := g.value(mix(g.key + uint64(i)*0x9e3779b97f4a7c15))
		if s := g.law.special; s != nil {
			x *= s.of(i)
		}
		binary.LittleEndian.PutUint32(p, math.Float32bits(float32(x)))
	}
}

func (g generator) value(u uint64) float64 {
	l := &g.law
	switch l.shape {
	case uniform:
		return l.mean + float64(float64(int64(u)>>11)*(l.std*0x1p-52))
	case logNormal:
		return l.mean * exp(l.std*deviate(u))
	}
	return l.mean + float64(deviate(u)*l.std)
}

// of returns the factor of element i.
func (s *channels) of(i int64) float64 {
	c := i / s.stride % s.width
	for _, k := range s.list {
		if c == k {
			return s.factor
		}
	}
	return 1
}

// exp is (1+x/1024)^1024, near enough to the exponential function for a
// distribution, and the same on every machine, as math.Exp is not.
func exp(x float64) float64 {
	y := 1 + x/1024
	for range 10 {
		y = float64(y * y)
	}
	return y
}

// The normal distribution is its quantiles, with straight lines between them:
// pieces for every octave of the tail, so that the tails are there, out to 6.4
// standard deviations.
const (
	octaves = 32
	pieces  = 64
)

// quantiles has z in units of 2^-24 for tails of 2^-(k+2) * (1 + s/pieces). The
// rounding hides that machines differ in the last bits of Erfinv.
var quantiles = sync.OnceValue(func() (t [octaves][pieces + 1]int64) {
	for k := range t {
		for s := range t[k] {
			tail := math.Ldexp(1+float64(s)/pieces, -k-2)
			t[k][s] = int64(math.Round(math.Sqrt2 * math.Erfinv(1-2*tail) * (1 << 24)))
		}
	}
	return t
})

// tails spares deviate a call.
var tails = quantiles()

// deviate returns the normal deviate of 64 random bits.
func deviate(u uint64) float64 {
	k := min(bits.LeadingZeros64(u), octaves-1)
	v := u << (k + 1) // without the leading one
	s, within := v>>58, int64(v>>38&(1<<20-1))
	z := tails[k][s]<<20 + (tails[k][s+1]-tails[k][s])*within
	if u&1 != 0 {
		z = -z
	}
	return float64(float64(z) * 0x1p-44)
}
