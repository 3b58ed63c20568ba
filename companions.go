package demi

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/internal/hfconfig"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/tensor"
)

// maxCompanion is the size up to which a file beside the source is taken to
// belong to the model: vocabularies have some 35 MB.
const maxCompanion = 64 << 20

// A companion is a file that belongs to a model beside its weights.
type companion struct {
	tree        regular.Tree
	dequantized bool   // the weights it belongs to, none of which is quantised any more
	from        string // its path there
	to          string // its name in the output, with slashes
}

// findCompanions returns the files that lie beside the source and make a
// directory of weights a model: configuration, tokenizer, licence. Weights,
// indexes of weights, directories (but those that a pipeline names) and hidden
// files are not among them, large files neither; warn is told of all but the
// source's own files. One that cannot be read is an error now and not at the
// end.
func findCompanions(c *Checkpoint, warn func(string)) (list []companion, err error) {
	if !c.inModelDir() {
		return nil, nil
	}
	from := c.tree.Dir(c.layout[0].File)
	if c.components != nil {
		from = c.dir
	}
	f := &companionFinder{c: c, root: from}
	if f.parts, err = c.partNames(); err != nil {
		return nil, err
	}
	if err := f.lookAll(); err != nil {
		return nil, err
	}
	if len(f.left) > 0 && warn != nil {
		warn(fmt.Sprintf("not copied from %s: %s", from, strings.Join(f.left, ", ")))
	}
	return f.list, nil
}

// A companionFinder looks for companions below root.
type companionFinder struct {
	c     *Checkpoint
	root  string
	parts []string // directories that belong to the model
	list  []companion
	left  []string // what is not copied
}

