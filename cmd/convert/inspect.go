package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func inspectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect SRC",
		Short: "List the tensors and metadata of a checkpoint, from its headers alone",
		Args:  exactArgs("SRC", 1),
		RunE:  func(_ *cobra.Command, args []string) error { return a.inspect(args[0]) },
	}
}

// An inspection is what inspect prints as JSON.
type inspection struct {
	Version  int                 `json:"version"`
	Command  string              `json:"command"`
	Format   demi.Format         `json:"format"`
	Files    []demi.Section      `json:"files"`
	Tensors  []inspectedTensor   `json:"tensors"`
	Aligned  map[string]int64    `json:"aligned_bytes"` // bytes of the tensors that begin on multiples of 64 and 4096
	Metadata []inspectedMetadata `json:"metadata"`
	Warnings []string            `json:"warnings,omitempty"`
}

type inspectedTensor struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"`
	Size   int64   `json:"bytes"`
	File   string  `json:"file"`
	Offset int64   `json:"offset"`
	Align  int64   `json:"align"` // largest power of two up to 4096 that divides the offset
}

type inspectedMetadata struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (a *app) inspect(path string) error {
	c, err := a.open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	in := newInspection(c)
	if a.json {
		return a.writeJSON(in)
	}
	return a.printInspection(in)
}

func newInspection(c *demi.Checkpoint) *inspection {
	in := &inspection{Version: documentVersion, Command: "inspect", Format: c.Format(), Files: c.Sections(), Warnings: c.Warnings()}
	in.Aligned = map[string]int64{"64": 0, "4096": 0}
	for t := range c.Tensors() {
		info := t.Info()
		file, offset := t.Place()
		align := alignment(offset)
		in.Tensors = append(in.Tensors, inspectedTensor{info.Name, info.TypeName(), info.Shape, info.Size, file, offset, align})
		if align >= 64 {
			in.Aligned["64"] += info.Size
		}
		if align >= 4096 {
			in.Aligned["4096"] += info.Size
		}
	}
	for _, e := range c.Meta() {
		in.Metadata = append(in.Metadata, inspectedMetadata{e.Key, kindName(e.Value), valueText(e.Value)})
	}
	return in
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

func (a *app) printInspection(in *inspection) error {
	t := table.NewWriter()
	t.SetStyle(verify.PlainStyle())
	t.AppendHeader(table.Row{"tensor", "type", "shape", "bytes", "offset", "align"})
	t.SetColumnConfigs(verify.RightAlign(4, 5, 6))
	many := len(in.Files) > 1
	file := ""
	for _, x := range in.Tensors {
		if many && x.File != file {
			file = x.File
			t.AppendRow(table.Row{printable(file) + ":"})
		}
		t.AppendRow(table.Row{printable(x.Name), printable(x.Type), fmt.Sprint(x.Shape), x.Size, x.Offset, x.Align})
	}
	a.print(verify.Render(t))
	for _, e := range in.Metadata {
		a.print(fmt.Sprintf("metadata %s = %s (%s)\n", printable(e.Key), printable(shorten(e.Value, 100)), e.Type))
	}
	for _, s := range in.Files {
		a.print(fmt.Sprintf("%s: %s bytes = %s header + %s tensors + %s padding and other\n",
			printable(s.File), comma(s.Size), comma(s.Header), comma(s.Tensors), comma(s.Extra)))
	}
	var total int64
	for _, x := range in.Tensors {
		total += x.Size
	}
	a.print(fmt.Sprintf("%s, %d tensors, %s bytes; on 64-byte boundaries %s, on 4096 %s\n", in.Format, len(in.Tensors), comma(total),
		verify.Percent(in.Aligned["64"], total), verify.Percent(in.Aligned["4096"], total)))
	return a.outErr
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
