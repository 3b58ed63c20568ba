package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// ErrNoTask is an index that no task of the plan has.
var ErrNoTask = errors.New("no such task")

// ErrPhase is a plan that is not in the phase that was asked for.
var ErrPhase = errors.New("the plan is in another phase")

// A Runner carries plans out. Open and Classify must be there.
type Runner struct {
	// Open opens the source of a job, as the options of its plan say.
	Open func(ctx context.Context, source string, o *demi.PlanOptions) (*demi.Checkpoint, error)
	// Classify tells the kind of an error, and whether what has failed may
	// succeed when it is done again.
	Classify func(error) Failure
	// Warn, if not nil, is told what is worth knowing, a sentence each.
	Warn func(string)
	// Options say how the work is done.
	Options demi.RunOptions
	// Verify, if not nil, is called by Merge for each output.
	Verify func(ctx context.Context, c *demi.Checkpoint, j *Job, p *demi.Plan, records []tensor.Record) error
}

// A Done is what a task has done to a file, or what it has read of a job.
type Done struct {
	Job     *Job
	File    string          // "" for a scan, and if the job cannot be begun
	Written bool            // false if it was there already
	Records []tensor.Record // of the file
	Tensors int             // that were read, of a scan
	Err     error
}

// Task runs a task of the plan in a file, and calls report for each file of the
// task. What fails does not keep the rest from being done; the error is then the
// first of those that may go away, or else the first.
func (r *Runner) Task(ctx context.Context, path string, index int, report func(*Done) error) (*Plan, error) {
	p, jobs, err := readTask(path, index)
	if err != nil {
		return p, err
	}
	if p.Phase != Convert {
		return p, fmt.Errorf("%w: its tasks read values (scan), and have to be merged before files can be written", ErrPhase)
	}
	var all verdict
	for k := range jobs {
		var own verdict
		tell := func(d *Done) error {
			own.add(r, d.Err)
			return report(d)
		}
		err := r.write(ctx, jobs[k], p.Tasks[index].Work[k].Files, tell)
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		if err != nil {
			err = tell(&Done{Job: jobs[k], Err: err})
		}
		if err != nil {
			return p, err
		}
		r.remember(jobs[k], p, index, own.err)
		all.add(r, own.err)
	}
	return p, all.err
}

// readTask reads a task and the job of each Work of it.
func readTask(path string, index int) (*Plan, []*Job, error) {
	var wanted map[int]*Job
	p, err := read(path, func(k int) bool { return k == index }, func(p *Plan, job int) bool {
		if wanted == nil {
			wanted = map[int]*Job{}
			for _, w := range p.task(index).Work {
				wanted[w.Job] = nil
			}
		}
		_, ok := wanted[job]
		return ok
	}, func(_ *Plan, n int, j *Job) error {
		wanted[n] = j
		return nil
	})
	if err != nil {
		return p, nil, err
	}
	if index < 0 || index >= len(p.Tasks) {
		return p, nil, fmt.Errorf("%w: index %d of a plan with %d tasks, from 0", ErrNoTask, index, len(p.Tasks))
	}
	var jobs []*Job
	for _, w := range p.Tasks[index].Work {
		j := wanted[w.Job]
		if j == nil {
			return p, nil, &tensor.FileError{File: path, Offset: -1, Err: fmt.Errorf("%w: task %d is for job %d, which is not there", tensor.ErrFormat, index, w.Job)}
		}
		jobs = append(jobs, j)
	}
	return p, jobs, nil
}

// task returns a task; an empty one if there is none of this index.
func (p *Plan) task(index int) (t Task) {
	if index >= 0 && index < len(p.Tasks) {
		t = p.Tasks[index]
	}
	return t
}

// write writes files of a job.
func (r *Runner) write(ctx context.Context, j *Job, files []int, report func(*Done) error) error {
	return r.with(ctx, j, func(c *demi.Checkpoint, p *demi.Plan) error {
		parts, err := j.Open(p, c, nil)
		if err != nil {
			return err
		}
		for _, k := range files {
			if k < 0 || k >= len(parts.Files()) {
				return fmt.Errorf("plan: %w: file %d of an output of %d", tensor.ErrFormat, k, len(parts.Files()))
			}
			d := &Done{Job: j, File: parts.Files()[k].Name}
			d.Records, d.Written, d.Err = parts.Write(ctx, k, &r.Options)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := report(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// with opens the source of a job and loads its plan.
func (r *Runner) with(ctx context.Context, j *Job, f func(*demi.Checkpoint, *demi.Plan) error) error {
	d, err := j.Document()
	if err != nil {
		return err
	}
	c, err := r.Open(ctx, j.Source, &d.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := j.Load(d, c)
	if err != nil {
		return err
	}
	return f(c, p)
}

// A verdict keeps the error that says most about whether it is worth to do the
// same again: the first that may go away, or else the first.
type verdict struct {
	err   error
	retry bool
}

func (v *verdict) add(r *Runner, err error) {
	if err == nil || v.retry {
		return
	}
	if v.retry = r.Classify(err).Retry; v.retry || v.err == nil {
		v.err = err
	}
}
