package verify

import (
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
)

// exponents count the finite values of a checkpoint that are not zero, before,
// by their exponents, as Details do.
type exponents map[int]int64

// newExponents adds up those of details; nil if none was measured.
func newExponents(details []*Details) exponents {
	var sum exponents
	for _, d := range details {
		if d == nil {
			continue
		}
		if sum == nil {
			sum = exponents{}
		}
		for _, x := range d.Exponents {
			sum[x.Exponent] += x.Count
		}
	}
	return sum
}

// The exponents of the 16-bit types: the least of a subnormal and of a normal
// number, and the largest.
const (
	f16Least, f16Normal, f16Most    = -24, -14, 15
	bf16Least, bf16Normal, bf16Most = -133, -126, 127
)

// between counts the values with exponents from a to b.
func (e exponents) between(a, b int) (n int64) {
	for x, c := range e {
		if x >= a && x <= b {
			n += c
		}
	}
	return n
}

// note says in words what the chart shows.
func (e exponents) note() string {
	all := e.between(math.MinInt32, math.MaxInt32)
	text := func(n int64) string { return humanize.Comma(n) + " (" + Percent(n, all) + ")" }
	return fmt.Sprintf("Of %s finite values other than zero, F16 holds %s as normal numbers and %s as subnormal ones, with fewer bits; "+
		"%s are below its smallest number and %s above its range. BF16 has %s above its range.",
		humanize.Comma(all), text(e.between(f16Normal, f16Most)), text(e.between(f16Least, f16Normal-1)),
		text(e.between(math.MinInt32, f16Least-1)), text(e.between(f16Most+1, math.MaxInt32)), text(e.between(bf16Most+1, math.MaxInt32)))
}

// exponentChart draws how many values have which exponent, on a logarithmic
// scale, above the ranges of F16 and BF16.
func exponentChart(e exponents) template.HTML {
	c := &exponentDrawing{low: f16Least - 3, high: f16Most + 3}
	for x, n := range e {
		c.low, c.high, c.most = min(c.low, x-1), max(c.high, x+2), max(c.most, n)
	}
	c.open(plotBottom+74, "how many values have which exponent. "+e.note())
	c.grid()
	for _, x := range slices.Sorted(maps.Keys(e)) {
		c.bar(x, e[x])
	}
	c.ranges()
	c.addf("</svg>")
	return template.HTML(c.String())
}

type exponentDrawing struct {
	drawing
	low, high int // of the axis
	most      int64
}

func (c *exponentDrawing) x(exponent int) float64 {
	e := min(max(exponent, c.low), c.high)
	return chartLeft + float64(plotWidth)*float64(e-c.low)/float64(c.high-c.low)
}

func (c *exponentDrawing) height(n int64) float64 {
	return plotHeight * math.Log10(1+float64(n)) / math.Log10(1+float64(max(c.most, 9)))
}

func (c *exponentDrawing) grid() {
	for n, k := int64(1), 0; n <= max(c.most, 9); n, k = n*1000, k+1 {
		y := plotBottom - c.height(n)
		c.line("grid", chartLeft, y, chartLeft+plotWidth, y)
		c.text("tick", chartLeft-6, y+4, "end", []string{"1", "thousand", "million", "billion", "10¹²", "10¹⁵", "10¹⁸"}[k])
		if n > math.MaxInt64/1000 {
			break
		}
	}
	c.line("axis", chartLeft, plotBottom, chartLeft+plotWidth, plotBottom)
	every := 10
	if c.high-c.low > 120 {
		every = 20
	}
	for e := c.low; e <= c.high; e++ {
		if e%every == 0 {
			c.text("tick", c.x(e), plotBottom+15, "middle", fmt.Sprintf("2^%d", e))
		}
	}
}

func (c *exponentDrawing) bar(e int, n int64) {
	grade, where := fine, "a normal number in F16"
	switch {
	case e > f16Most:
		grade, where = bad, "beyond the range of F16"
	case e < f16Least:
		grade, where = bad, "below the smallest number of F16"
	case e < f16Normal:
		grade, where = poor, "subnormal in F16"
	}
	h := max(c.height(n), 1.5)
	c.rect("bar "+string(grade), c.x(e)+0.5, plotBottom-h, max(c.x(e+1)-c.x(e)-1, 0.5), h,
		fmt.Sprintf("2^%d to 2^%d: %s values, %s", e, e+1, humanize.Comma(n), where))
}

// ranges draws what the types hold.
func (c *exponentDrawing) ranges() {
	for i, t := range []struct {
		name                string
		least, normal, most int
	}{{"F16", f16Least, f16Normal, f16Most}, {"BF16", bf16Least, bf16Normal, bf16Most}} {
		y := float64(plotBottom + 26 + 24*i)
		c.text("tick", chartLeft-6, y+13, "end", t.name)
		c.span("range sub", t.least, t.normal, y, "subnormal")
		c.span("range", t.normal, t.most+1, y, "normal")
	}
}

func (c *exponentDrawing) span(class string, from, to int, y float64, label string) {
	width := c.x(to) - c.x(from)
	if width <= 0 {
		return
	}
	c.rect(class, c.x(from), y, width, 18, fmt.Sprintf("%s from 2^%d to 2^%d", label, from, to))
	if width > 60 {
		c.text("inrange", c.x(from)+width/2, y+13, "middle", label)
	}
}
