package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func inspectCommand(a *app) *cobra.Command {
	var scan, dump bool
	c := &cobra.Command{
		Use:   "inspect SRC",
		Short: "List the tensors, alignment and metadata of a checkpoint",
		Long: `Lists tensors, their places and alignment, and metadata, from the headers alone.

With --scan all values are read, once: their range, NaN and Inf with the place
of the first, how many are distinct, and the smallest type that holds them all.
The exit code is 1 if there is NaN or Inf.`,
		Example: `  demi inspect model.gguf
  demi inspect --scan model.safetensors
  demi inspect --bytes model.demi`,
		Args: exactArgs("SRC", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if scan && dump {
				return usagef("--scan and --bytes do not go together")
			}
			if dump {
				return a.dump(cmd.Context(), args[0])
			}
			return a.inspect(cmd, args[0], scan)
		},
	}
	c.Flags().BoolVar(&scan, "scan", false, "read the values: range, NaN and Inf, distinct values, the smallest type that holds all")
	c.Flags().BoolVar(&dump, "bytes", false, "say of every byte of a .demi store what it is")
	return c
}

// An inspection is what inspect prints as JSON.
type inspection struct {
	Version   int                 `json:"version"`
	Command   string              `json:"command"`
	Format    demi.Format         `json:"format"`
	Files     []demi.Section      `json:"files"`
	Tensors   []inspectedTensor   `json:"tensors"`
	Count     int                 `json:"count"`        // of tensors
	Bytes     int64               `json:"tensor_bytes"` // of all tensors, as they are without compression
	Memory    int64               `json:"header_memory_bytes"`
	Aligned   map[string]int64    `json:"aligned_bytes"`
	Histogram []alignedBytes      `json:"alignment"`
	Metadata  []inspectedMetadata `json:"metadata"`
	Classes   []demi.ClassSum     `json:"classes"`           // what the tensors are for
	Aliases   map[string]string   `json:"aliases,omitempty"` // names in the metadata, with the tensors that they stand for
	Warnings  []string            `json:"warnings"`
	Problems  []verify.Problem    `json:"problems,omitempty"` // of the values
}

type inspectedTensor struct {
	Name   string       `json:"name"`
	Type   string       `json:"type"`
	Shape  []int64      `json:"shape"`
	Size   int64        `json:"bytes"`
	File   string       `json:"file"`
	Offset int64        `json:"offset"`
	Align  int64        `json:"align"`            // largest power of two up to 4096 that divides the offset
	Tied   string       `json:"tied,omitempty"`   // the tensor whose memory this one is
	Values *demi.Values `json:"values,omitempty"` // of --scan
}

// alignedBytes are the tensors of one alignment.
type alignedBytes struct {
	Align   int64 `json:"align"`
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
}

