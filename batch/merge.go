package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A Merged is what has become of a job.
type Merged struct {
	Job      *Job
	Files    int
	Records  []tensor.Record
	Skipped  bool // it was there before the plan was made
	Verified bool
	Err      error
}

// Merge puts together what the tasks of the plan in a file have written, and
// calls report for each job, in their order. A job that is not complete, or
// fails, does not keep the others from being merged. It may be repeated: what
// has been merged is reported again. The error is the first of those that may go
// away, or else the first.
func (r *Runner) Merge(ctx context.Context, path string, report func(*Merged) error) (*Plan, error) {
	var all verdict
	p, err := read(path, none, every, func(p *Plan, _ int, j *Job) error {
		if p.Phase != Convert {
			return fmt.Errorf("%w: its tasks read values (scan), and have to be merged as such first", ErrPhase)
		}
		m := r.merge(ctx, p, j)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		all.add(r, m.Err)
		return report(m)
	})
	if err != nil {
		return p, err
	}
	return p, all.err
}

func none(int) bool         { return false }
func every(*Plan, int) bool { return true }

func (r *Runner) merge(ctx context.Context, plan *Plan, j *Job) *Merged {
	m := &Merged{Job: j, Skipped: j.Skipped}
	switch {
	case j.Skipped:
		return m
	case j.Failure != nil:
		m.Err = j.Failure
		return m
	}
	m.Err = r.with(ctx, j, func(c *demi.Checkpoint, p *demi.Plan) error {
		parts, err := j.Open(p, c, r.Warn)
		if err != nil {
			return err
		}
		m.Files = len(parts.Files())
		if m.Records, err = parts.Assemble(ctx, &r.Options); err != nil || r.Verify == nil {
			return err
		}
		err = r.Verify(ctx, c, j, p, m.Records)
		m.Verified = err == nil
		return err
	})
	if errors.Is(m.Err, demi.ErrIncomplete) {
		if f := recall(j, plan); f != nil {
			m.Err = fmt.Errorf("%w (%w)", f, m.Err)
		}
	}
	return m
}
