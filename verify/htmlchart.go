package verify

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A band is a range of SNR with one colour.
type band struct {
	Class string
	Least float64 // dB
	Label string
}

// bands are the colours of the map of parts, the least loss first.
var bands = []band{
	{string(exact), math.Inf(1), "exact"},
	{"b65", 65, "65 dB and more, as F16 has"},
	{"b50", poorSNR, "50 to 65 dB, as BF16 has"},
	{"b35", 35, "35 to 50 dB"},
	{"b20", badSNR, "20 to 35 dB"},
	{string(bad), math.Inf(-1), "below 20 dB, overflow, NaN lost"},
}

func bandOf(s *tensor.Stats) string {
	switch g := gradeOf(s); g {
	case exact, bad:
		return string(g)
	}
	for _, b := range bands[1:] {
		if s.SNR() >= b.Least {
			return b.Class
		}
	}
	return bands[1].Class // no number, from sums beyond FP64
}

// A slot is one place on the axis of layers: a layer, or some that follow each
// other where there are more than a chart has room for. Groups are called by
// their layer.
type slot struct {
	first, last int // of the layers
	all         []Group
	parts       map[string][]Group
}

// slotsMost is how many slots a chart has at most.
const slotsMost = 160

// newSlots adds up records by layer, and by part and layer. It returns the
// parts that there are, too.
func newSlots(records []tensor.Record, layers []Group) (slots []slot, parts []string) {
	per := max(1, (len(layers)+slotsMost-1)/slotsMost)
	place := map[string]int{}
	for i, g := range layers {
		if i%per == 0 {
			slots = append(slots, slot{first: i, parts: map[string][]Group{}})
		}
		k := len(slots) - 1
		place[g.Name], slots[k].last = k, i
		if g.Measured > 0 {
			slots[k].all = append(slots[k].all, g)
		}
	}
	byPart, partOf := map[string][]tensor.Record{}, partOf()
	for _, r := range records {
		if r.Stats != nil {
			part := partOf(r.Name)
			byPart[part] = append(byPart[part], r)
		}
	}
	for _, part := range Parts() {
		for _, g := range GroupBy(byPart[part], ByLayer) {
			s := &slots[place[g.Name]]
			s.parts[part] = append(s.parts[part], g)
		}
	}
	return slots, slices.DeleteFunc(Parts(), func(p string) bool { return len(byPart[p]) == 0 })
}

// lowest returns the group that lost most.
func lowest(groups []Group) *Group {
	if w := WorstGroups(groups, 1); len(w) > 0 {
		return &w[0]
	}
	return &groups[0]
}

// The sizes of charts, in units of their viewBox.
const (
	chartWidth = 960
	chartLeft  = 78 // room for labels
	chartRight = 46
	plotWidth  = chartWidth - chartLeft - chartRight
	plotTop    = 10
	plotHeight = 170
	plotBottom = plotTop + plotHeight
	rowHeight  = 18 // of the map of parts
)

// A drawing is an SVG in the making. Its looks are those of the classes in the
// style sheet; numbers have one decimal, so that they are the same everywhere.
type drawing struct{ strings.Builder }

func (d *drawing) addf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) open(height int, label string) {
	d.addf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, height, html.EscapeString(label))
}

