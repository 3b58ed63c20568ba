// Command mixedprecision trains a small network with numbers stored in 16 bits
// and shows what that takes: loss scaling for FP16, master weights in FP32 or
// stochastic rounding for small updates. It rounds with the package kernels.
//
// Stored in 16 bits are weights, activations and gradients; all arithmetic is
// FP32, as on hardware that multiplies 16-bit numbers and adds in FP32. The
// recipe is that of Micikevicius et al., Mixed Precision Training,
// arXiv:1710.03740. The table is the same on every machine.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/demi-weights/demi/kernels"
)

func main() { report(os.Stdout, runs(), drift()) }

// report writes both tables.
func report(w io.Writer, trained []result, drifted []drifted) {
	fmt.Fprintf(w, "%d steps of Adam, two layers; error 1 is that of guessing the mean\n\n", steps)
	fmt.Fprintf(w, "%-44s %8s %14s %13s %8s\n", "stored as", "error", "gradients to 0", "updates lost", "skipped")
	for _, r := range trained {
		fmt.Fprintf(w, "%-44s %8.4f %12.1f %% %11.1f %% %8d\n", r.name, r.error, 100*r.vanished, 100*r.lost, r.skipped)
	}
	fmt.Fprintf(w, "\n%d times load, add 2^-12, store: 1 should become 2\n\n", drifts)
	fmt.Fprintf(w, "%-44s %8s %14s %22s\n", "stored as", "mean", "least", "without adding")
	for _, d := range drifted {
		fmt.Fprintf(w, "%-44s %8.4f %14.4f %22.4f\n", d.name, d.mean, d.least, d.idle)
	}
}

// A result is one row of the first table.
type result struct {
	name     string
	error    float64 // mean squared error over the variance of the targets
	vanished float64 // share of gradients that became zero when they were stored
	lost     float64 // share of updates after which a weight was what it was before
	skipped  int     // steps whose gradients overflowed
}

// runs trains the same network in different ways.
func runs() []result {
	sr := kernels.Mode{Rounding: kernels.Stochastic, Stream: kernels.NewStream(1, "weights")}
	return []result{
		train(recipe{name: "FP32", format: fp32, master: true}),
		train(recipe{name: "FP16", format: fp16, master: true}),
		train(recipe{name: "FP16, dynamic loss scaling", format: fp16, master: true, scaling: true}),
		train(recipe{name: "BF16", format: bf16, master: true}),
		train(recipe{name: "BF16, no master weights", format: bf16}),
		train(recipe{name: "BF16, no master weights, stochastic rounding", format: bf16, weights: sr}),
	}
}

// drifts is the number of steps of the second table.
const drifts = 4096

// A drifted is one row of the second table: what 1000 values of 1 became.
type drifted struct {
	name        string
	mean, least float64
	idle        float64 // the mean when nothing was added
}

func drift() (rows []drifted) {
	for _, f := range []format{fp16, bf16} {
		for _, r := range []kernels.Rounding{kernels.NearestEven, kernels.Up, kernels.Stochastic} {
			mode := kernels.Mode{Rounding: r, Stream: kernels.NewStream(2, "drift")}
			d := drifted{name: f.name + ", " + r.String()}
			d.mean, d.least = accumulate(f, mode, 0x1p-12)
			d.idle, _ = accumulate(f, mode, 0)
			rows = append(rows, d)
		}
	}
	return rows
}

// accumulate stores and loads values again and again, adding step each time.
func accumulate(f format, mode kernels.Mode, step float32) (mean, least float64) {
	m := memory{format: f, mode: mode}
	x := make([]float32, 1000)
	for i := range x {
		x[i] = 1
	}
	for range drifts {
		for i := range x {
			x[i] += step
		}
		m.pass(x)
	}
	least = float64(x[0])
	for _, v := range x {
		mean += float64(v)
		least = min(least, float64(v))
	}
	return mean / float64(len(x)), least
}
