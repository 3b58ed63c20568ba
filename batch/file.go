package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// MaxTasks is the largest number of tasks of a plan.
const MaxTasks = 1 << 20

// A Builder collects the jobs of a plan. The zero value has none.
type Builder struct {
	jobs           []jsontext.Value
	scans, outputs []unit
}

// Add adds a job with its plan, which was made for c.
func (b *Builder) Add(j *Job, p *demi.Plan, c *demi.Checkpoint) error {
	n := len(b.jobs)
	if p.Undecided() > 0 {
		b.scans = append(b.scans, tensorUnits(n, p)...)
		return b.AddFailed(j)
	}
	parts, err := j.Open(p, c, nil)
	if err != nil {
		return err
	}
	b.outputs = append(b.outputs, fileUnits(n, p, parts)...)
	return b.AddFailed(j)
}

// AddFailed adds a job without a plan, whose Failure says why.
func (b *Builder) AddFailed(j *Job) error {
	text, err := json.Marshal(j, asJSON)
	b.jobs = append(b.jobs, text)
	return err
}

// Files returns the number of files that the tasks write: of the jobs that are
// decided.
func (b *Builder) Files() int { return len(b.outputs) }

// Write divides the work into n tasks and writes the plan to the file path, in
// one step. If values have to be read first, the tasks are for that.
func (b *Builder) Write(path string, n int) (*Plan, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Abort()
	p := b.plan(n)
	if err := b.encode(f, p); err != nil {
		return nil, err
	}
	return p, f.Commit()
}

func (b *Builder) plan(n int) *Plan {
	p := &Plan{Version: Version, Command: "batch", Phase: Convert, Tasks: nil}
	if len(b.scans) > 0 {
		p.Phase, p.Tasks = Scan, divide(b.scans, n, Scan)
	} else {
		p.Tasks = divide(b.outputs, n, Convert)
	}
	h := sha256.New()
	fmt.Fprintln(h, p.Phase, n)
	for _, j := range b.jobs {
		h.Write(append(j, '\n'))
	}
	p.ID = hex.EncodeToString(h.Sum(nil))
	return p
}

// encode writes the plan, a line for each task and job; the tasks come first, so
// that who has an index need not keep the jobs of others.
func (b *Builder) encode(w io.Writer, p *Plan) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"version\":%d,\"command\":%q,\"phase\":%q,\"id\":%q,\n\"tasks\":[", p.Version, p.Command, p.Phase, p.ID)
	put := func(k int, text []byte) error {
		if k > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(text)
		_, err := out.WriteTo(w)
		return err
	}
	for k := range p.Tasks {
		text, err := json.Marshal(&p.Tasks[k], asJSON)
		if err == nil {
			err = put(k, text)
		}
		if err != nil {
			return err
		}
	}
	out.WriteString("],\n\"jobs\":[")
	for k, text := range b.jobs {
		if err := put(k, text); err != nil {
			return err
		}
	}
	out.WriteString("]}\n")
	_, err := out.WriteTo(w)
	return err
}

// A reader reads a plan front to back.
type reader struct {
	name string
	file *os.File
	dec  *jsontext.Decoder
}

// read reads the plan in a file. want says which tasks are kept, the others are
// empty in the Plan; job is called for each job for which needed is true, in
// order.
func read(path string, want func(task int) bool, needed func(p *Plan, job int) bool, job func(p *Plan, n int, j *Job) error) (*Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &reader{path, f, jsontext.NewDecoder(f)}
	p, err := r.plan(want, needed, job)
	var place *tensor.FileError
	if err != nil && !errors.As(err, &place) && r.ours(err) {
		err = &tensor.FileError{File: path, Offset: r.dec.InputOffset(), Err: err}
	}
	return p, err
}

// ours tells whether an error is about the plan.
func (r *reader) ours(err error) bool {
	return errors.Is(err, tensor.ErrFormat) || errors.Is(err, tensor.ErrTruncated) || errors.Is(err, tensor.ErrUnsupported) || errors.Is(err, tensor.ErrLimit)
}

