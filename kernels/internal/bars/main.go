// Bars measures the kernels against copies of the same traffic, in one
// process and turn by turn, and prints a table in Markdown: the speed in GB/s
// of input, its ratio to the best copy, and the ratio that is wanted.
//
//	go run ./kernels/internal/bars
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/demi-weights/demi/internal/cpu"
)

func main() {
	only := flag.String("sets", "L2,L3,DRAM", "sets to measure")
	tiers := flag.String("tiers", strings.Join(cpu.Tiers(), ","), "tiers to measure")
	flag.Parse()
	for _, s := range sets {
		if !strings.Contains(*only, s.name) {
			continue
		}
		for _, goroutines := range []int{1, 2} {
			table(s, goroutines, strings.Split(*tiers, ","))
		}
	}
}

// table measures and prints everything about one set.
func table(s set, goroutines int, tiers []string) {
	w := newWork(s, goroutines)
	items := itemsFor(s, tiers)
	w.measure(items)
	fmt.Printf("\n%s, %d goroutine(s): %d KiB of FP32 each\n\n", s.name, goroutines, s.elements/256)
	fmt.Println("| kernel | tier | GB/s | ratio | bar | |\n|---|---|---|---|---|---|")
	for _, it := range items {
		if it.copies != nil {
			fmt.Printf("| %s | | %.1f | | | |\n", it.name, w.speed(it))
		}
	}
	for _, it := range items {
		if it.copies == nil {
			line(w, items, it)
		}
	}
}

func line(w *work, items []*item, it *item) {
	speed := w.speed(it)
	ratio := speed / w.limit(items, it.wide)
	bar, verdict := "", ""
	if b := it.bar(w.set, it.tier); b > 0 {
		bar, verdict = fmt.Sprintf("%.2f", b), "reached"
		if ratio < b {
			verdict = "missed"
		}
	}
	fmt.Printf("| %s | %s | %.1f | %.2f | %s | %s |\n", it.name, it.tier, speed, ratio, bar, verdict)
}

// limitTo turns a tier on.
func limitTo(tier string) {
	if err := cpu.Limit(tier); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
