package verify_test

import (
	"context"
	"testing"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// BenchmarkMeasure compares FP32 with BF16 in memory; bytes are those of both.
func BenchmarkMeasure(b *testing.B) {
	const n = 1 << 22
	x := gauss(1, n, 0.02)
	ref := new(source).add("w", tensor.F32, bytes32(x), n)
	got := new(source).add("w", tensor.BF16, narrow(tensor.BF16, x, kernels.Mode{}), n)
	for name, o := range map[string]verify.Options{"plain": {}, "rule": {Explain: true}, "detail": {Detail: true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(6 * n)
			for b.Loop() {
				if _, err := verify.Measure(context.Background(), ref, got, &o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