func (r *reader) plan(want func(int) bool, needed func(*Plan, int) bool, job func(*Plan, int, *Job) error) (*Plan, error) {
	p := &Plan{}
	if err := r.token('{', "a plan"); err != nil {
		return nil, err
	}
	tasks := false
	for r.dec.PeekKind() == '"' {
		name, err := r.dec.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		switch key := name.String(); key {
		case "version":
			if err = r.decode(&p.Version); err == nil && p.Version != Version {
				err = fmt.Errorf("%w: version %d of batch plans, this program reads version %d", tensor.ErrUnsupported, p.Version, Version)
			}
		case "command":
			if err = r.decode(&p.Command); err == nil && p.Command != "batch" {
				err = fmt.Errorf("%w: it is the document of %q, not a plan of tasks (made by demi plan --tasks)", tensor.ErrFormat, p.Command)
			}
		case "phase":
			if err = r.decode(&p.Phase); err == nil && p.Phase != Scan && p.Phase != Convert {
				err = fmt.Errorf("%w: phase %q", tensor.ErrUnsupported, p.Phase)
			}
		case "id":
			err = r.decode(&p.ID)
		case "tasks":
			tasks = true
			err = r.tasks(p, want)
		case "jobs":
			if err = p.complete(tasks); err == nil {
				err = r.jobs(p, needed, job)
			}
			if err != nil {
				return p, err
			}
		default:
			err = syntax(r.dec.SkipValue())
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.token('}', "the end of the plan"); err != nil {
		return nil, err
	}
	return p, p.complete(tasks)
}

// complete says whether all is there that has to come before the jobs.
func (p *Plan) complete(tasks bool) error {
	if p.Version == 0 || p.Command == "" || p.Phase == "" || !tasks {
		return fmt.Errorf("%w: it is not a plan of tasks: version, command, phase and tasks have to come first", tensor.ErrFormat)
	}
	return nil
}

func (r *reader) tasks(p *Plan, want func(int) bool) error {
	return r.list("tasks", func(k int) error {
		if k == MaxTasks {
			return fmt.Errorf("%w: more than %d tasks", tensor.ErrLimit, MaxTasks)
		}
		var t Task
		err := error(nil)
		if want(k) {
			err = r.decode(&t)
		} else {
			err = syntax(r.dec.SkipValue())
		}
		p.Tasks = append(p.Tasks, t)
		return err
	})
}

func (r *reader) jobs(p *Plan, needed func(*Plan, int) bool, job func(*Plan, int, *Job) error) error {
	return r.list("jobs", func(k int) error {
		if !needed(p, k) {
			return syntax(r.dec.SkipValue())
		}
		j := new(Job)
		if err := r.decode(j); err != nil {
			return err
		}
		if err := j.check(); err != nil {
			return fmt.Errorf("%w: job %d: %w", tensor.ErrFormat, k, err)
		}
		return job(p, k, j)
	})
}

// list calls element for each element of a list, which it has to read.
func (r *reader) list(what string, element func(k int) error) error {
	if err := r.token('[', what); err != nil {
		return err
	}
	for k := 0; r.dec.PeekKind() != ']'; k++ {
		if r.dec.PeekKind() == 0 {
			return r.token(']', what)
		}
		if err := element(k); err != nil {
			return err
		}
	}
	return r.token(']', what)
}

func (r *reader) token(kind jsontext.Kind, what string) error {
	t, err := r.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if t.Kind() != kind {
		return fmt.Errorf("%w: %s: it is %v, want %v", tensor.ErrFormat, what, t.Kind(), kind)
	}
	return nil
}

func (r *reader) decode(v any) error {
	err := json.UnmarshalDecode(r.dec, v)
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		return fmt.Errorf("%w: %w", tensor.ErrFormat, err)
	}
	return syntax(err)
}

// syntax gives an error of the decoder its class; others are those of reading.
func syntax(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the plan ends too early", tensor.ErrTruncated)
	case errors.As(err, &s):
		return fmt.Errorf("%w: %w", tensor.ErrFormat, err)
	}
	return err
}
