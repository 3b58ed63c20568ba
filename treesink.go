package demi

import (
	"path"
	"path/filepath"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A treeSink writes a pipeline: a set of files for each component, in a
// directory of its own, with the metadata that the component has in the source.
// The tensors of a component come one after another.
type treeSink struct {
	parts []treePart
	of    []int // the part of each tensor
}

type treePart struct {
	tensor.SetSink
	name      string
	dir       string
	from, to  int // its tensors
	firstFile int
	meta      tensor.Metadata
}

// newTree returns the Sink for the components of c, below dir.
func newTree(dir string, p *Plan, c *Checkpoint, o *CreateOptions) *treeSink {
	t := &treeSink{}
	for _, x := range c.components {
		part := treePart{name: x.name, dir: filepath.Join(dir, x.name), meta: x.c.Meta()}
		part.SetSink = p.createSet(part.dir, x.c.stem(), x.c, o)
		t.parts = append(t.parts, part)
	}
	return t
}

// split finds the tensors of each part and gives them their own names.
func (t *treeSink) split(infos []tensor.Info) [][]tensor.Info {
	t.of = make([]int, len(infos))
	own := make([][]tensor.Info, len(t.parts))
	k := 0
	for i, in := range infos {
		name, rest := componentOf(in.Name)
		for k < len(t.parts) && t.parts[k].name != name {
			k++
			t.parts[k].from = i
		}
		in.Name = rest
		t.of[i], t.parts[k].to = k, i+1
		own[k] = append(own[k], in)
	}
	return own
}

func (t *treeSink) Files(infos []tensor.Info, _ tensor.Metadata) (files []tensor.SetFile, err error) {
	own := t.split(infos)
	for k := range t.parts {
		p := &t.parts[k]
		p.firstFile = len(files)
		list, err := p.SetSink.Files(own[k], p.meta)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			files = append(files, tensor.SetFile{Name: path.Join(p.name, f.Name), From: p.from + f.From, To: p.from + f.To})
		}
	}
	return files, nil
}

// part returns the part that a file belongs to.
func (t *treeSink) part(file int) *treePart {
	k := 0
	for k+1 < len(t.parts) && t.parts[k+1].firstFile <= file {
		k++
	}
	return &t.parts[k]
}

func (t *treeSink) Keep(file int) {
	p := t.part(file)
	p.SetSink.Keep(file - p.firstFile)
}

func (t *treeSink) Omit(file int) {
	p := t.part(file)
	p.SetSink.Omit(file - p.firstFile)
}

func (t *treeSink) FinishFile(file int, records []tensor.Record) error {
	p := t.part(file)
	return p.SetSink.FinishFile(file-p.firstFile, ownRecords(records))
}

// ownRecords returns records with the names that tensors have in their
// component.
func ownRecords(records []tensor.Record) []tensor.Record {
	own := make([]tensor.Record, len(records))
	for i, r := range records {
		_, r.Name = componentOf(r.Name)
		own[i] = r
	}
	return own
}

func (t *treeSink) Ordered() bool { return t.parts[0].Ordered() }

func (t *treeSink) Begin(infos []tensor.Info, _ tensor.Metadata) error {
	own := t.split(infos)
	for k := range t.parts {
		p := &t.parts[k]
		if err := atomicfile.MkdirAll(p.dir); err != nil {
			return err
		}
		if err := p.SetSink.Begin(own[k], p.meta); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeSink) Write(i int, off int64, b []byte) error {
	p := &t.parts[t.of[i]]
	return p.SetSink.Write(i-p.from, off, b)
}

func (t *treeSink) Finish(records []tensor.Record) error {
	for k := range t.parts {
		p := &t.parts[k]
		if err := p.SetSink.Finish(ownRecords(records[p.from:p.to])); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeSink) Abort() {
	for k := range t.parts {
		t.parts[k].SetSink.Abort()
	}
}

var _ tensor.SetSink = (*treeSink)(nil)
