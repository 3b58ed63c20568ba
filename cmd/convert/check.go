package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/format"
)

// addCheck lets verify take a store alone: there is something to hold it
// against in itself.
func addCheck(a *app, c *cobra.Command) {
	two, compare := c.Args, c.RunE
	c.Use = "verify REF GOT | verify STORE"
	c.Long += `

With one argument, a .demi store, it is read to its last byte and held against
what it says of itself: the checksum of every block, the value hash of every
tensor, its digest, and that all that is not data is as it must be.`
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return two(cmd, args)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return compare(cmd, args)
		}
		var given []string
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if cmd.InheritedFlags().Lookup(f.Name) == nil {
				given = append(given, "--"+f.Name)
			}
		})
		if len(given) > 0 {
			return usagef("%s is for a comparison, of REF and GOT", strings.Join(given, ", "))
		}
		return a.check(cmd.Context(), args[0])
	}
}

// A checkDocument says that a store is whole.
type checkDocument struct {
	Version int           `json:"version"`
	Command string        `json:"command"`
	Program string        `json:"program"`
	Format  demi.Format   `json:"format"`
	Files   []checkedFile `json:"files"`
	Whole   bool          `json:"whole"`
	Seconds float64       `json:"seconds"`
}

// A checkedFile is what there was to check in a file.
type checkedFile struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Digest  string `json:"digest"`
	Tensors int    `json:"tensors"`
	Hashes  int    `json:"value_hashes"`
	Blocks  int64  `json:"blocks"`
}

// check verifies a store.
func (a *app) check(ctx context.Context, path string) error {
	if how, err := demi.ParseDequantize(a.dequant); err != nil || how != demi.DequantizeNone {
		return usagef("--dequantize is for a comparison, of REF and GOT: a store is held against its bytes")
	}
	workers, err := a.checkWorkers()
	if err != nil {
		return err
	}
	c, err := a.open(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Format() != demi.Demi {
		return usagef("%s is %s, which has nothing to be held against: name a second checkpoint", shown(path), c.Format())
	}
	list, closeAll, err := stores(c, demi.IsURL(path))
	if err != nil {
		return err
	}
	defer closeAll()
	d := &checkDocument{Version: documentVersion, Command: "verify", Program: program(), Format: demi.Demi, Whole: true}
	var errs []error
	for _, s := range list {
		if err := s.Verify(ctx, workers); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
		for _, f := range s.Files() {
			d.Files = append(d.Files, newChecked(f))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	d.Seconds = time.Since(a.started).Seconds()
	return a.reportCheck(d)
}

// checkWorkers returns how many goroutines the memory is for.
func (a *app) checkWorkers() (int, error) {
	run, err := a.runOptions()
	if err != nil {
		return 0, err
	}
	n := run.Workers
	if n == 0 {
		n = 8
	}
	if m := run.MaxMemory; m > 0 {
		if n = min(n, int(m/recheckMemory)); n == 0 {
			return 0, usagef("verify needs a --max-memory of 2MiB or more")
		}
	}
	return n, nil
}

// stores returns the sets that a store consists of: those of a pipeline, one for
// each directory, are opened once more.
func stores(c *demi.Checkpoint, remote bool) (sets []*format.Set, closeAll func(), err error) {
	if set, ok := c.Source().(*format.Set); ok {
		return []*format.Set{set}, func() {}, nil
	}
	if remote {
		return nil, nil, usagef("the stores of a pipeline behind a URL are verified one by one: name one of them")
	}
	closeAll = func() {
		for _, s := range sets {
			s.Close()
		}
	}
	last := ""
	for _, file := range c.Sections() {
		dir := filepath.Dir(file.File)
		if dir == last {
			continue
		}
		last = dir
		s, err := format.OpenSet(dir, nil)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		sets = append(sets, s)
	}
	return sets, closeAll, nil
}

func newChecked(f *format.File) checkedFile {
	d := checkedFile{File: f.Name(), Bytes: f.Size(), Digest: f.Digest().String(), Tensors: f.Len()}
	for t := range f.All() {
		if _, ok := t.Hash(); ok {
			d.Hashes++
		}
		d.Blocks += t.Blocks()
	}
	return d
}

func (a *app) reportCheck(d *checkDocument) error {
	if a.json {
		return a.writeJSON(d)
	}
	if a.quiet {
		return nil
	}
	for _, f := range d.Files {
		a.print(fmt.Sprintf("%s: whole: %s, %s, %s, %s, digest %s\n", printable(f.File), formatBytes(f.Bytes), english.Plural(f.Tensors, "tensor", ""),
			english.Plural(f.Hashes, "value hash", "value hashes"), english.Plural(int(f.Blocks), "block", ""), f.Digest))
	}
	return a.outErr
}
