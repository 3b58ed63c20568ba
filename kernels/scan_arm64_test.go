//go:build !purego

package kernels

import (
	"math"
	"testing"
)

// sameScan compares the figures of a tile with the definition, and makes sure
// that the kernel did all that it can.
func sameScan(t *testing.T, name string, xs []float32) {
	t.Helper()
	var got, kernel, want Scan
	want.f32Generic(xs)
	if got.F32(xs); got != want {
		t.Errorf("%s, %d:\n got %+v\nwant %+v", name, len(xs), got, want)
	}
	if n := scanF32Arch(&kernel, xs); len(xs) >= scanMin && n != len(xs)&^15 {
		t.Errorf("%s: did %d of %d", name, n, len(xs))
	}
}

func TestNEONScan(t *testing.T) {
	needNEON(t)
	wide := make([]float32, 1<<16)
	for _, k := range narrowings {
		k.widen(wide, all16())
		stride := uint32(1021)
		if testing.Short() {
			stride *= 13
		}
		xs := armFloats(stride, wide, k.half)
		sameScan(t, "surroundings of "+k.name, xs)
		// Without what is not finite, so that the kernel sees every block.
		finite := xs[:0]
		for _, x := range xs {
			if math.Float32bits(x)&^sign32 < inf32 {
				finite = append(finite, x)
			}
		}
		sameScan(t, "finite ones of "+k.name, finite)
		for i := 0; i+scanMin <= len(finite); i += scanMin {
			sameScan(t, "part of them", finite[i:i+scanMin])
		}
	}
	for name, xs := range armTiles(3*scanMin + 7) {
		for _, n := range []int{0, 1, 15, scanMin - 1, scanMin, scanMin + 1, scanMin + 15, scanMin + 17, len(xs) - 1} {
			sameScan(t, name, xs[:n])
			sameScan(t, name, xs[1:n+1])
		}
	}
}

// TestNEONScanOdd puts one odd value after another into ordinary blocks.
func TestNEONScanOdd(t *testing.T) {
	needNEON(t)
	xs := armTiles(scanMin)["weights"]
	for _, b := range []uint32{0, 1, 0x007fffff, 0x00800000, 0x33000000, 0x33800000, 0x38800000, 0x477fe000, 0x477fe001, 0x477ff000,
		0x47800000, 0x7f7f0000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7f802000, 0x7f810000, 0x7fc00000, 0x7fc00001, 0x7fc02000, 0x7fc10000, 0x7fffffff} {
		for at := 200; at < 233; at++ {
			x := xs[at]
			for _, sign := range []uint32{0, sign32} {
				xs[at] = math.Float32frombits(b | sign)
				sameScan(t, "odd", xs)
			}
			xs[at] = x
		}
	}
}

// TestNEONScanRuns scans more than a run.
func TestNEONScanRuns(t *testing.T) {
	needNEON(t)
	xs := make([]float32, 2*scanRun+21)
	weights := armTiles(1000)["rare"]
	for i := 0; i < len(xs); {
		i += copy(xs[i:], weights)
	}
	sameScan(t, "runs", xs)
	var s Scan
	if n := testing.AllocsPerRun(5, func() { s.F32(xs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
