package demi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// pipelineFile is the file that makes a directory a pipeline in the sense of
// diffusers: it names the components, each in a directory of its own.
const pipelineFile = "model_index.json"

// maxPipeline is the size up to which it is read.
const maxPipeline = 16 << 20

// A component is a part of a pipeline that has weights. The names of its
// tensors are those in its files behind its own name and a slash.
type component struct {
	name string
	c    *Checkpoint
	from int // number of its first tensor in the pipeline
}

// isPipeline reports whether a directory is a pipeline: it has the file that
// says so, and no weights of its own.
func (o *opener) isPipeline(dir string) bool {
	info, err := o.tree.Stat(o.tree.Join(dir, pipelineFile))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	weights, err := o.weightsIn(dir)
	return err == nil && len(weights) == 0
}

// weightsIn returns the files of a directory that have the name of weights, or
// of their index. Hidden files, such as macOS leaves beside others, are none.
func (o *opener) weightsIn(dir string) (names []string, err error) {
	entries, err := o.tree.ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		if FormatOf(strings.TrimSuffix(name, indexSuffix)) != "" && !e.IsDir() && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, err
}

// openPipeline opens the components that have weights, as one Checkpoint.
func (o *opener) openPipeline(dir string) (*Checkpoint, error) {
	names, err := o.componentNames(dir)
	if err != nil {
		return nil, err
	}
	var list []component
	fail := func(err error) (*Checkpoint, error) {
		for _, p := range list {
			err = errors.Join(err, p.c.Close())
		}
		return nil, err
	}
	for _, name := range names {
		c, err := o.open(o.tree.Join(dir, name))
		if err != nil {
			return fail(err)
		}
		list = append(list, component{name: name, c: c})
		if c.format.output() != list[0].c.format.output() {
			return fail(fmt.Errorf("%s: %w: %s is %s and %s is %s", dir, tensor.ErrUnsupported, list[0].name, list[0].c.format, name, c.format))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: none of the components that %s names has weights", dir, tensor.ErrUnsupported, pipelineFile)
	}
	c, err := joinComponents(list)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// componentNames returns the names in the pipeline's file that are directories
// with weights, in order.
func (o *opener) componentNames(dir string) (names []string, err error) {
	index, err := o.pipelineIndex(dir)
	if err != nil {
		return nil, err
	}
	for name := range index {
		if !fs.ValidPath(name) || strings.ContainsAny(name, `/\`) || name == "." {
			continue
		}
		at := o.tree.Join(dir, name)
		weights, err := o.weightsIn(at)
		if err != nil {
			if info, statErr := o.tree.Stat(at); statErr == nil && info.IsDir() {
				return nil, err
			} // else it is no component, as "_class_name" is none
		}
		if len(weights) > 0 || o.torchIn(at) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// pipelineIndex reads the pipeline's file.
func (o *opener) pipelineIndex(dir string) (index map[string]json.RawMessage, err error) {
	file := o.tree.Join(dir, pipelineFile)
	text, err := o.read(file, maxPipeline)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, &tensor.FileError{File: file, Offset: -1, Err: fmt.Errorf("%w: %w", tensor.ErrFormat, err)}
	}
	return index, nil
}

// read returns a small file.
func (o *opener) read(name string, limit int64) ([]byte, error) {
	f, err := o.tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := o.tree.Stat(name)
	if err == nil && info.Size() > limit {
		err = &tensor.FileError{File: name, Offset: -1, Err: fmt.Errorf("%w: %d bytes, the limit is %d", tensor.ErrLimit, info.Size(), limit)}
	}
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	n, err := f.ReadAt(text, 0)
	if n < len(text) {
		return nil, readError(name, int64(n), info.Size(), err)
	}
	return text, nil
}

func joinComponents(list []component) (*Checkpoint, error) {
	var sources []tensor.Source
	var layout, sections []Section
	var warnings []string
	shared, aliases := map[string]string{}, map[string]string{}
	n := 0
	for i := range list {
		p := &list[i]
		p.from = n
		n += p.c.Len()
		sources = append(sources, prefixed(p.name+"/", p.c.src))
		layout, sections = append(layout, p.c.layout...), append(sections, p.c.sections...)
		warnings = append(warnings, p.c.warnings...)
		for name, first := range p.c.shared {
			shared[p.name+"/"+name] = p.name + "/" + first
		}
		for name, kept := range p.c.aliases {
			aliases[p.name+"/"+name] = p.name + "/" + kept
		}
	}
	src, err := tensor.Join(sources)
	if err != nil {
		return nil, err
	}
	c := newCheckpoint(src, joinedFormat(list), warnings, layout)
	c.sections, c.components, c.shared, c.aliases = sections, list, shared, aliases
	return c, nil
}

// joinedFormat returns the format that the components have, or that of their
// outputs where some are PyTorch's and others not.
func joinedFormat(list []component) Format {
	first := list[0].c.format
	if slices.ContainsFunc(list, func(p component) bool { return p.c.format != first }) {
		return first.output()
	}
	return first
}

// prefixed returns src with a prefix before the names of its tensors.
func prefixed(prefix string, src tensor.Source) tensor.Source {
	infos := slices.Clone(src.Tensors())
	for i := range infos {
		infos[i].Name = prefix + infos[i].Name
	}
	return &prefixedSource{src, infos}
}

type prefixedSource struct {
	tensor.Source
	infos []tensor.Info
}

func (s *prefixedSource) Tensors() []tensor.Info          { return s.infos }
func (s *prefixedSource) Sums(i int) ([]tensor.Sum, bool) { return tensor.Sums(s.Source, i) }
func (s *prefixedSource) OtherSums() []tensor.Sum         { return tensor.OtherSums(s.Source) }

// componentOf returns the component that a tensor of a pipeline belongs to, and
// its name there.
func componentOf(name string) (component, own string) {
	component, own, _ = strings.Cut(name, "/")
	return component, own
}
