//go:build !purego

package kernels

import (
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

func TestScanArch(t *testing.T) {
	tiles := diffTiles(3*scanMin + 7)
	tiles["all"] = hard32()
	for name, xs := range tiles {
		for _, n := range []int{0, 1, 31, scanMin - 1, scanMin, scanMin + 1, scanMin + 31, scanMin + 33, len(xs)} {
			var want Scan
			want.f32Generic(xs[:n])
			eachTier(t, func(t *testing.T) {
				var got Scan
				if got.F32(xs[:n]); got != want {
					t.Errorf("%s, %d:\n got %+v\nwant %+v", name, n, got, want)
				}
			})
		}
	}
}

// TestScanArchPieces scans more than a piece, from an odd address.
func TestScanArchPieces(t *testing.T) {
	xs := make([]float32, piece+scanMin+5)
	weights := diffTiles(1000)["growing"]
	for i := 0; i < len(xs); {
		i += copy(xs[i:], weights)
	}
	var want Scan
	want.f32Generic(xs[1:])
	eachTier(t, func(t *testing.T) {
		var got Scan
		if got.F32(xs[1:]); got != want {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if n := testing.AllocsPerRun(5, func() { got.F32(xs) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkScanArch(b *testing.B) {
	for _, kind := range []string{"weights", "bits", "sparse"} {
		xs := diffTiles(Tile)[kind]
		for _, tier := range cpu.Tiers() {
			b.Run(kind+"/"+tier, func(b *testing.B) {
				cpu.Limit(tier)
				defer cpu.Limit("")
				b.SetBytes(4 * Tile)
				var s Scan
				for b.Loop() {
					s.F32(xs)
				}
			})
		}
	}
}
