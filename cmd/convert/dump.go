package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/format"
)

// dump says of every byte of the files of a store what it is.
func (a *app) dump(ctx context.Context, path string) (err error) {
	if demi.IsURL(path) {
		return usagef("--bytes is for files on this machine")
	}
	c, err := a.open(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Format() != demi.Demi {
		return usagef("--bytes is for .demi stores: %s is %s", path, c.Format())
	}
	if a.quiet {
		return nil
	}
	if a.json {
		return a.dumpJSON(c.Sections())
	}
	for _, s := range c.Sections() {
		a.print(printable(s.File) + ":\n")
		if err := a.dumpFile(s); err != nil {
			return err
		}
	}
	return a.outErr
}

func (a *app) dumpFile(s demi.Section) error {
	f, err := os.Open(s.File)
	if err != nil {
		return err
	}
	defer f.Close()
	return format.Dump(a.text, f, s.Size)
}

// A range is a format.Range as JSON.
type rangeDocument struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"bytes"`
	What   string `json:"what"`
}

// dumpJSON writes range by range, for there may be millions.
func (a *app) dumpJSON(files []demi.Section) error {
	out := bufio.NewWriter(a.stdout)
	fmt.Fprintf(out, "{\"version\": %d, \"command\": \"inspect\", \"format\": \"demi\", \"files\": [", documentVersion)
	for i, s := range files {
		if i > 0 {
			out.WriteString(",")
		}
		if err := dumpFileJSON(out, s); err != nil {
			return err
		}
	}
	out.WriteString("]}\n")
	return out.Flush()
}

func dumpFileJSON(out *bufio.Writer, s demi.Section) error {
	f, err := format.Open(s.File, &format.Options{MaxIndex: max(s.Header, format.MaxIndex)})
	if err != nil {
		return err
	}
	defer f.Close()
	name, err := json.Marshal(s.File, jsonText())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n{\"file\": %s, \"bytes\": %d, \"ranges\": [", name, s.Size)
	comma := "\n"
	for r := range f.Ranges() {
		line, err := json.Marshal(rangeDocument(r), jsonText())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%s", comma, line)
		comma = ",\n"
	}
	out.WriteString("]}")
	return nil
}
