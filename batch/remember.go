package batch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/demi-weights/demi/internal/atomicfile"
)

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// newFailure returns the Failure of an error.
func (r *Runner) newFailure(err error) *Failure {
	f := r.Classify(err)
	f.Message = err.Error()
	return &f
}

// A remembered is why a task has failed for good, beside the parts of its job.
type remembered struct {
	ID      string   `json:"id"` // of the plan
	Failure *Failure `json:"error"`
}

// remember leaves the reason why a task has failed, for Merge to tell, or
// removes it: err is nil. If it cannot be written, Merge knows less.
func (r *Runner) remember(j *Job, p *Plan, index int, err error) {
	if j.Parts == "" {
		return
	}
	name := filepath.Join(j.Parts, fmt.Sprintf("task-%d.error", index))
	if err == nil {
		os.Remove(name)
		return
	}
	text, err := json.Marshal(remembered{p.ID, r.newFailure(err)}, asJSON)
	if err == nil && atomicfile.MkdirAll(j.Parts) == nil {
		os.WriteFile(name, text, 0o666) //nolint:errcheck // see above
	}
}

// recall returns why a task of the plan has failed for a job; nil if none says.
func recall(j *Job, p *Plan) *Failure {
	entries, _ := os.ReadDir(j.Parts)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "task-") || !strings.HasSuffix(e.Name(), ".error") {
			continue
		}
		var m remembered
		text, err := os.ReadFile(filepath.Join(j.Parts, e.Name()))
		if err == nil && json.Unmarshal(text, &m) == nil && m.ID == p.ID && m.Failure != nil {
			return m.Failure
		}
	}
	return nil
}
