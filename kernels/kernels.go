// Package kernels converts slices of floating-point values among FP64, FP32,
// FP16 and BF16, and measures what a conversion changed. Slices go in, slices
// come out: nothing here knows of files, allocates, or starts a goroutine, and
// every function may be called by several goroutines at once on slices of
// their own.
//
// FP16 (IEEE 754 binary16) and BF16 (the high half of a binary32) values are
// held as their bits in uint16. A destination must be as long as its source,
// else the function panics; source and destination do not overlap unless the
// function says that they may.
//
// # Numbers
//
// Conversion follows IEEE 754-2019: the exact value is rounded once, by
// Mode.Rounding; results below the smallest normal number of the target are
// subnormal. A NaN keeps its sign and the top bits of its payload and becomes
// quiet, so it never turns into Inf; this is what the instructions VCVTPS2PH
// and FCVTN do. Infinities and signed zeros stay what they are.
//
// # Implementations
//
// The generic implementation in plain Go is the definition; the SIMD ones give
// the same bits for every input. Which runs is decided when the program
// starts, from the features of the processor (see internal/cpu); the build tag
// purego leaves only the generic one.
package kernels

import "fmt"

// Rounding says which neighbour a value becomes that the target cannot hold.
type Rounding uint8

// The rounding modes.
const (
	NearestEven Rounding = iota // the nearest value, of two the even one: the default of IEEE 754
	NearestAway                 // the nearest value, of two the one farther from zero
	TowardZero                  // the neighbour nearer to zero: truncation
	Up                          // the neighbour nearer to +Inf
	Down                        // the neighbour nearer to -Inf
	Stochastic                  // one of the two neighbours, with the probability that makes the mean exact
	roundingEnd
)

var roundingNames = [roundingEnd]string{"nearest-even", "nearest-away", "zero", "up", "down", "stochastic"}

// String returns the name that ParseRounding reads.
func (r Rounding) String() string {
	if r < roundingEnd {
		return roundingNames[r]
	}
	return fmt.Sprintf("Rounding(%d)", uint8(r))
}

// Roundings returns the names of all modes, the default first.
func Roundings() []string { return append([]string(nil), roundingNames[:]...) }

// ParseRounding reads the name of a rounding mode; it also knows the usual
// short ones: rne, rna, rtz, rup, rdn, sr.
func ParseRounding(s string) (Rounding, error) {
	for i, name := range roundingNames {
		if s == name {
			return Rounding(i), nil
		}
	}
	for i, name := range [roundingEnd]string{"rne", "rna", "rtz", "rup", "rdn", "sr"} {
		if s == name {
			return Rounding(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rounding %q", s)
}

// A Mode says how values are narrowed. The zero Mode rounds to nearest even,
// overflows as IEEE 754 says, and keeps subnormal results.
type Mode struct {
	Rounding Rounding

	// Saturate turns a finite value whose rounded result is beyond the
	// largest finite value of the target into that largest value. Otherwise
	// section 7.4 of IEEE 754 holds: Inf or the largest finite value,
	// according to Rounding. Inf inputs stay Inf either way.
	Saturate bool

	// Flush turns results that are subnormal in the target into zero of the
	// same sign.
	Flush bool

	// Stream and First serve Stochastic only: the random bits of element i of
	// the source are a function of Stream and First+i alone, so any split of
	// a tensor gives the same result.
	Stream Stream
	First  int64
}

// at returns the mode for the elements from i on.
func (m Mode) at(i int) Mode {
	m.First += int64(i)
	return m
}

// Tile is the largest number of elements that the Diff functions take: the
// unit in which errors are summed.
const Tile = 1 << 16

func checkLen(dst, src int) {
	if dst != src {
		panic(fmt.Sprintf("kernels: destination of %d elements for a source of %d", dst, src))
	}
}
