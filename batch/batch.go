// Package batch divides conversions into tasks that any scheduler can run, on
// machines that share a file system, in three steps: a plan is made, of the
// headers alone; its tasks are run, each by its index, in any order, again if
// they fail; and what they have written is merged. The bytes of the outputs are
// those of one process, whatever the number of tasks.
//
// A plan is a file, of one conversion or of many: its jobs. It pins their
// sources. A task is some of their output files, or, where values have to decide
// (exact, auto, policies for overflow), some of the tensors to be read for that:
// such a plan has two rounds of tasks and merging, and Phase says in which it
// is. What a task has done lies beside its output with a receipt, which is
// written last: so a task may be run again, or twice at once.
package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/tensor"
)

// Version is the version of the plans that are written and read.
const Version = 1

// A Phase says what the tasks of a plan do.
type Phase string

// The phases.
const (
	Scan    Phase = "scan"    // read the values that decide
	Convert Phase = "convert" // write the files
)

// A Plan is the part of a plan that does not grow with its jobs, which come
// one by one.
type Plan struct {
	Version int    `json:"version"` // Version
	Command string `json:"command"` // "batch"
	Phase   Phase  `json:"phase"`
	ID      string `json:"id"` // stands for the jobs and the tasks
	Tasks   []Task `json:"tasks"`
}

// A Task is what one process does.
type Task struct {
	Bytes int64  `json:"bytes"` // of the tensors, in the sources
	Work  []Work `json:"work"`
}

// A Work is the part of a Task that is of one job.
type Work struct {
	Job     int   `json:"job"`
	Files   []int `json:"files,omitzero"`   // by their numbers in demi.Parts.Files
	Tensors []int `json:"tensors,omitzero"` // by their numbers in the job's plan
}

// A Job is one conversion.
type Job struct {
	Source   string              `json:"src"` // as it was given, but absolute, or a URL
	Output   string              `json:"dst"`
	Parts    string              `json:"parts,omitzero"`    // demi.PartsDir of the output
	Create   Create              `json:"create"`            // how the output is made
	Identity []demi.FileIdentity `json:"identity,omitzero"` // of the files of the source
	Plan     jsontext.Value      `json:"plan,omitzero"`     // a demi.PlanDocument
	Skipped  bool                `json:"skipped,omitzero"`  // the output was there, made by the same conversion
	Failure  *Failure            `json:"error,omitzero"`    // why there is no plan
}

// Create are demi.CreateOptions as text.
type Create struct {
	IfExists   string `json:"if_exists"`
	MaxShard   int64  `json:"max_shard,omitzero"`
	KeepConfig bool   `json:"keep_config,omitzero"`
	Align      int64  `json:"align,omitzero"`
	Level      string `json:"level,omitzero"`
}

// A Failure is an error that ended a job before it had begun.
type Failure struct {
	Class   string `json:"class"`
	Exit    int    `json:"exit"`
	Retry   bool   `json:"retryable"`
	Message string `json:"message"`
}

// asJSON is how everything is written: what is empty is left out.
var asJSON = json.JoinOptions(json.Deterministic(true), jsonv1.OmitEmptyWithLegacySemantics(true))

// NewCreate writes options as text; nil stands for the defaults.
func NewCreate(o *demi.CreateOptions) Create {
	if o == nil {
		o = &demi.CreateOptions{}
	}
	c := Create{IfExists: string(o.IfExists), MaxShard: o.MaxShard, KeepConfig: o.KeepConfig, Align: o.Align}
	if o.Level != codec.Fast {
		c.Level = o.Level.String()
	}
	return c
}

// Options reads the options again.
func (c *Create) Options() (o demi.CreateOptions, err error) {
	o = demi.CreateOptions{IfExists: demi.IfExists(c.IfExists), MaxShard: c.MaxShard, KeepConfig: c.KeepConfig, Align: c.Align}
	if c.IfExists != "" {
		_, err = demi.ParseIfExists(c.IfExists)
	}
	if c.Level != "" && err == nil {
		o.Level, err = codec.ParseLevel(c.Level)
	}
	if err != nil {
		err = fmt.Errorf("plan: %w: %w", tensor.ErrFormat, err)
	}
	return o, err
}

// NewJob returns the job that carries out p for c, which was opened as source,
// with the output at path. Both should be absolute, for its processes may run in
// other directories. It pins the files of c: a task refuses others, also if only
// their times differ.
func NewJob(source, path string, p *demi.Plan, c *demi.Checkpoint, o *demi.CreateOptions) (*Job, error) {
	if p.Options.Tie {
		return nil, fmt.Errorf("%w: tie is for one process, which looks for equal tensors in all files", tensor.ErrUnsupported)
	}
	doc, err := p.Document(c)
	if err != nil {
		return nil, err
	}
	j := &Job{Source: source, Output: path, Parts: demi.PartsDir(path), Create: NewCreate(o)}
	if j.Identity, err = c.Identity(); err != nil {
		return nil, err
	}
	if j.Plan, err = json.Marshal(doc, asJSON); err == nil {
		_, err = json.Marshal(j, asJSON)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w: a plan cannot hold it: %w", source, tensor.ErrUnsupported, err)
	}
	return j, nil
}

// check refuses what NewJob and Builder do not make.
func (j *Job) check() error {
	switch f := j.Failure; {
	case f != nil && (f.Exit < 1 || f.Exit > 255):
		return fmt.Errorf("%d is no exit code of a failure", f.Exit)
	case f == nil && len(j.Plan) == 0:
		return errors.New("it has neither a plan nor an error")
	case (f == nil || j.Parts != "") && !demi.IsPartsDir(j.Output, j.Parts):
		return fmt.Errorf("%q is no directory for parts of %q", j.Parts, j.Output)
	}
	return nil
}

// Load makes the plan d of the job for c, its source, which must not have
// changed: tensor.ErrChanged.
func (j *Job) Load(d *demi.PlanDocument, c *demi.Checkpoint) (*demi.Plan, error) {
	now, err := c.Identity()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(now, j.Identity) {
		return nil, &tensor.FileError{File: j.Source, Offset: -1, Err: fmt.Errorf("%w since the plan was made", tensor.ErrChanged)}
	}
	return d.Plan(c)
}

// Document returns the plan as it is written in the job.
func (j *Job) Document() (*demi.PlanDocument, error) { return demi.ReadPlan(bytes.NewReader(j.Plan)) }

// Open returns the Parts of the output, of a plan that Load has returned.
func (j *Job) Open(p *demi.Plan, c *demi.Checkpoint, warn func(string)) (*demi.Parts, error) {
	o, err := j.Create.Options()
	if err != nil {
		return nil, err
	}
	o.Warn = warn
	key, err := j.key()
	if err != nil {
		return nil, err
	}
	return demi.NewParts(j.Output, j.Parts, key, p, c, &o)
}

// key stands for what decides the bytes of the output.
func (j *Job) key() (string, error) {
	same := *j
	same.Parts, same.Create.IfExists = "", ""
	text, err := json.Marshal(&same, asJSON)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