type inspectedMetadata struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (a *app) inspect(cmd *cobra.Command, path string, scan bool) error {
	run, err := a.runOptions()
	if err != nil {
		return err
	}
	c, err := a.open(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer c.Close()
	in := newInspection(c)
	if scan {
		meter := a.newMeter(&run)
		defer meter.stop()
		rows, err := demi.Scan(cmd.Context(), c, &run)
		if err != nil {
			return err
		}
		meter.stop()
		in.add(rows)
	}
	switch {
	case a.json:
		err = a.writeJSON(in)
	case !a.quiet:
		err = a.printInspection(in, scan)
	}
	if err == nil && len(in.Problems) > 0 {
		p := in.Problems[0]
		err = fmt.Errorf("%w: %s with NaN or Inf, the first is %q: %s", errViolated, english.Plural(len(in.Problems), "tensor", ""), p.Tensor, p.Text)
	}
	return err
}

func newInspection(c *demi.Checkpoint) *inspection {
	in := &inspection{Version: documentVersion, Command: "inspect", Format: c.Format(), Files: c.Sections(), Count: c.Len(), Memory: c.HeaderMemory(), Classes: c.Classes(), Aliases: c.Aliases(), Warnings: c.Warnings()}
	byAlign := map[int64]*alignedBytes{}
	in.Aligned = map[string]int64{"64": 0, "4096": 0}
	shared := c.Shared()
	for t := range c.Tensors() {
		info := t.Info()
		file, offset := t.Place()
		x := inspectedTensor{Name: info.Name, Type: info.TypeName(), Shape: info.Shape, Size: info.Size, File: file, Offset: offset, Align: alignment(offset), Tied: shared[info.Name]}
		in.Tensors = append(in.Tensors, x)
		in.Bytes += x.Size
		if byAlign[x.Align] == nil {
			byAlign[x.Align] = &alignedBytes{Align: x.Align}
		}
		h := byAlign[x.Align]
		h.Tensors, h.Bytes = h.Tensors+1, h.Bytes+x.Size
	}
	for _, h := range byAlign {
		in.Histogram = append(in.Histogram, *h)
		if h.Align >= 64 {
			in.Aligned["64"] += h.Bytes
		}
		if h.Align >= 4096 {
			in.Aligned["4096"] += h.Bytes
		}
	}
	slices.SortFunc(in.Histogram, func(a, b alignedBytes) int { return int(a.Align - b.Align) })
	for _, e := range c.Meta() {
		in.Metadata = append(in.Metadata, inspectedMetadata{e.Key, kindName(e.Value), valueText(e.Value)})
	}
	return in
}

// add adds what the values are, in the order of the tensors.
func (in *inspection) add(rows []demi.ScanRow) {
	for i := range rows {
		v := rows[i].Values
		in.Tensors[i].Values = v
		if v == nil {
			continue
		}
		if text := notFinite(v); text != "" {
			in.Problems = append(in.Problems, verify.Problem{Tensor: rows[i].Name, Text: text})
		}
	}
}

// notFinite says where NaN and Inf are; "" if nowhere.
func notFinite(v *demi.Values) string {
	var parts []string
	if x := v.FirstNaN; x != nil {
		parts = append(parts, fmt.Sprintf("%s NaN, the first at [%d] (%s)", comma(v.NaN), x.Index, x.Bits))
	}
	if x := v.FirstInf; x != nil {
		parts = append(parts, fmt.Sprintf("%s Inf, the first at [%d] (%s, %s)", comma(v.Inf), x.Index, x.Value, x.Bits))
	}
	return strings.Join(parts, "; ")
}

// alignment returns the largest power of two, at most 4096, that divides off.
func alignment(off int64) int64 {
	n := int64(1)
	for n < 4096 && off%(2*n) == 0 {
		n *= 2
	}
	return n
}

func kindName(v any) string {
	k, ok := tensor.KindOf(v)
	if !ok {
		return "?"
	}
	if a, ok := v.(tensor.Array); ok {
		return fmt.Sprintf("%v of %d %v", k, a.Len, a.Elem)
	}
	return k.String()
}

// valueText shows a value; of arrays the first elements only.
func valueText(v any) string {
	a, ok := v.(tensor.Array)
	if !ok {
		return fmt.Sprint(v)
	}
	const most = 8
	var parts []string
	if a.Elem == tensor.KindString {
		for _, s := range a.FirstStrings(most) {
			parts = append(parts, fmt.Sprintf("%q", s))
		}
	} else {
		for i := range min(most, a.Len) {
			parts = append(parts, fmt.Sprint(a.At(i)))
		}
	}
	if a.Len > most {
		parts = append(parts, "…")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// muchMemory is what a limit of memory should be chosen with.
const muchMemory = 1 << 20

func (a *app) printInspection(in *inspection, scan bool) error {
	if !scan || a.verbose {
		a.print(a.fit(layoutTable(in, a.width())))
	}
	if scan {
		a.print(a.fit(scanTable(in, a.width())))
		a.print(fmt.Sprintf("distinct: bit patterns; of F32 and F64 they are counted up to %s\n", comma(demi.MaxDistinct)))
	}
	for _, e := range in.Metadata {
		a.print(fmt.Sprintf("metadata %s = %s (%s)\n", cutMiddle(printable(e.Key), 100), shorten(printable(e.Value), 100), e.Type))
	}
	for _, x := range in.Tensors {
		if x.Tied != "" {
			a.print(fmt.Sprintf("tied: %s is the same memory as %s\n", printable(x.Name), printable(x.Tied)))
		}
	}
	a.printClasses(in.Classes)
	for _, s := range in.Files {
		a.print(fmt.Sprintf("%s: %s bytes = %s header + %s tensors + %s padding and other\n",
			printable(s.File), comma(s.Size), comma(s.Header), comma(s.Tensors), comma(s.Extra)))
	}
	if in.Memory >= muchMemory {
		a.print(fmt.Sprintf("headers take about %s bytes of memory in a conversion\n", comma(in.Memory)))
	}
	for _, h := range in.Histogram {
		a.print(fmt.Sprintf("aligned to %d: %d of %d tensors, %s bytes (%s)\n", h.Align, h.Tensors, in.Count, comma(h.Bytes), verify.Percent(h.Bytes, in.Bytes)))
	}
	a.print(fmt.Sprintf("%s, %s, %s bytes; on 64-byte boundaries %s, on 4096 %s\n", in.Format, english.Plural(in.Count, "tensor", ""), comma(in.Bytes),
		verify.Percent(in.Aligned["64"], in.Bytes), verify.Percent(in.Aligned["4096"], in.Bytes)))
	for _, p := range in.Problems {
		a.print(fmt.Sprintf("problem: %s: %s\n", printable(p.Tensor), p.Text))
	}
	return a.outErr
}

func newTable(columns ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(verify.PlainStyle())
	t.AppendHeader(columns)
	return t
}

// perFile adds a row for each tensor, and one before those of each file.
func perFile(t table.Writer, in *inspection, row func(x *inspectedTensor) table.Row) {
	file := ""
	for i := range in.Tensors {
		x := &in.Tensors[i]
		if len(in.Files) > 1 && x.File != file {
			file = x.File
			t.AppendRow(table.Row{printable(file) + ":"})
		}
		t.AppendRow(row(x))
	}
}

func layoutTable(in *inspection, width int) table.Writer {
	t := newTable("tensor", "type", "shape", "bytes", "offset", "align")
	t.SetColumnConfigs(verify.RightAlign(4, 5, 6))
	perFile(t, in, func(x *inspectedTensor) table.Row {
		return table.Row{printable(x.Name), typeName(x.Type, width), fmt.Sprint(x.Shape), x.Size, x.Offset, x.Align}
	})
	return t
}

// unknown stands in for the figures of a tensor whose values are not read.
const unknown = "-"

func scanTable(in *inspection, width int) table.Writer {
	t := newTable("tensor", "type", "holds", "min", "max", "zeros", "distinct", "NaN", "Inf")
	t.SetColumnConfigs(verify.RightAlign(4, 5, 6, 7, 8, 9))
	perFile(t, in, func(x *inspectedTensor) table.Row {
		v := x.Values
		if v == nil {
			return table.Row{printable(x.Name), typeName(x.Type, width), unknown, unknown, unknown, unknown, unknown, unknown, unknown}
		}
		return table.Row{printable(x.Name), x.Type, v.Effective, figure(v.Min), figure(v.Max), verify.Percent(v.Zero, v.Count), distinctText(v), v.NaN, v.Inf}
	})
	return t
}

func figure(f *float64) string {
	if f == nil {
		return unknown
	}
	return verify.Short(*f)
}

func distinctText(v *demi.Values) string {
	if v.MoreDistinct {
		return fmt.Sprintf(">%d", v.Distinct)
	}
	return fmt.Sprint(v.Distinct)
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
