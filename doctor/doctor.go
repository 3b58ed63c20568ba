// Package doctor says what is wrong with a checkpoint, and mends what can be
// mended without a doubt.
//
// Examine looks at a file, or at all files of a directory: at their first
// bytes, their headers, the indexes of sets, the configuration, and what
// stagings have left. Values are read with Options.Scan alone. Nothing in a
// file is run, no file but regular ones is opened, directories below are not
// entered (but for the components of a pipeline of diffusers), and a number
// read from a file takes no memory before the bytes are there.
//
// Fix carries out the repairs that lose nothing; see Repair. What it writes is
// staged and takes its name when it is complete and durable.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// A Severity says how bad a Finding is.
type Severity string

const (
	// Error is what some reader refuses, or what gives wrong weights.
	Error Severity = "error"
	// Warning is what costs speed, room or trust, or misleads some reader.
	Warning Severity = "warning"
	// Note is worth knowing, and often on purpose.
	Note Severity = "note"
)

// A Finding is one fault.
type Finding struct {
	Code     string   `json:"code"` // see Codes; it does not change
	Severity Severity `json:"severity"`
	File     string   `json:"file"`             // a path that begins with what Examine was given
	Tensor   string   `json:"tensor,omitempty"` // "" if it is not about one tensor
	Offset   int64    `json:"-"`                // byte in File; -1 if it is not about one
	Text     string   `json:"text"`             // what is wrong
	Fix      string   `json:"fix"`              // what to do, as an imperative
	Fixable  bool     `json:"fixable"`          // Fix will do it

	repair *Repair
}

// Bad reports whether the finding is an Error or a Warning.
func (f *Finding) Bad() bool { return f.Severity != Note }

// Options are those of Examine and Fix. A nil *Options and the zero value mean
// the defaults.
type Options struct {
	// Scan reads all values and reports NaN and Inf, and compares the checksums
	// of .demi stores and PyTorch archives.
	Scan bool
	// Workers is the number of goroutines of Scan; at least one.
	Workers int
	// MaxMemory is a limit on the bytes of the buffers of Scan: it lowers the
	// number of goroutines, and one that is too low for one of them is
	// tensor.ErrLimit. 0 means no limit.
	MaxMemory int64
	// Progress, if not nil, is called while Scan reads, never by two goroutines
	// at once.
	Progress func(Progress)
}

// A Progress says how far a scan has come.
type Progress struct {
	Done  int64 // bytes; files that have checksums are read twice
	Total int64
	File  string
}

// A Report is what Examine and Fix have found.
type Report struct {
	Findings []Finding // worst first, then by file
	Repairs  []Repair  // what Fix has done, in order
	Files    int       // files of weights and indexes that were looked at
	Tensors  int       // in the files that can be read
	Bytes    int64     // of these tensors
}

// Bad returns how many findings are errors or warnings.
func (r *Report) Bad() (n int) {
	for i := range r.Findings {
		if r.Findings[i].Bad() {
			n++
		}
	}
	return n
}

// Examine looks at a file or a directory. What is wrong with the content, also
// files that cannot be read, is in the report; the error is that path is not
// there or cannot be listed, that of ctx, or tensor.ErrLimit for a limit of memory
// that does not suffice.
func Examine(ctx context.Context, path string, o *Options) (*Report, error) {
	e := newExaminer(ctx, o)
	if err := e.limit(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		if l, lerr := os.Lstat(path); lerr != nil || l.Mode()&fs.ModeSymlink == 0 {
			return nil, err
		}
	}
	if e.Scan {
		e.progress.report = e.Progress
		e.progress.begin(path)
	}
	switch {
	case info != nil && info.IsDir():
		err = e.tree(path)
	case strings.HasSuffix(path, indexSuffix):
		err = e.directory(filepath.Dir(path))
	default:
		err = e.lone(path)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return e.finish(), nil
}

// An examiner is one run of Examine.
type examiner struct {
	Options
	ctx      context.Context
	report   Report
	progress progress
	seen     map[[3]string]bool
}

func newExaminer(ctx context.Context, o *Options) *examiner {
	e := &examiner{ctx: ctx, seen: make(map[[3]string]bool)}
	if o != nil {
		e.Options = *o
	}
	e.Workers = max(e.Workers, 1)
	return e
}

// finish sorts the findings.
func (e *examiner) finish() *Report {
	rank := map[Severity]int{Error: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), cmp.Compare(a.File, b.File))
	})
	return &e.report
}

// add notes a finding of a code. What is left empty of f is taken from the
// table of codes; Offset 0 stands for unknown unless at is called.
func (e *examiner) add(code string, f Finding) {
	c := codeOf(code)
	f.Code, f.Severity, f.Fix = code, cmp.Or(f.Severity, c.Severity), cmp.Or(f.Fix, c.Fix)
	f.Fixable = f.repair != nil
	if f.Offset == 0 {
		f.Offset = -1
	}
	if key := [3]string{code, f.File, f.Tensor + "\x00" + f.Text}; !e.seen[key] {
		e.seen[key] = true
		e.report.Findings = append(e.report.Findings, f)
	}
}

// classes are those of reading errors, with their codes.
var classes = []struct {
	class error
	code  string
}{
	{tensor.ErrTruncated, "truncated"}, {tensor.ErrUnsupported, "unsupported"}, {tensor.ErrLimit, "too-large"}, {tensor.ErrFormat, "invalid-file"},
}

// refused notes the error of a reader.
func (e *examiner) refused(path string, err error) {
	f := Finding{File: path, Text: err.Error()}
	var place *tensor.FileError
	if errors.As(err, &place) {
		f.Tensor, f.Text = place.Tensor, place.Err.Error()
		f.Offset = max(place.Offset, 0)
	}
	for _, c := range classes {
		if errors.Is(err, c.class) {
			f.Text = strings.TrimPrefix(f.Text, c.class.Error()+": ")
			e.add(c.code, f)
			return
		}
	}
	e.unreadable(path, err)
}

// unreadable notes an error of the system.
func (e *examiner) unreadable(path string, err error) {
	var place *fs.PathError
	if errors.As(err, &place) {
		err = place.Err
	}
	e.add("unreadable", Finding{File: path, Text: "it cannot be read: " + err.Error()})
}
