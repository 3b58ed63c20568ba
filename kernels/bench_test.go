package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/kernels/internal/copykernel"
	"github.com/x448/float16"
)

// Benchmarks count bytes of input. The sets are elements, so that input and
// output lie in that level of memory: of 4 and 2 bytes, together 384 KiB, 12
// MiB and 768 MiB.
var benchSets = []struct {
	name string
	n    int
}{{"L2", 64 << 10}, {"L3", 2 << 20}, {"DRAM", 128 << 20}}

// benchWeights returns values as weights have them. The large ones repeat.
func benchWeights(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	xs := tile.Float32s(tile.NewBuffer(4 * n))
	for i := range xs {
		if i < 1<<20 {
			xs[i] = float32(r.NormFloat64() * 0.02)
		} else {
			xs[i] = xs[i-1<<20]
		}
	}
	return xs
}

// eachSet runs f for every set and tier.
func eachSet(b *testing.B, name string, f func(b *testing.B, n int)) {
	for _, tier := range cpu.Tiers() {
		for _, set := range benchSets {
			b.Run(fmt.Sprintf("%s/tier=%s/set=%s", name, tier, set.name), func(b *testing.B) {
				limit(b, tier)
				f(b, set.n)
			})
		}
	}
}

// loop runs f until the benchmark has enough, the first time for nothing.
func loop(b *testing.B, bytes int, f func()) {
	b.SetBytes(int64(bytes))
	f()
	for b.Loop() {
		f()
	}
}

func BenchmarkNarrow(b *testing.B) {
	ms := []kernels.Mode{{Saturate: true}, {Flush: true}}
	for r := kernels.NearestEven; r <= kernels.Stochastic; r++ {
		ms = append(ms, kernels.Mode{Rounding: r})
	}
	for _, k := range kernels16 {
		for _, m := range ms {
			eachSet(b, fmt.Sprintf("to=%s/%s", k.name, modeName(m)), func(b *testing.B, n int) {
				src, dst := benchWeights(n), tile.Uint16s(tile.NewBuffer(2*n))
				loop(b, 4*n, func() { k.narrow(dst, src, m) })
			})
		}
	}
}

func BenchmarkWiden(b *testing.B) {
	for _, k := range kernels16 {
		eachSet(b, "from="+k.name, func(b *testing.B, n int) {
			dst, src := benchWeights(n), tile.Uint16s(tile.NewBuffer(2*n))
			k.narrow(src, dst, kernels.Mode{})
			loop(b, 2*n, func() { k.widen(dst, src) })
		})
	}
}

// BenchmarkX448 is the loop that one writes with x448/float16.
func BenchmarkX448(b *testing.B) {
	for _, set := range benchSets {
		b.Run("to=F16/set="+set.name, func(b *testing.B) {
			src, dst := benchWeights(set.n), make([]uint16, set.n)
			loop(b, 4*set.n, func() {
				for i, x := range src {
					dst[i] = float16.Fromfloat32(x).Bits()
				}
			})
		})
		b.Run("from=F16/set="+set.name, func(b *testing.B) {
			dst, src := benchWeights(set.n), make([]uint16, set.n)
			kernels.F32ToF16(src, dst, kernels.Mode{})
			loop(b, 2*set.n, func() {
				for i, h := range src {
					dst[i] = float16.Frombits(h).Float32()
				}
			})
		})
	}
}

// BenchmarkCopy moves the same bytes and converts nothing: the best is the
// limit.
func BenchmarkCopy(b *testing.B) {
	for _, set := range benchSets {
		wide, narrow := tile.NewBuffer(4*set.n), tile.NewBuffer(2*set.n)
		for _, k := range copykernel.Half {
			b.Run(fmt.Sprintf("half/kernel=%s/set=%s", k.Name, set.name), func(b *testing.B) {
				loop(b, len(wide), func() { k.Run(narrow, wide) })
			})
		}
		for _, k := range copykernel.Double {
			b.Run(fmt.Sprintf("double/kernel=%s/set=%s", k.Name, set.name), func(b *testing.B) {
				loop(b, len(narrow), func() { k.Run(wide, narrow) })
			})
		}
	}
}

// BenchmarkDiff measures tiles, after the conversion or with it.
func BenchmarkDiff(b *testing.B) {
	for _, k := range differs {
		eachSet(b, "of="+k.name, func(b *testing.B, n int) {
			src, dst := benchWeights(n), make([]uint16, n)
			k.narrow(dst, src, kernels.Mode{})
			loop(b, 4*n, func() {
				for i := 0; i < n; i += kernels.Tile {
					k.diff(src[i:i+kernels.Tile], dst[i:i+kernels.Tile], kernels.Mode{})
				}
			})
		})
		eachSet(b, "of="+k.name+"/and=narrow", func(b *testing.B, n int) {
			src, dst := benchWeights(n), make([]uint16, n)
			loop(b, 4*n, func() {
				for i := 0; i < n; i += kernels.Tile {
					x, y := src[i:i+kernels.Tile], dst[i:i+kernels.Tile]
					k.narrow(y, x, kernels.Mode{})
					k.diff(x, y, kernels.Mode{})
				}
			})
		})
	}
}

func BenchmarkScan(b *testing.B) {
	eachSet(b, "of=F32", func(b *testing.B, n int) {
		src := benchWeights(n)
		var s kernels.Scan
		loop(b, 4*n, func() { s.F32(src) })
	})
}

// BenchmarkF64 narrows tiles of FP64, for which there is plain Go only.
func BenchmarkF64(b *testing.B) {
	src := make([]float64, kernels.Tile)
	kernels.F32ToF64(src, benchWeights(kernels.Tile))
	for _, k := range kernels64[:2] {
		dst := make([]uint16, len(src))
		narrow := kernels.F64ToF16
		if k.format == bf16 {
			narrow = kernels.F64ToBF16
		}
		for _, r := range []kernels.Rounding{kernels.NearestEven, kernels.Up, kernels.Stochastic} {
			b.Run(fmt.Sprintf("to=%s/round=%v", k.name, r), func(b *testing.B) {
				loop(b, 8*len(src), func() { narrow(dst, src, kernels.Mode{Rounding: r}) })
			})
		}
	}
	half := make([]uint16, len(src))
	kernels.F64ToF16(half, src, kernels.Mode{})
	b.Run("diff=F16", func(b *testing.B) {
		loop(b, 8*len(src), func() { kernels.DiffF64F16(src, half, kernels.Mode{}) })
	})
}

func BenchmarkPlanes(b *testing.B) {
	src, exp, low, high := make([]uint16, kernels.Tile), make([]byte, kernels.Tile), make([]byte, kernels.Tile), make([]byte, kernels.Tile)
	kernels.F32ToBF16(src, benchWeights(len(src)), kernels.Mode{})
	for _, tier := range cpu.Tiers() {
		for name, f := range map[string]func(){
			"split=BF16": func() { kernels.SplitBF16(exp, low, src) },
			"join=BF16":  func() { kernels.JoinBF16(src, exp, low) },
			"split=F16":  func() { kernels.SplitF16(exp, low, high, src) },
			"join=F16":   func() { kernels.JoinF16(src, exp, low, high) },
		} {
			b.Run(name+"/tier="+tier, func(b *testing.B) {
				limit(b, tier)
				loop(b, 2*len(src), f)
			})
		}
	}
}
