package demi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A receipt says which conversion an output is the result of.
type receipt struct {
	Demi    int           `json:"demi"` // conversionVersion
	Key     string        `json:"key"`
	Files   []receiptFile `json:"files"`
	Batch   string        `json:"batch,omitempty"`   // the key of the Parts that it was made of
	Records string        `json:"records,omitempty"` // a note with them
}

type receiptFile struct {
	Name    string `json:"file"` // below the output; "" for one that is one file
	Size    int64  `json:"bytes"`
	ModTime int64  `json:"mtime_ns"`
}

func receiptName(path string) string {
	dir, base := filepath.Split(filepath.Clean(path))
	return dir + "." + base + ".receipt"
}

// Finished reports whether the output at path is what this plan would write
// there: whether a receipt, which conversions under Skip leave, says that it
// was made from this source (its names, sizes, headers and times) with the same
// options, and its files are as they were then. The plan need not be decided.
func Finished(path string, p *Plan, c *Checkpoint, o *CreateOptions) (bool, error) {
	r := readReceipt(path)
	if r == nil {
		return false, nil // there is nothing that says so
	}
	if o == nil {
		o = &CreateOptions{}
	}
	key, err := p.key(c, o)
	if err != nil || key == "" || r.Key != key {
		return false, err
	}
	atomicfile.Tidy(path)
	return true, nil
}

// readReceipt returns the receipt of the output at path; nil if there is none,
// or its files are not as they were.
func readReceipt(path string) *receipt {
	text, err := os.ReadFile(receiptName(path))
	if err != nil {
		return nil
	}
	var r receipt
	if json.Unmarshal(text, &r) != nil || len(r.Files) == 0 {
		return nil
	}
	for _, f := range r.Files {
		now, err := statFile(path, f.Name)
		if err != nil || now != f {
			return nil
		}
	}
	return &r
}

func statFile(path, name string) (receiptFile, error) {
	info, err := os.Stat(filepath.Join(path, name))
	if err != nil {
		return receiptFile{}, err
	}
	return receiptFile{name, info.Size(), info.ModTime().UnixNano()}, nil
}

// A receiptSink leaves a receipt for a finished output.
type receiptSink struct {
	tensor.Sink
	path, key string
}

// base returns the Sink that does the work of s.
func base(s tensor.Sink) tensor.Sink {
	for {
		w, ok := s.(interface{ unwrap() tensor.Sink })
		if !ok {
			return s
		}
		s = w.unwrap()
	}
}

func (s *receiptSink) unwrap() tensor.Sink { return s.Sink }

// receipted returns the Sink s for an output at path, with a receipt if o wants
// one.
func (p *Plan) receipted(s tensor.Sink, path string, c *Checkpoint, o *CreateOptions) (tensor.Sink, error) {
	if o.IfExists != Skip {
		return s, nil
	}
	key, err := p.key(c, o)
	if err != nil || key == "" {
		return s, err
	}
	return &receiptSink{s, path, key}, nil
}

func (s *receiptSink) Finish(records []tensor.Record) error {
	if err := s.Sink.Finish(records); err != nil {
		return err
	}
	if err := writeReceipt(s.path, &receipt{Key: s.key}, nil); err != nil {
		return fmt.Errorf("%s is complete, but has no receipt: %w", s.path, err)
	}
	return nil
}

// writeReceipt completes the receipt of the output at path and writes it, with
// records unless they are nil.
func writeReceipt(path string, r *receipt, records []tensor.Record) error {
	names, err := outputFiles(path)
	if err != nil {
		return err
	}
	r.Demi = conversionVersion
	for _, name := range names {
		f, err := statFile(path, name)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, f)
	}
	if records != nil {
		line, err := (&note{Records: records}).encode()
		if err != nil {
			return err
		}
		r.Records = string(line)
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(r); err != nil {
		return err
	}
	f, err := atomicfile.Create(receiptName(path))
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(text.Bytes()); err != nil {
		return err
	}
	return f.Commit()
}

// outputFiles returns the files of the output at path, relative to it: those in
// a directory, or "" for a file, or those of the set that is named after it.
func outputFiles(path string) (names []string, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return filesUnder(path)
	case err == nil:
		return []string{""}, nil
	case !errors.Is(err, fs.ErrNotExist) || FormatOf(path) == "":
		return nil, err
	}
	files, err := ownedBeside(path)
	for _, file := range files {
		names = append(names, "../"+file)
	}
	return names, err
}
