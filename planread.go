package demi

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

const (
	// MaxPlan is the largest plan document, in bytes, that is read. One of a
	// model with 100,000 tensors has about 40 MB.
	MaxPlan = 256 << 20

	maxPlanned     = 1 << 20 // tensors, and files, that ReadPlan takes
	maxPlannedText = 1 << 20 // bytes of the options, and of one tensor
)

// ReadPlan reads a document. What is no plan is tensor.ErrFormat or, if it ends
// early, tensor.ErrTruncated; another version and unknown options are
// tensor.ErrUnsupported, and more than MaxPlan bytes or 2^20 tensors
// tensor.ErrLimit. Unknown fields elsewhere are ignored. Whether the document
// fits a checkpoint, LoadPlan finds out.
func ReadPlan(r io.Reader) (*PlanDocument, error) { return readPlan(r, maxPlanned, tensor.ErrLimit) }

// readPlan is ReadPlan with a limit of tensors, and the class of an error for
// more.
func readPlan(r io.Reader, tensors int, tooMany error) (*PlanDocument, error) {
	text := &io.LimitedReader{R: r, N: MaxPlan + 1}
	p := planReader{dec: jsontext.NewDecoder(text), tensors: tensors, tooMany: tooMany}
	p.doc.Command, p.doc.Files = "plan", []FileIdentity{}
	if err := p.read(); err != nil {
		if text.N <= 0 {
			err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, MaxPlan)
		}
		return nil, fmt.Errorf("plan: byte %d: %w", p.dec.InputOffset(), err)
	}
	return &p.doc, nil
}

// A planReader reads a document piece by piece, so that a short text does not
// become a long list.
type planReader struct {
	dec     *jsontext.Decoder
	doc     PlanDocument
	tensors int // limit
	tooMany error
}

func (p *planReader) read() error {
	if err := p.begin('{', "the document"); err != nil {
		return err
	}
	for p.dec.PeekKind() != '}' {
		var key string
		if err := p.decode(&key, "a key"); err != nil {
			return err
		}
		if err := p.member(key); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return fmt.Errorf("%w: text after the plan", tensor.ErrFormat)
	}
	if p.doc.Version == 0 || p.doc.Tensors == nil {
		return fmt.Errorf("%w: it is not a plan: version and tensors are missing", tensor.ErrFormat)
	}
	p.doc.normalise()
	return nil
}

// normalise makes lists that may be left out nil where they are empty.
func (d *PlanDocument) normalise() {
	o := &d.Options
	if len(o.Rules) == 0 {
		o.Rules = nil
	}
	if len(o.Drop) == 0 {
		o.Drop = nil
	}
	if len(d.Dropped) == 0 {
		d.Dropped = nil
	}
}

func (p *planReader) member(key string) (err error) {
	switch d := &p.doc; key {
	case "version":
		if err = p.decode(&d.Version, key); err == nil && d.Version != PlanVersion {
			err = fmt.Errorf("%w: version %d of plans, this program reads version %d", tensor.ErrUnsupported, d.Version, PlanVersion)
		}
	case "command":
		if err = p.decode(&d.Command, key); err == nil && d.Command != "plan" {
			err = fmt.Errorf("%w: it is the document of %q, not a plan", tensor.ErrFormat, d.Command)
		}
	case "options":
		err = p.decode(&d.Options, key, json.RejectUnknownMembers(true))
	case "files":
		d.Files, err = readList[FileIdentity](p, key, maxPlanned)
	case "tensors":
		d.Tensors, err = readList[PlannedTensor](p, key, p.tensors)
	case "dropped":
		d.Dropped, err = readList[Dropped](p, key, maxPlanned)
	case "bytes_in":
		err = p.decode(&d.In, key)
	case "bytes_out":
		err = p.decode(&d.Out, key)
	case "bytes_out_min":
		err = p.decode(&d.Least, key)
	case "bytes_out_max":
		err = p.decode(&d.Most, key)
	default:
		err = syntax(p.dec.SkipValue())
	}
	return err
}

func readList[T any](p *planReader, what string, limit int) ([]T, error) {
	list := []T{}
	if err := p.begin('[', what); err != nil {
		return nil, err
	}
	for p.dec.PeekKind() != ']' {
		if len(list) == limit {
			return nil, fmt.Errorf("%w: more than %d %s", p.tooMany, limit, what)
		}
		var x T
		if err := p.decode(&x, what); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	_, err := p.dec.ReadToken()
	return list, syntax(err)
}

func (p *planReader) begin(kind jsontext.Kind, what string) error {
	t, err := p.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if t.Kind() != kind {
		return fmt.Errorf("%w: %s has a value of kind %q, want %q", tensor.ErrFormat, what, t.Kind(), kind)
	}
	return nil
}

func (p *planReader) decode(x any, what string, o ...json.Options) error {
	text, err := p.dec.ReadValue()
	if err != nil {
		return syntax(err)
	}
	if len(text) > maxPlannedText {
		return fmt.Errorf("%w: %s of %d bytes, the limit is %d", tensor.ErrLimit, what, len(text), maxPlannedText)
	}
	err = json.Unmarshal(text, x, o...)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("%w: %s: %w", tensor.ErrUnsupported, what, err)
	case err != nil:
		return fmt.Errorf("%w: %s: %w", tensor.ErrFormat, what, err)
	}
	return nil
}

// syntax gives an error of the decoder its class; others are those of reading.
func syntax(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the document ends too early", tensor.ErrTruncated)
	case errors.As(err, &s):
		return fmt.Errorf("%w: %w", tensor.ErrFormat, err)
	}
	return err
}
