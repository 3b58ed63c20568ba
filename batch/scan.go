package batch

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A scanned is what a task of the phase Scan has read, by job. A job that has
// failed for good has a Failure.
type scanned struct {
	ID       string
	Surveys  map[int][]byte
	Failures map[int]Failure
}

// scanDir is where the tasks of the phase Scan leave what they have read.
func scanDir(path string) string { return atomicfile.Parts(path) }

func scanFile(path string, index int) string {
	return filepath.Join(scanDir(path), fmt.Sprintf("scan-%d", index))
}

// readScan returns what a task has read; nil if it has not been run.
func readScan(path string, p *Plan, index int) *scanned {
	text, err := os.ReadFile(scanFile(path, index))
	s := new(scanned)
	if err != nil || gob.NewDecoder(bytes.NewReader(text)).Decode(s) != nil || s.ID != p.ID {
		return nil
	}
	return s
}

// write puts it into its place, in one step.
func (s *scanned) write(path string, index int) error {
	if err := atomicfile.MkdirAll(scanDir(path)); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(s); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(scanDir(path), ".scan-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text.Bytes())
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), scanFile(path, index))
	}
	if err == nil {
		err = atomicfile.SyncDir(scanDir(path))
	}
	return err
}

// Scan runs a task of the phase Scan, and calls report for each job of which it
// has read tensors. In a plan that is past that phase there is nothing to do.
// Errors are those of Task.
func (r *Runner) Scan(ctx context.Context, path string, index int, report func(*Done) error) (*Plan, error) {
	p, jobs, err := readTask(path, index)
	if err != nil || p.Phase == Convert {
		return p, err
	}
	had := readScan(path, p, index)
	s := &scanned{p.ID, map[int][]byte{}, map[int]Failure{}}
	var all verdict
	for k, w := range p.Tasks[index].Work {
		d := &Done{Job: jobs[k], Tensors: len(w.Tensors), Written: had == nil}
		if had != nil {
			d.Err = had.failure(w.Job)
		} else {
			d.Err = r.scan(ctx, jobs[k], &w, s)
		}
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		all.add(r, d.Err)
		if err := report(d); err != nil {
			return p, err
		}
	}
	if had == nil && !all.retry {
		if err := s.write(path, index); err != nil {
			return p, err
		}
	}
	return p, all.err
}

// failure returns why a job has failed, or nil.
func (s *scanned) failure(job int) error {
	if f, ok := s.Failures[job]; ok {
		return &f
	}
	return nil
}

// scan reads tensors of a job.
func (r *Runner) scan(ctx context.Context, j *Job, w *Work, s *scanned) error {
	err := r.with(ctx, j, func(c *demi.Checkpoint, p *demi.Plan) error {
		want := map[string]bool{}
		for _, i := range w.Tensors {
			if i < 0 || i >= len(p.Tensors) || !p.Tensors[i].Undecided {
				return fmt.Errorf("plan: %w: tensor %d is not to be read", tensor.ErrFormat, i)
			}
			want[p.Tensors[i].In.Name] = true
		}
		survey, err := p.Survey(ctx, c, func(t *demi.Choice) bool { return want[t.In.Name] }, &r.Options)
		if err != nil {
			return err
		}
		s.Surveys[w.Job], err = survey.MarshalBinary()
		return err
	})
	if err != nil {
		s.Failures[w.Job] = *r.newFailure(err)
	}
	return err
}

// MergeScan decides the plan in a file by what its tasks have read, and writes
// it again, in one step, with as many tasks, which write the files. A job that
// cannot be decided has a Failure then: report is called for each of those that
// had to be. A plan that is past the phase Scan stays as it is. Tasks that have
// not been run are demi.ErrIncomplete.
func (r *Runner) MergeScan(ctx context.Context, path string, report func(*Merged) error) (*Plan, error) {
	m := &scanMerger{r: r, ctx: ctx, path: path, report: report}
	p, err := read(path, none, every, m.job)
	if err != nil {
		return p, err
	}
	if p.Phase == Convert { // one that was killed then may have left this
		return p, os.RemoveAll(scanDir(path))
	}
	decided, err := m.b.Write(path, len(p.Tasks))
	if err != nil {
		return p, err
	}
	os.RemoveAll(scanDir(path))
	return decided, m.all.err
}

// A scanMerger decides the jobs of a plan, one after another.
type scanMerger struct {
	r      *Runner
	ctx    context.Context
	path   string
	report func(*Merged) error
	found  []*scanned // of the tasks
	b      Builder
	all    verdict
}

func (m *scanMerger) job(p *Plan, n int, j *Job) error {
	if p.Phase == Convert {
		return nil
	}
	if m.found == nil {
		if err := m.load(p); err != nil {
			return err
		}
	}
	if j.Failure != nil || j.Skipped {
		return m.b.AddFailed(j)
	}
	d := &Merged{Job: j}
	d.Err = m.decide(n, j)
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if d.Err != nil {
		f := m.r.newFailure(d.Err)
		if f.Retry {
			return d.Err
		}
		j.Failure, j.Plan = f, nil
		m.all.add(m.r, d.Err)
		if err := m.b.AddFailed(j); err != nil {
			return err
		}
	}
	return m.report(d)
}

// load reads what the tasks have left.
func (m *scanMerger) load(p *Plan) error {
	var missing []string
	m.found = make([]*scanned, len(p.Tasks))
	for k := range p.Tasks {
		if m.found[k] = readScan(m.path, p, k); m.found[k] == nil {
			missing = append(missing, strconv.Itoa(k))
		}
	}
	if n := len(missing); n > 0 {
		if n > 10 {
			missing = append(missing[:10], "…")
		}
		return fmt.Errorf("%s: %w: %d of %d tasks have not been run: %s", m.path, demi.ErrIncomplete, n, len(p.Tasks), strings.Join(missing, ", "))
	}
	return nil
}

// decide decides the plan of a job and adds it to the Builder.
func (m *scanMerger) decide(n int, j *Job) error {
	all := new(demi.Survey)
	for _, s := range m.found {
		if err := s.failure(n); err != nil {
			return err
		}
		var part demi.Survey
		if text := s.Surveys[n]; text != nil {
			if err := part.UnmarshalBinary(text); err != nil {
				return err
			}
			all.Add(&part)
		}
	}
	return m.r.with(m.ctx, j, func(c *demi.Checkpoint, p *demi.Plan) error {
		if err := p.DecideBy(m.ctx, c, all, &m.r.Options); err != nil {
			return err
		}
		doc, err := p.Document(c)
		if err != nil {
			return err
		}
		if j.Plan, err = json.Marshal(doc, asJSON); err != nil {
			return err
		}
		return m.b.Add(j, p, c)
	})
}
