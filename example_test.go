package demi_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// The loader's side: the same lines for safetensors and GGUF, files and sets.
func ExampleOpen() {
	c, err := demi.Open("testdata/charlm/sharded", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var values int64
	for t := range c.Tensors() {
		values += t.Info().Elements()
	}
	fmt.Println(c.Len(), "tensors,", values, "values")

	norm, _ := c.Tensor("model.norm.weight")
	first := make([]float32, 2)
	if err := norm.Float32s(first, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %v: %.4f\n", norm.Info().DType, norm.Info().Shape, first)
	// Output:
	// 30 tensors, 511360 values
	// F32 [128]: [1.3780 1.1749]
}

// The converter's side: plan, decide, convert, and look at what it cost.
func ExampleConvert() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	c, err := demi.Open("testdata/charlm/model.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	plan, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16)})
	if err != nil {
		log.Fatal(err)
	}
	if err := plan.Decide(ctx, c, nil); err != nil { // reads nothing here: a named type needs no look at the values
		log.Fatal(err)
	}
	sink, err := demi.Create(filepath.Join(dir, "model.safetensors"), plan, c, nil)
	if err != nil {
		log.Fatal(err)
	}
	records, err := demi.Convert(ctx, c, sink, plan, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := verify.Summarize(records)
	fmt.Printf("%d to %d bytes, SNR %.1f dB, %d overflowed\n", s.BytesIn, s.BytesOut, s.Stats.SNR(), s.Stats.Overflowed)
	// Output:
	// 2045440 to 1022720 bytes, SNR 55.7 dB, 0 overflowed
}
