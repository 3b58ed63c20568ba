package batch

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/demi-weights/demi"
)

// A unit is what is not divided: a file of a job, or a tensor to be read.
type unit struct {
	job, number int
	bytes       int64
}

// fileUnits returns the files of the output of a job.
func fileUnits(job int, p *demi.Plan, parts *demi.Parts) (list []unit) {
	for k, f := range parts.Files() {
		u := unit{job: job, number: k}
		for i := f.From; i < f.To; i++ {
			u.bytes += p.Tensors[i].In.Size
		}
		list = append(list, u)
	}
	return list
}

// tensorUnits returns the tensors of a job that have to be read.
func tensorUnits(job int, p *demi.Plan) (list []unit) {
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Undecided {
			list = append(list, unit{job, i, t.In.Size})
		}
	}
	return list
}

// divide makes n tasks of units, some of them empty if there are fewer. The
// largest unit that is left goes to the task that has least, as in Graham's
// "longest processing time first" (Bounds on multiprocessing timing anomalies,
// 1969), which leaves no task more than a third above the best division.
func divide(units []unit, n int, phase Phase) []Task {
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(b.bytes, a.bytes) })
	least, of := newLoads(n), make([][]unit, n)
	for _, u := range units {
		k := least.give(u.bytes)
		of[k] = append(of[k], u)
	}
	tasks := make([]Task, n)
	for k, list := range of {
		slices.SortFunc(list, func(a, b unit) int {
			return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.number, b.number))
		})
		tasks[k] = newTask(list, phase)
	}
	return tasks
}

// newTask writes down sorted units.
func newTask(list []unit, phase Phase) Task {
	t := Task{Work: []Work{}}
	for _, u := range list {
		t.Bytes += u.bytes
		if n := len(t.Work); n == 0 || t.Work[n-1].Job != u.job {
			t.Work = append(t.Work, Work{Job: u.job})
		}
		w := &t.Work[len(t.Work)-1]
		if phase == Scan {
			w.Tensors = append(w.Tensors, u.number)
		} else {
			w.Files = append(w.Files, u.number)
		}
	}
	return t
}

// loads are tasks by their bytes, as a heap: of equal ones the first is least.
type loads []load

type load struct {
	bytes int64
	task  int
}

func newLoads(n int) *loads {
	h := make(loads, n)
	for k := range h {
		h[k].task = k
	}
	return &h
}

// give gives so many bytes to the task that has least, and returns it.
func (h *loads) give(bytes int64) (task int) {
	task = (*h)[0].task
	(*h)[0].bytes += bytes
	heap.Fix(h, 0)
	return task
}

func (h *loads) Len() int      { return len(*h) }
func (h *loads) Swap(a, b int) { (*h)[a], (*h)[b] = (*h)[b], (*h)[a] }
func (h *loads) Push(any)      { panic("batch: loads do not grow") }
func (h *loads) Pop() any      { panic("batch: loads do not shrink") }
func (h *loads) Less(a, b int) bool {
	x, y := (*h)[a], (*h)[b]
	return x.bytes < y.bytes || x.bytes == y.bytes && x.task < y.task
}