// lookAll looks into root, and into the parts that are there.
func (f *companionFinder) lookAll() error {
	if err := f.look(""); err != nil {
		return err
	}
	for _, part := range f.parts {
		if !fs.ValidPath(part) || strings.ContainsAny(part, `/\`) || part == "." {
			continue
		}
		info, err := f.c.tree.Stat(f.c.tree.Join(f.root, part))
		if f.c.site == nil && (err != nil || !info.IsDir()) {
			continue
		}
		if err := f.look(part); err != nil {
			return err
		}
	}
	return nil
}

// look looks into the directory of that name below root.
func (f *companionFinder) look(dir string) error {
	entries, err := f.c.tree.ReadDir(f.c.tree.Join(f.root, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		from := f.c.tree.Join(f.root, name)
		info, err := f.c.tree.Stat(from)
		switch {
		case f.c.has(from) || strings.HasPrefix(e.Name(), "."):
		case err != nil:
			f.left = append(f.left, name+" (a link to nothing)")
		case info.IsDir() && slices.Contains(f.parts, name): // its turn comes
		case !companionFile(e.Name()) || !info.Mode().IsRegular():
			f.left = append(f.left, name)
		case info.Size() > maxCompanion:
			f.left = append(f.left, fmt.Sprintf("%s (%d bytes)", name, info.Size()))
		default:
			if err := readable(f.c.tree, from); err != nil {
				return err
			}
			f.list = append(f.list, companion{f.c.tree, f.c.decoded(dir), from, name})
		}
	}
	return nil
}

func readable(tree regular.Tree, file string) error {
	f, err := tree.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}

// partNames returns the directories that a pipeline consists of: what its file
// names, with weights or without.
func (c *Checkpoint) partNames() ([]string, error) {
	if c.components == nil {
		return nil, nil
	}
	index, err := newOpener(c.tree.FS, nil).pipelineIndex(c.dir)
	return slices.Sorted(maps.Keys(index)), err
}

// inModelDir reports whether what lies beside the files of c belongs to them: c
// was opened as a directory, is a set, or there is a configuration. A file among
// others, in a folder of downloads, is alone.
func (c *Checkpoint) inModelDir() bool {
	if len(c.layout) == 0 {
		return false
	}
	_, err := c.tree.Stat(c.tree.Join(c.tree.Dir(c.layout[0].File), "config.json"))
	return c.dir != "" || len(c.layout) > 1 || err == nil
}

// has reports whether a path is one of the files that c is read from, or its
// index: the index of a format that was not opened is none of them.
func (c *Checkpoint) has(path string) bool {
	stem, index := strings.CutSuffix(path, indexSuffix)
	return index && hasTorchExtension(stem) == (c.format == PyTorch) || slices.ContainsFunc(c.layout, func(s Section) bool { return filepath.Clean(s.File) == filepath.Clean(path) })
}

// copyCompanions copies files into dst. In configurations the values that name
// the element type become what dtype says for their directory, unless that is
// Invalid; warn, if not nil, is told of those that cannot be read.
func copyCompanions(dst *atomicfile.Dir, list []companion, dtype func(dir string) tensor.DType, warn func(string)) error {
	for _, x := range list {
		to := dst.Path(x.to)
		err := atomicfile.MkdirAll(filepath.Dir(to))
		if err == nil {
			err = copyCompanion(to, x, dtype(path.Dir(x.to)), warn)
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", x.from, err)
		}
	}
	return nil
}

func companionFile(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case strings.HasPrefix(name, "."), FormatOf(name) != "", strings.HasSuffix(name, indexSuffix):
		return false
	case ext == ".json":
		return true
	}
	return !slices.Contains(foreignExtensions, ext)
}

func copyCompanion(to string, x companion, dtype tensor.DType, warn func(string)) error {
	f, err := x.tree.Open(x.from)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	defer out.Abort()
	size, head := f.Size(), int64(0) // head: the bytes that need not be copied
	if filepath.Base(x.from) == "config.json" && dtype != tensor.Invalid {
		head = min(size, hfconfig.MaxSize)
		text := make([]byte, head)
		if n, err := f.ReadAt(text, 0); n < len(text) {
			return readError(x.from, int64(n), size, err)
		}
		text, err := x.correct(text, dtype)
		if err != nil && warn != nil {
			warn(fmt.Sprintf("%s is copied as it is, and the type that it names may be wrong: it cannot be read as JSON: %v", x.from, err))
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	in := io.NewSectionReader(f, head, size-head)
	n, err := io.CopyBuffer(struct{ io.Writer }{out}, in, make([]byte, atomicfile.WriteSize))
	if err == nil && n < size-head {
		err = readError(x.from, head+n, size, io.EOF)
	}
	if err != nil {
		return err
	}
	return out.Commit()
}

// newDType returns the type that most floating-point elements of the output
// have, or of a component of a pipeline (anything else is component "."), or
// Invalid if the plan changes no tensor there.
func (p *Plan) newDType(component string) tensor.DType {
	count := map[tensor.DType]int64{}
	changed, best := false, tensor.Invalid
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if p.pipeline && component != "." && p.component(i) != component {
			continue
		}
		changed = changed || t.Converted() || t.from != ""
		if d := t.Out.DType; d.IsFloat() {
			if count[d] += t.Out.Elements(); best == tensor.Invalid || count[d] > count[best] {
				best = d
			}
		}
	}
	if !changed {
		return tensor.Invalid
	}
	return best
}

// correct makes a configuration that of the output. A byte order mark stays.
// Text that is not JSON comes back as it is, with an error.
func (x companion) correct(text []byte, d tensor.DType) ([]byte, error) {
	if rest, marked := bytes.CutPrefix(text, []byte("\ufeff")); marked {
		rest, err := x.correct(rest, d)
		return append([]byte("\ufeff"), rest...), err
	}
	if x.dequantized {
		text = dropQuantization(text)
	}
	return correctDType(text, d)
}

// correctDType replaces the values of "torch_dtype" and "dtype" in a
// configuration, wherever they name a floating-point type, and leaves every
// other byte. Text that is not JSON comes back as it is, with an error.
func correctDType(text []byte, d tensor.DType) ([]byte, error) {
	values, err := hfconfig.DTypes(text)
	if err != nil {
		return text, err
	}
	return hfconfig.Replace(text, values, d), nil
}
