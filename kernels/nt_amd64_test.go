//go:build !purego

package kernels

import (
	"fmt"
	"github.com/demi-weights/demi/kernels/internal/copykernel"
	"os"
	"testing"
	"time"
)

func TestNTtmp(t *testing.T) {
	if os.Getenv("MINTMP") == "" {
		t.Skip()
	}
	n := 128 << 20
	src := make([]byte, 4*n)
	dst := make([]byte, 4*n)
	f := make([]float32, n)
	h := make([]uint16, n)
	w := diffTiles(Tile)["weights"]
	for i := 0; i < n; {
		i += copy(f[i:], w)
	}
	for i := range src {
		src[i] = byte(i)
	}
	for i := range dst {
		dst[i] = 1
	}
	m := func(name string, b int, f func()) {
		s := time.Now()
		f()
		fmt.Printf("half %s %.1f\n", name, float64(b)/float64(time.Since(s).Nanoseconds()))
	}
	for r := 0; r < 5; r++ {
		for _, k := range copykernel.Half {
			m("copy "+k.Name, 4*n, func() { k.Run(dst[:2*n], src) })
		}
		for _, k := range copykernel.Double {
			m("double "+k.Name, 2*n, func() { k.Run(dst, src[:2*n]) })
		}
		for _, md := range []Mode{{}, {Rounding: Up}, {Saturate: true}, {Rounding: Stochastic}} {
			m(fmt.Sprint("F16 ", md.Rounding, md.Saturate), 4*n, func() { F32ToF16(h, f, md) })
			m(fmt.Sprint("BF16 ", md.Rounding, md.Saturate), 4*n, func() { F32ToBF16(h, f, md) })
		}
		m("F16up", 2*n, func() { F16ToF32(f, h) })
		m("BF16up", 2*n, func() { BF16ToF32(f, h) })
		for i := 0; i < n; {
			i += copy(f[i:], w)
		}
	}
}
