package demi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A receipt says which conversion an output is the result of.
type receipt struct {
	Demi  int           `json:"demi"` // conversionVersion
	Key   string        `json:"key"`
	Files []receiptFile `json:"files"`
}

type receiptFile struct {
	Name    string `json:"file"` // "" for an output that is one file
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
	text, err := os.ReadFile(receiptName(path))
	if err != nil {
		return false, nil //nolint:nilerr // without a receipt there is nothing that says so
	}
	var r receipt
	if json.Unmarshal(text, &r) != nil || len(r.Files) == 0 {
		return false, nil
	}
	if o == nil {
		o = &CreateOptions{}
	}
	key, err := p.key(c, o)
	if err != nil || key == "" || r.Key != key {
		return false, err
	}
	for _, f := range r.Files {
		now, err := statFile(path, f.Name)
		if err != nil || now != f {
			return false, nil //nolint:nilerr // it is not there
		}
	}
	atomicfile.Tidy(path)
	return true, nil
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
	if err := writeReceipt(s.path, s.key); err != nil {
		return fmt.Errorf("%s is complete, but has no receipt: %w", s.path, err)
	}
	return nil
}

func writeReceipt(path, key string) error {
	r := receipt{Demi: conversionVersion, Key: key}
	names := []string{""}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		names, err = filesUnder(path)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := statFile(path, name)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, f)
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
