package kernels_test

import (
	"fmt"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// A slice is rounded and measured tile by tile, while the tile is in cache.
func Example() {
	weights := make([]float32, 100_000)
	for i := range weights {
		weights[i] = float32(i) * 0.7
	}
	mode := kernels.Mode{Rounding: kernels.NearestEven}

	half := make([]uint16, len(weights))
	var total tensor.Stats
	for lo := 0; lo < len(weights); lo += kernels.Tile {
		hi := min(lo+kernels.Tile, len(weights))
		kernels.F32ToF16(half[lo:hi], weights[lo:hi], mode)
		s := kernels.DiffF16(weights[lo:hi], half[lo:hi], mode)
		total.Merge(&s)
	}

	fmt.Println("values:", total.Count)
	fmt.Println("too large for FP16:", total.Overflowed)
	fmt.Printf("largest error: %.2f at %d, where %.2f became %v\n", total.MaxAbs, total.MaxIndex, total.MaxRef, total.MaxGot)
	fmt.Printf("signal to noise: %.1f dB\n", total.SNR())
	// Output:
	// values: 100000
	// too large for FP16: 6400
	// largest error: 16.00 at 46880, where 32816.00 became 32832
	// signal to noise: 74.7 dB
}

// A Scan tells, before anything is converted, what would be lost.
func ExampleScan() {
	var s kernels.Scan
	s.F32([]float32{1, 0.5, -0.25, 65504, 1e-3})
	fmt.Println("do not fit FP16:", s.NotF16)
	fmt.Println("do not fit BF16:", s.NotBF16)
	fmt.Println("largest:", s.Largest)
	// Output:
	// do not fit FP16: 1
	// do not fit BF16: 2
	// largest: 65504
}

// The same seed, name and index give the same bits, however the work is split.
func ExampleNewStream() {
	mode := kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.NewStream(42, "model.embed_tokens.weight")}
	src, whole, parts := []float32{1.001, 1.002, 1.003, 1.004}, make([]uint16, 4), make([]uint16, 4)
	kernels.F32ToBF16(whole, src, mode)

	kernels.F32ToBF16(parts[:1], src[:1], mode)
	mode.First = 1
	kernels.F32ToBF16(parts[1:], src[1:], mode)
	fmt.Println(fmt.Sprint(whole) == fmt.Sprint(parts))
	// Output: true
}