func (d *drawing) text(class string, x, y float64, anchor, text string) {
	d.addf(`<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, html.EscapeString(text))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.addf(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// rect draws a rectangle that tells what it stands for.
func (d *drawing) rect(class string, x, y, w, h float64, title string) {
	d.addf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, class, x, y, w, h, html.EscapeString(title))
}

// link draws a rectangle that shows the tensors of a slot, and of a part if
// part is not "", in the table.
func (d *drawing) link(s *slot, part, class string, x, y, w, h float64, title string) {
	d.addf(`<a href="#tables" tabindex="-1" data-first="%d" data-last="%d" data-part="%s">`, s.first, s.last, part)
	d.rect(class, x, y, w, h, title)
	d.addf(`</a>`)
}

// layerChart draws the SNR of each layer as a bar and, below it, a map of the
// parts. It returns no chart where nothing was measured.
func layerChart(records []tensor.Record) template.HTML {
	layers := GroupBy(records, ByLayer)
	if !slices.ContainsFunc(layers, func(g Group) bool { return g.Measured > 0 }) {
		return ""
	}
	slots, parts := newSlots(records, layers)
	c := &layerDrawing{slots: slots, layers: layers, step: float64(plotWidth) / float64(len(slots)), top: topOf(slots)}
	c.open(plotBottom+8+rowHeight*len(parts)+40, chartLabel(layers))
	c.grid(records)
	c.bars()
	c.parts(parts)
	c.labels(float64(plotBottom + 8 + rowHeight*len(parts) + 14))
	c.addf("</svg>")
	return template.HTML(c.String())
}

func chartLabel(layers []Group) string {
	if w := WorstGroups(layers, 1); len(w) > 0 {
		return fmt.Sprintf("signal-to-noise ratio of %s; most was lost in %s: %s dB. The table of layers has the figures.", count1(len(layers), "layer"), visible(w[0].Name), Decibel(w[0].Stats.SNR()))
	}
	return fmt.Sprintf("signal-to-noise ratio of %s: all are exact", count1(len(layers), "layer"))
}

type layerDrawing struct {
	drawing
	slots  []slot
	layers []Group
	step   float64 // width of a slot
	top    float64 // dB at the top of the scale
}

// topOf returns the end of the scale of dB.
func topOf(slots []slot) float64 {
	top := 80.0
	for _, s := range slots {
		for i := range s.all {
			if db := s.all[i].Stats.SNR(); finite(db) != nil {
				top = max(top, 20*math.Ceil(db/20))
			}
		}
	}
	return min(top, 160)
}

func (c *layerDrawing) y(db float64) float64 {
	return plotBottom - plotHeight*min(max(db, 0), c.top)/c.top
}

func (c *layerDrawing) x(slot int) float64 { return chartLeft + c.step*float64(slot) }

// grid draws the scale, and what the types of the output give at best.
func (c *layerDrawing) grid(records []tensor.Record) {
	for db := 0.0; db <= c.top; db += 20 {
		c.line("grid", chartLeft, c.y(db), chartLeft+plotWidth, c.y(db))
		c.text("tick", chartLeft-6, c.y(db)+4, "end", fmt.Sprintf("%.0f dB", db))
	}
	for _, t := range []struct {
		name string
		db   float64
	}{{"F16", 73}, {"BF16", 56}} {
		if slices.ContainsFunc(records, func(r tensor.Record) bool { return r.To == t.name && r.From != t.name }) {
			c.line("mark", chartLeft, c.y(t.db), chartLeft+plotWidth+4, c.y(t.db))
			c.text("tick", chartLeft+plotWidth+7, c.y(t.db)+4, "start", t.name)
		}
	}
}

func (c *layerDrawing) bars() {
	width := min(c.step*0.8, 64)
	for i := range c.slots {
		s := &c.slots[i]
		if len(s.all) == 0 {
			continue
		}
		g := lowest(s.all)
		y := min(c.y(barSNR(&g.Stats, c.top)), plotBottom-2)
		c.link(s, "", "bar "+string(gradeOf(&g.Stats)), c.x(i)+(c.step-width)/2, y, width, plotBottom-y, c.title(s, "", g))
	}
}

// barSNR returns what a bar shows: all of the scale where nothing differs.
func barSNR(s *tensor.Stats, top float64) float64 {
	if db := s.SNR(); !math.IsNaN(db) {
		return db
	}
	return top
}

// title says what a place of the chart stands for.
func (c *layerDrawing) title(s *slot, part string, g *Group) string {
	text := visible(g.Name)
	if part != "" {
		text += ", " + part
	}
	if s.last > s.first {
		text += fmt.Sprintf(" (the worst from %s to %s)", visible(c.layers[s.first].Name), visible(c.layers[s.last].Name))
	}
	text += ": " + count1(g.Measured, "tensor")
	if g.Stats.Changed == 0 {
		return text + ", exact"
	}
	text += fmt.Sprintf(", %s, RMS error %s, largest %s in %s", SNRText(g.Stats.SNR()), Short(g.Stats.RMSE()), Short(g.Stats.MaxAbs), visible(g.Largest))
	if r := rangeText(&g.Stats); r != "" {
		text += "; " + r
	}
	return text
}

// parts draws the map: a row for each part, coloured by its bands.
func (c *layerDrawing) parts(parts []string) {
	gap := min(1.5, c.step*0.1)
	for row, part := range parts {
		y := float64(plotBottom + 8 + rowHeight*row)
		c.text("tick", chartLeft-6, y+rowHeight-5, "end", part)
		for i := range c.slots {
			s := &c.slots[i]
			if groups := s.parts[part]; len(groups) > 0 {
				g := lowest(groups)
				c.link(s, part, "cell "+bandOf(&g.Stats), c.x(i)+gap/2, y, c.step-gap, rowHeight-2, c.title(s, part, g))
			}
		}
	}
}

// labels writes the numbers of layers, as many as there is room for, and below
// them the names of their stacks.
func (c *layerDrawing) labels(y float64) {
	free, from := 0.0, 0
	limit := float64(chartLeft + plotWidth)
	if last := len(c.layers) - 1; c.layers[last].Name == OutsideLayers {
		c.text("tick", limit, y, "end", "outside")
		limit -= 48
	}
	for i := range c.slots {
		name := c.layers[c.slots[i].first].Name
		stack := strings.TrimRight(name, "0123456789")
		middle := c.x(i) + c.step/2
		if name != OutsideLayers && middle >= free && middle < limit-12 {
			c.text("tick", middle, y, "middle", name[len(stack):])
			free = middle + 28
		}
		end := i + 1
		if end < len(c.slots) && strings.TrimRight(c.layers[c.slots[end].first].Name, "0123456789") == stack {
			continue
		}
		if text := strings.TrimRight(visible(stack), "./_-"); name != OutsideLayers && float64(len(text))*6.5 < c.x(end)-c.x(from) {
			c.text("stack", (c.x(from)+c.x(end))/2, y+16, "middle", text)
		}
		from = end
	}
}
