//go:build !purego

package kernels

import (
	"fmt"
	"github.com/demi-weights/demi/kernels/internal/copykernel"
	"os"
	"testing"
	"time"
)

func TestMinTmp(t *testing.T) {
	if os.Getenv("MINTMP") == "" {
		t.Skip()
	}
	m := func(name string, bytes int, f func()) {
		best := time.Hour
		for range 3000 {
			s := time.Now()
			f()
			if d := time.Since(s); d < best {
				best = d
			}
		}
		fmt.Printf("%-28s %6.2f GB/s\n", name, float64(bytes)/float64(best.Nanoseconds()))
	}
	in := make([]byte, 4*Tile)
	out := make([]byte, 8*Tile)
	for _, k := range copykernel.Half {
		m("half "+k.Name, 4*Tile, func() { k.Run(out, in) })
	}
	for _, k := range copykernel.Double {
		m("double "+k.Name, 4*Tile, func() { k.Run(out, in) })
	}
	x := uint64(os.Getpid())
	m("imul chain cycles*3 (B=cyc)", 3*30000, func() {
		for range 10000 {
			x *= 3
			x *= x
			x *= 7
		}
	})
	fmt.Fprint(os.Stderr, x)
	ts := diffTiles(Tile)
	wf := make([]float32, Tile)
	yh := make([]uint16, Tile)
	for _, md := range []Mode{{}, {Rounding: Up}, {Rounding: NearestAway}, {Saturate: true}, {Rounding: Stochastic}} {
		m(fmt.Sprint("F16 ", md.Rounding, md.Saturate), 4*Tile, func() { F32ToF16(yh, ts["weights"], md) })
		m(fmt.Sprint("BF16 ", md.Rounding, md.Saturate), 4*Tile, func() { F32ToBF16(yh, ts["weights"], md) })
	}
	m("F16 up", 2*Tile, func() { F16ToF32(wf, yh) })
	m("BF16 up", 2*Tile, func() { BF16ToF32(wf, yh) })

	ys := make([]uint16, Tile)
	for _, k := range []string{"weights", "small", "sparse", "bits", "rare"} {
		xs := ts[k]
		var s Scan
		m("scan "+k, 4*Tile, func() { s.F32(xs) })
		F32ToF16(ys, xs, Mode{})
		m("diffF16 "+k, 4*Tile, func() { DiffF16(xs, ys, Mode{}) })
		F32ToBF16(ys, xs, Mode{})
		m("diffBF16 "+k, 4*Tile, func() { DiffBF16(xs, ys, Mode{}) })
	}
}
