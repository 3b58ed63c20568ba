package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/verify"
)

// reportKinds are the extensions that --report knows.
var reportKinds = []string{".json", ".csv", ".md", ".html"}

// addReport adds --report to a command.
func addReport(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "report", "", "write the report to a file as well: .json, .csv, .md or .html")
}

// checkReport refuses, before any work, a report that could not be written or
// that would take the place of a file that is none. dst, if not "", is a
// directory that may come to be.
func checkReport(path, dst string) error {
	if path == "" {
		return nil
	}
	if !slices.Contains(reportKinds, strings.ToLower(filepath.Ext(path))) {
		return usagef("--report %s: the extension has to be one of %s", shown(path), strings.Join(reportKinds, ", "))
	}
	return checkWritable("--report", path, dst, beginningOf(path))
}

// checkWritable refuses a file for a flag that could not be written or replaced.
func checkWritable(flag, path, dst string, beginning *regexp.Regexp) error {
	if err := replaceable(flag, path, beginning); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(path))
	if dst != "" && parent == filepath.Clean(dst) {
		return nil
	}
	if st, err := os.Stat(parent); err != nil || !st.IsDir() {
		return usagef("%s %s: there is no directory %s", flag, shown(path), shown(parent))
	}
	return nil
}

// beginnings are those of a report of each kind.
var beginnings = map[string]*regexp.Regexp{
	".json": regexp.MustCompile(`^\{\s*"version": \d+,\s*"command": "(convert|verify)",\s*"program": "demi `),
	".csv":  regexp.MustCompile(`^name,from,to,reason,`),
	".md":   regexp.MustCompile(`^\d+ tensors, \d+ bytes became \d+ \(`),
	".html": regexp.MustCompile(`^<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy"`),
}

func beginningOf(path string) *regexp.Regexp { return beginnings[strings.ToLower(filepath.Ext(path))] }

// planBeginning is that of a plan, also of tasks.
var planBeginning = regexp.MustCompile(`^\{\s*"version": ?\d+,\s*"command": ?"(plan|batch)"`)

// replaceable refuses to replace a file that does not begin as it should: a
// directory of weights has a config.json and a README.md, and perhaps an index.
func replaceable(flag, path string, beginning *regexp.Regexp) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil // writing it will tell
	case !info.Mode().IsRegular():
		return usagef("%s %s is not a regular file", flag, shown(path))
	case info.Size() == 0:
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	start := make([]byte, 512)
	n, err := io.ReadFull(f, start)
	if err != nil && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if !beginning.Match(start[:n]) {
		return usagef("%s %s: the file that is there is something else, and stays; choose another name", flag, shown(path))
	}
	return nil
}

// writeReport writes a document to a file, which appears when it is complete.
func writeReport(path string, d *document) error {
	if path == "" {
		return nil
	}
	if err := replaceable("--report", path, beginningOf(path)); err != nil { // by now there may be an output
		return err
	}
	err := writeFile(path, func(w io.Writer) error { return encodeReport(w, strings.ToLower(filepath.Ext(path)), d) })
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// writeFile writes a document to a file, in one step.
func writeFile(path string, encode func(io.Writer) error) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := encode(f); err != nil {
		return err
	}
	return f.Commit()
}

func encodeReport(w io.Writer, kind string, d *document) error {
	switch kind {
	case ".csv":
		return verify.WriteCSV(w, d.records, csvName)
	case ".html":
		return verify.WriteHTML(w, d.page())
	case ".md":
		return verify.WriteMarkdown(w, d.records, d.faults())
	}
	return encodeJSON(w, d)
}

// faults returns the problems and the limits that are violated.
func (d *document) faults() []verify.Problem {
	all := slices.Clone(d.Problems)
	if d.verdict != nil {
		for _, v := range d.verdict.Violations {
			all = append(all, verify.Problem{Tensor: v.Tensor, Text: v.Limit + ": " + v.Text})
		}
	}
	return all
}

// page returns a document as a page.
func (d *document) page() *verify.Page {
	p := &verify.Page{Title: d.title, Kind: "comparison", Records: d.records, Problems: d.faults(), Warnings: d.Warnings, Name: jsonName}
	for i := range d.Tensors {
		p.Details = append(p.Details, d.Tensors[i].Detail)
	}
	fact := func(label, format string, args ...any) {
		p.Facts = append(p.Facts, verify.Fact{Label: label, Value: fmt.Sprintf(format, args...)})
	}
	if o := d.Options; o != nil {
		p.Kind = "conversion"
		fact("type asked for", "%s", o.Target)
		fact("rounding", "%s", o.Rounding)
		fact("beyond the range", "%s", o.Overflow)
		if o.Seed != 0 {
			fact("seed", "%d", o.Seed)
		}
		if len(o.Rules) > 0 {
			fact("rules", "%s", strings.Join(o.Rules, ", "))
		}
		if o.Preset != demi.NoPreset {
			fact("preset", "%s", o.Preset)
		}
	}
	for _, f := range d.Inputs {
		fact("from", "%s, %s", f.File, formatBytes(f.Size))
	}
	for _, f := range d.Outputs {
		fact("to", "%s, %s", f.File, formatBytes(f.Size))
	}
	if d.Verified {
		fact("verified", "the output was read again, and it is what was written")
	}
	fact("written by", "%s", d.Program)
	return p
}
