package main

import (
	"time"

	"github.com/x448/float16"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/kernels/internal/copykernel"
)

// A bar is a wanted ratio, in L2 and from DRAM, with AVX-512 and with AVX2; 0
// if there is none.
type bars struct{ l2, l2AVX2, dram, dramAVX2 float64 }

// An item is one thing to measure.
type item struct {
	name   string
	wide   bool // reads 16 bits an element
	tier   string
	run    func(p *part)
	copies *copykernel.Kernel
	bars   bars
	times  []time.Duration
}

func (it *item) bar(s set, tier string) float64 {
	switch {
	case s.name == "L2" && tier == cpu.AVX512:
		return it.bars.l2
	case s.name == "L2" && tier == cpu.AVX2:
		return it.bars.l2AVX2
	case s.name == "DRAM" && tier == cpu.AVX512:
		return it.bars.dram
	case s.name == "DRAM" && tier == cpu.AVX2:
		return it.bars.dramAVX2
	}
	return 0
}

// itemsFor lists the copies and the kernels in every tier; the generic tier
// and others' code are for the smallest set only.
func itemsFor(s set, tiers []string) []*item {
	items := append(copies(copykernel.Half, false), copies(copykernel.Double, true)...)
	for _, tier := range tiers {
		if tier == cpu.Generic && s.name != "L2" {
			continue
		}
		for _, k := range kernelItems() {
			k.tier = tier
			items = append(items, k)
		}
	}
	if s.name == "L2" {
		items = append(items, x448()...)
	}
	return items
}

func copies(ks []copykernel.Kernel, wide bool) (items []*item) {
	for _, k := range ks {
		name, run := k.Name+", half", func(p *part) { k.Run(bytesOf(p.h), bytesOf(p.f32)) }
		if wide {
			name, run = k.Name+", double", func(p *part) { k.Run(bytesOf(p.wide), bytesOf(p.h)) }
		}
		items = append(items, &item{name: name, wide: wide, copies: &k, run: run})
	}
	return items
}

func kernelItems() []*item {
	type (
		mode   = kernels.Mode
		narrow = func([]uint16, []float32, mode)
	)
	to := func(name string, f narrow, m mode, b bars) *item {
		return &item{name: name, bars: b, run: func(p *part) { f(p.h, p.f32, m) }}
	}
	f16, bf16 := kernels.F32ToF16, kernels.F32ToBF16
	plain, directed := bars{.95, .95, .90, .90}, bars{.85, .85, .75, .75}
	return []*item{
		to("F32 to F16 nearest-even", f16, mode{}, plain),
		to("F32 to F16 zero", f16, mode{Rounding: kernels.TowardZero}, plain),
		to("F32 to F16 up", f16, mode{Rounding: kernels.Up}, plain),
		to("F32 to F16 down", f16, mode{Rounding: kernels.Down}, plain),
		to("F32 to BF16 nearest-even", bf16, mode{}, bars{.95, .70, .90, .70}),
		to("F32 to BF16 nearest-away", bf16, mode{Rounding: kernels.NearestAway}, directed),
		to("F32 to BF16 zero", bf16, mode{Rounding: kernels.TowardZero}, directed),
		to("F32 to BF16 up", bf16, mode{Rounding: kernels.Up}, directed),
		to("F32 to BF16 down", bf16, mode{Rounding: kernels.Down}, directed),
		to("F32 to F16 saturating", f16, mode{Saturate: true}, bars{.78, .78, .75, .75}),
		to("F32 to BF16 saturating", bf16, mode{Saturate: true}, bars{}),
		to("F32 to F16 nearest-away", f16, mode{Rounding: kernels.NearestAway}, bars{}),
		to("F32 to BF16 stochastic", bf16, mode{Rounding: kernels.Stochastic}, bars{.48, .37, .75, .70}),
		to("F32 to F16 stochastic", f16, mode{Rounding: kernels.Stochastic}, bars{l2: .24, dram: .62}),
		{name: "F16 nearest-even and Diff", bars: bars{.28, .22, .62, .48}, run: diffF16},
		{name: "BF16 nearest-even and Diff", bars: bars{.22, .22, .58, .58}, run: diffBF16},
		{name: "Scan", run: scan},
		{name: "F16 to F32", wide: true, bars: bars{.95, .95, .65, .65}, run: func(p *part) { kernels.F16ToF32(p.wide, p.h) }},
		{name: "BF16 to F32", wide: true, bars: bars{.95, .95, .65, .65}, run: func(p *part) { kernels.BF16ToF32(p.wide, p.h) }},
	}
}

// diffF16 converts and measures tile by tile, as a conversion of a tensor does.
func diffF16(p *part) {
	for i := 0; i < len(p.h); i += kernels.Tile {
		src, dst := p.f32[i:i+kernels.Tile], p.h[i:i+kernels.Tile]
		kernels.F32ToF16(dst, src, kernels.Mode{})
		kernels.DiffF16(src, dst, kernels.Mode{})
	}
}

func diffBF16(p *part) {
	for i := 0; i < len(p.h); i += kernels.Tile {
		src, dst := p.f32[i:i+kernels.Tile], p.h[i:i+kernels.Tile]
		kernels.F32ToBF16(dst, src, kernels.Mode{})
		kernels.DiffBF16(src, dst, kernels.Mode{})
	}
}

func scan(p *part) {
	var s kernels.Scan
	for i := 0; i < len(p.f32); i += kernels.Tile {
		s.F32(p.f32[i : i+kernels.Tile])
	}
}

// x448 lists the loops over github.com/x448/float16 that a Go program would
// have.
func x448() []*item {
	return []*item{
		{name: "x448/float16 Fromfloat32", run: func(p *part) {
			for i, f := range p.f32 {
				p.h[i] = float16.Fromfloat32(f).Bits()
			}
		}},
		{name: "x448/float16 Float32", wide: true, run: func(p *part) {
			for i, h := range p.h {
				p.wide[i] = float16.Frombits(h).Float32()
			}
		}},
	}
}
