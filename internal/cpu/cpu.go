// Package cpu tells which implementations of the SIMD kernels this processor
// can run. A tier is on only if the processor has every feature that its code
// uses, for features do not imply one another.
package cpu

import "fmt"

// The names of the tiers, from the plainest to the most capable of each
// architecture.
const (
	Generic = "generic" // plain Go
	AVX2    = "avx2"    // amd64: AVX2, F16C, FMA, POPCNT, BMI2
	AVX512  = "avx512"  // amd64: AVX2 tier and AVX-512 F, BW, DQ, VL, VBMI, VBMI2
	NEON    = "neon"    // arm64: ASIMD
)

// These say which tiers are on. They are set when the program starts and by
// Limit only; kernels read them without locking.
var (
	HasAVX2, HasAVX512, HasNEON = detect()
)

// Best returns the name of the most capable tier that is on.
func Best() string {
	switch {
	case HasAVX512:
		return AVX512
	case HasAVX2:
		return AVX2
	case HasNEON:
		return NEON
	}
	return Generic
}

// Tiers returns the tiers that this processor can run, Generic first.
func Tiers() []string {
	tiers := []string{Generic}
	avx2, avx512, neon := detect()
	if avx2 {
		tiers = append(tiers, AVX2)
	}
	if avx512 {
		tiers = append(tiers, AVX512)
	}
	if neon {
		tiers = append(tiers, NEON)
	}
	return tiers
}

// Limit turns off every tier above the named one; "" turns all on again. It
// is for tests and for the program's hidden flag, and must not be called
// while kernels run. A tier that the processor lacks is an error.
func Limit(tier string) error {
	avx2, avx512, neon := detect()
	switch tier {
	case "":
	case Generic:
		avx2, avx512, neon = false, false, false
	case AVX2:
		avx512 = false
	case AVX512, NEON:
	default:
		return fmt.Errorf("unknown tier %q (generic, avx2, avx512, neon)", tier)
	}
	if tier == AVX2 && !avx2 || tier == AVX512 && !avx512 || tier == NEON && !neon {
		return fmt.Errorf("this processor cannot run tier %q", tier)
	}
	HasAVX2, HasAVX512, HasNEON = avx2, avx512, neon
	return nil
}
