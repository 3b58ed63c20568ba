package doctor

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/sniff"
)

const (
	indexSuffix  = ".index.json"
	configFile   = "config.json"
	pipelineFile = "model_index.json"
)

// A directory is what lies in one.
type directory struct {
	path    string
	names   []string // of files of weights, sorted
	indexes []string
	others  []string // companions: configuration, tokenizer and the like
	weights map[string]*weights
}

func (d *directory) join(name string) string { return filepath.Join(d.path, name) }

// has reports whether there is a file of weights of a name, whatever is in it.
func (d *directory) has(name string) bool {
	_, found := slices.BinarySearch(d.names, name)
	return found
}

// tree looks at a directory and, if it is a pipeline of diffusers, at those
// below it.
func (e *examiner) tree(path string) error {
	if err := e.directory(path); err != nil {
		return err
	}
	e.leftovers(filepath.Dir(filepath.Clean(path)), filepath.Base(filepath.Clean(path)))
	if _, err := os.Stat(filepath.Join(path, pipelineFile)); err != nil {
		return nil
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && err == nil {
			err = e.directory(filepath.Join(path, entry.Name()))
		}
	}
	return err
}

// directory looks at the files of one directory.
func (e *examiner) directory(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	d := &directory{path: path, weights: make(map[string]*weights)}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, indexSuffix):
			d.indexes = append(d.indexes, name)
		case kindOfName(name) != "":
			d.names = append(d.names, name)
		case !entry.IsDir():
			d.others = append(d.others, name)
		}
	}
	configured := slices.Contains(d.others, configFile)
	for _, name := range d.names {
		if e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		if w := e.file(d.join(name)); w != nil {
			d.weights[name] = w
			e.tensors(w)
			e.formatKey(w, configured)
		}
	}
	model := e.sets(d)
	e.model(model)
	if configured {
		e.config(d.join(configFile), model)
	}
	e.companions(d)
	e.leftovers(path, "")
	return nil
}

// lone looks at one file, with what can be said of it alone.
func (e *examiner) lone(path string) error {
	if w := e.file(path); w != nil {
		e.tensors(w)
		_, err := os.Stat(filepath.Join(filepath.Dir(path), configFile))
		e.formatKey(w, err == nil)
	}
	e.leftovers(filepath.Dir(path), filepath.Base(path))
	return nil
}

// companions looks at the first bytes of what lies beside the weights.
func (e *examiner) companions(d *directory) {
	for _, name := range d.others {
		switch filepath.Ext(name) {
		case ".json", ".model", ".txt", ".tiktoken", ".jinja":
			e.companion(d.join(name))
		}
	}
}

// companion notes what stands in for a file that is no weights.
func (e *examiner) companion(path string) {
	head, err := readUpTo(path, sniff.Size)
	if err != nil || len(head) == 0 {
		return // it may be empty, or what else its owner wants
	}
	switch what, hint := sniff.Sniff(head); what {
	case sniff.LFSPointer, sniff.HTML:
		e.placeholder(path, what, hint, head)
	}
}

// readUpTo reads the first bytes of a regular file.
func readUpTo(path string, limit int64) ([]byte, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, min(size, limit)))
}

// leftovers looks for what stagings have left in a directory, of one output
// only if it is named.
func (e *examiner) leftovers(dir, only string) {
	list, _ := atomicfile.Leftovers(dir) // what cannot be listed has been told, or is not asked for
	for _, l := range list {
		path := max(l.Partial, l.Journal)
		if only != "" && l.Name != only {
			continue
		}
		if l.Busy() {
			e.add("staging-busy", Finding{File: path, Text: "the staging of " + l.Name + ", which is being written"})
			continue
		}
		f := Finding{File: path, Text: "the staging of " + l.Name + ", which was not completed"}
		if ours(l) {
			f.repair = &Repair{File: path, do: func(x *fixer) error {
				x.did("removed what was staged of " + l.Name)
				return l.Remove()
			}}
		}
		e.add("staging-left", f)
	}
}

// ours reports whether a staging is surely of this program: it has a journal,
// or it is a file with the name of one that the program writes.
func ours(l atomicfile.Leftover) bool {
	switch kindOfName(l.Name) {
	case safetensorsKind, ggufKind, demiKind:
		return !l.IsDir || l.Journal != ""
	}
	return l.Journal != "" || !l.IsDir && strings.HasSuffix(l.Name, indexSuffix)
}
