package demi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/demi-weights/demi/codec"
	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// DefaultMaxShard is the size from which a directory gets another shard, in
// bytes: that of the Hugging Face hub.
const DefaultMaxShard = 5_000_000_000

// An IfExists says what becomes of an output that is there already.
type IfExists string

// The policies for existing outputs.
const (
	// Fail leaves it alone: an error that wraps fs.ErrExist.
	Fail IfExists = "error"
	// Skip leaves it alone too, but it is no error if Finished says that it is
	// what would be written. Outputs that are written under Skip get a receipt,
	// the hidden file ".NAME.receipt" beside them.
	Skip IfExists = "skip"
	// Replace puts the new output in its place when that is complete: a file in
	// one step. In a directory the new files come one after another, the index
	// last, and then those that the old index named are removed; others stay. A
	// run after one that was stopped in between goes on.
	Replace IfExists = "replace"
)

// ParseIfExists reads the name of a policy.
func ParseIfExists(s string) (IfExists, error) {
	if e := IfExists(strings.ToLower(s)); e == Fail || e == Skip || e == Replace {
		return e, nil
	}
	return "", fmt.Errorf("unknown policy %q for an existing output (error, skip, replace)", s)
}

// CreateOptions are those of Create. The zero value means the defaults.
type CreateOptions struct {
	// IfExists says what becomes of an output that is there already; "" means
	// Fail.
	IfExists IfExists
	// MaxShard is the size of a shard in bytes; 0 means DefaultMaxShard for
	// directories, and one file for what is a file; negative means no limit.
	// Options.KeepSplit takes its place.
	MaxShard int64
	// KeepConfig copies configurations as they are: the element type in them is
	// not corrected.
	KeepConfig bool
	// Align is the alignment of the tensors in a GGUF file or in a store; 0
	// means 32 and 64.
	Align int64
	// Level is how hard a store is compressed.
	Level codec.Level
	// Warn, if not nil, is told what will be left out, a sentence each. It may
	// be called until the Sink is finished.
	Warn func(string)

	sources func() ([]store.SourceHeader, error) // for a store
}

// Create returns a Sink for the output of a plan for c. A path with the
// extension of a format is a file or, if MaxShard is given and it would be
// larger, or under Options.KeepSplit, a set of shards with names made of it. Any
// other is a directory, which
// gets shards with the names that the source has ("model", as a rule) and the
// files of up to 64 MiB that lie beside the source, such as config.json, in
// which the element type is corrected.
//
// Output appears complete and in one step when the Sink is finished. An
// existing output is an error that wraps fs.ErrExist; a file of the source
// is never replaced.
func Create(path string, p *Plan, c *Checkpoint, o *CreateOptions) (tensor.Sink, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	return p.create(path, c, o, nil)
}

// create is Create for an output that may be made of parts.
func (p *Plan) create(path string, c *Checkpoint, o *CreateOptions, parts *Parts) (tensor.Sink, error) {
	if err := checkOutput(path, p.Options.Format); err != nil {
		return nil, err
	}
	if err := c.checkPipeline(path, p.Options.Format); err != nil {
		return nil, err
	}
	if err := checkFree(path, c, o.IfExists == Replace); err != nil {
		return nil, err
	}
	if err := p.checkFormat(o); err != nil {
		return nil, err
	}
	if p.makesSet(path, o) {
		var companions []companion
		var err error
		if FormatOf(path) == "" {
			companions, err = findCompanions(c, o.Warn)
		} else if o.IfExists != Replace && !atomicfile.Left(path) {
			err = checkFreeSet(path)
		}
		if err != nil {
			return nil, err
		}
		create := func(o *CreateOptions) tensor.Sink {
			return &dirSink{path: path, plan: p, source: c, options: *o, companions: companions, parts: parts}
		}
		if parts != nil {
			return create(o), nil
		}
		return p.receipted(p.archived(c, o, create), path, c, o)
	}
	return p.receipted(p.archived(c, o, func(o *CreateOptions) tensor.Sink { return p.createFile(path, o) }), path, c, o)
}

// makesSet tells whether the output at path is a set of files, which may have
// one.
func (p *Plan) makesSet(path string, o *CreateOptions) bool {
	return FormatOf(path) == "" || o.MaxShard > 0 || p.Options.KeepSplit
}

// Files returns the files of tensors that an output of the plan for c at path
// would have, with the tensors of each. Undecided tensors count as they are now.
// It writes nothing.
func (p *Plan) Files(path string, c *Checkpoint, o *CreateOptions) ([]tensor.SetFile, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	if !p.makesSet(path, o) {
		return []tensor.SetFile{{Name: filepath.Base(path), To: len(p.Tensors)}}, nil
	}
	s := &dirSink{path: path, source: c}
	return p.createSet(s.target(), s.stem(), c, o).Files(p.Infos(), p.Meta)
}

func (p *Plan) createFile(path string, o *CreateOptions) tensor.Sink {
	switch p.Options.Format {
	case GGUF:
		return gguf.Create(path, o.gguf())
	case Demi:
		return store.Create(path, o.store(p))
	}
	return safetensors.Create(path, p.safetensors())
}

// createSet returns a Sink for the files of a directory.
func (p *Plan) createSet(dir, stem string, c *Checkpoint, o *CreateOptions) tensor.SetSink {
	if c.components != nil {
		return newTree(dir, p, c, o)
	}
	limit, shardOf := o.MaxShard, (func(string) int)(nil)
	switch {
	case p.Options.KeepSplit:
		limit, shardOf = -1, p.fileOf(c)
	case limit == 0:
		limit = DefaultMaxShard
	}
	switch p.Options.Format {
	case GGUF:
		gg := o.gguf()
		gg.ShardOf = shardOf
		return gguf.CreateSet(filepath.Join(dir, stem+".gguf"), limit, gg)
	case Demi:
		dm := o.store(p)
		dm.ShardOf = shardOf
		return store.CreateSet(dir, stem, limit, dm)
	}
	st := p.safetensors()
	st.IndexMeta, st.ShardOf = p.indexMeta(c), shardOf
	return safetensors.CreateSet(dir, stem, limit, st)
}

// fileOf returns a function that gives the number of the file of c that a tensor
// of the output was in.
func (p *Plan) fileOf(c *Checkpoint) func(name string) int {
	from := map[string]string{}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Renamed != "" {
			from[t.Out.Name] = t.Renamed
		}
	}
	of := c.fileOf()
	return func(name string) int {
		if source, ok := from[name]; ok {
			name = source
		}
		return of(name)
	}
}

// indexMeta returns the metadata of the index of c, without the aliases that are
// none in the output.
func (p *Plan) indexMeta(c *Checkpoint) (list []safetensors.IndexEntry) {
	if p.pipeline {
		return c.indexMeta // each component has its own metadata
	}
	for _, e := range c.indexMeta {
		kept, alias := c.aliases[e.Key]
		if now, _ := p.meta.Text(e.Key); !alias || now == kept {
			list = append(list, e)
		}
	}
	return list
}

// stem returns what the names of the files of c begin with, without numbers and
// extension; "model" if it has none.
func (c *Checkpoint) stem() string {
	if len(c.layout) == 0 {
		return "model"
	}
	base := filepath.Base(c.layout[0].File)
	for _, parse := range []func(string) (string, int, int, bool){safetensors.ParseShardName, gguf.ParseShardName, store.ParseShardName} {
		if stem, _, _, ok := parse(base); ok {
			return stem
		}
	}
	if c.format == PyTorch {
		return torchStem(base)
	}
	if FormatOf(base) == "" {
		return "model"
	}
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// checkFormat refuses what the output format cannot hold, before the values are
// read.
func (p *Plan) checkFormat(o *CreateOptions) (err error) {
	switch p.Options.Format {
	case GGUF:
		_, err = gguf.Plan(p.Infos(), p.Meta, o.gguf())
	case Safetensors:
		_, err = safetensors.Plan(p.Infos(), p.Meta, p.safetensors())
	case Demi:
		_, err = store.NewWriter(io.Discard, o.store(p)).Files(p.Infos(), p.Meta)
	}
	return err
}

// NewWriter returns a Sink that writes the output of a plan for c as one file to w,
// front to back: the same bytes as those of a file. Begin writes the header.
func NewWriter(w io.Writer, p *Plan, c *Checkpoint, o *CreateOptions) tensor.Sink {
	if o == nil {
		o = &CreateOptions{}
	}
	return p.archived(c, o, func(o *CreateOptions) tensor.Sink {
		switch p.Options.Format {
		case GGUF:
			return gguf.NewWriter(w, o.gguf())
		case Demi:
			return store.NewWriter(w, o.store(p))
		}
		return safetensors.NewWriter(w, p.safetensors())
	})
}

// store leaves the hashes to Convert, which has them in the records.
func (o *CreateOptions) store(p *Plan) *store.WriteOptions {
	return &store.WriteOptions{Align: o.Align, Level: o.Level, Hash: store.HashRecords, Container: string(p.container), Sources: o.sources}
}

func (o *CreateOptions) gguf() *gguf.WriteOptions { return &gguf.WriteOptions{Align: o.Align} }

func (p *Plan) safetensors() *safetensors.WriteOptions {
	return &safetensors.WriteOptions{Canonical: p.Options.Canonical, NoFormat: p.Options.NoFormat, Lenient: p.Options.Lenient}
}

// foreignExtensions are those of weight files that Demi does not write: a
// directory of such a name would be a misunderstanding.
var foreignExtensions = []string{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".onnx", ".npz", ".npy", ".h5", ".msgpack", ".ggml", ".json", ".zip"}

// ErrOutput is an output path that cannot be used as it was asked for.
var ErrOutput = errors.New("unusable output")

// ErrBusy is an output that another process, or another part of this one, is
// writing. A directory of shards is kept apart from others by the hidden file
// ".NAME.journal" beside it, a file by its staging file ".NAME.partial".
var ErrBusy = atomicfile.ErrBusy

func checkOutput(path string, f Format) error {
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case path == "" || strings.Trim(filepath.Base(path), ".") == "" || filepath.Base(path) == string(filepath.Separator),
		!filepath.IsLocal(filepath.Base(path)): // on Windows, the name of a device
		return fmt.Errorf("%w: %q is not a name for an output", ErrOutput, path)
	case isShard(path):
		return fmt.Errorf("%w: %s is the name of a shard, and one file alone is none", ErrOutput, path)
	case FormatOf(path) != "" && FormatOf(path) != f:
		return fmt.Errorf("%w: %s is not the name of a %s file", ErrOutput, path, f)
	case slices.Contains(foreignExtensions, ext):
		return fmt.Errorf("%w: %s: files of kind %s are not written; use .safetensors, .gguf or .demi, or the name of a directory", ErrOutput, path, ext)
	}
	return nil
}

func isShard(path string) bool {
	base := filepath.Base(path)
	_, _, _, st := safetensors.ParseShardName(base)
	_, _, _, gg := gguf.ParseShardName(base)
	_, _, _, dm := store.ParseShardName(base)
	return st || gg || dm
}

// checkFree refuses to touch what is there already, and the source above all.
func checkFree(path string, c *Checkpoint, replace bool) error {
	atomicfile.Tidy(path)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil && !replace {
			return exists(path, "a symbolic link to nothing")
		}
		if c.inside(filepath.Dir(filepath.Clean(path))) {
			return fmt.Errorf("%w: %s would be in the source", ErrOutput, path)
		}
		return checkParent(path)
	}
	if err != nil {
		return err
	}
	for _, s := range c.sections {
		if in, err := os.Stat(s.File); err == nil && os.SameFile(in, info) {
			return fmt.Errorf("%w: %s is a file of the source: an input is never written to", ErrOutput, path)
		}
	}
	if info.IsDir() {
		if c.inside(path) {
			return fmt.Errorf("%w: %s is in the source", ErrOutput, path)
		}
		return checkDir(path, replace)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrOutput, path)
	}
	if !replace {
		return exists(path, "")
	}
	return nil
}

// exists is the error for an output that is there already.
func exists(path, why string, args ...any) error {
	if why == "" {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return fmt.Errorf("%s: %w: %s", path, fs.ErrExist, fmt.Sprintf(why, args...))
}

// checkPipeline refuses to make one file of a pipeline that its programs would
// not find in it.
func (c *Checkpoint) checkPipeline(path string, f Format) error {
	if c.components == nil || f == Demi && FormatOf(path) == Demi || f != GGUF && FormatOf(path) == "" {
		return nil
	}
	return fmt.Errorf("%w: %s: a pipeline of %d components becomes a directory of safetensors files or stores, or one store", ErrOutput, path, len(c.components))
}

// checkFreeSet refuses to write a set where there is one.
func checkFreeSet(path string) error {
	old, err := ownedBeside(path)
	if err == nil && len(old) > 0 {
		err = exists(filepath.Join(filepath.Dir(path), old[0]), "")
	}
	return err
}

// inside reports whether dir is the directory that c was opened as, or below
// it, however the two are spelt.
func (c *Checkpoint) inside(dir string) bool {
	if c.dir == "" || c.tree.FS != nil {
		return false
	}
	src, err := os.Stat(c.dir)
	if err != nil {
		return false
	}
	at, err := filepath.EvalSymlinks(dir)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	for err == nil {
		info, statErr := os.Stat(at)
		if statErr == nil && os.SameFile(src, info) {
			return true
		}
		if filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	return false
}

func checkParent(path string) error {
	parent := filepath.Dir(filepath.Clean(path))
	info, err := os.Stat(parent)
	if err != nil {
		return fmt.Errorf("%w: the directory for %s: %w", ErrOutput, path, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a directory", ErrOutput, parent)
	}
	return nil
}

func checkDir(dir string, replace bool) error {
	if FormatOf(dir) != "" {
		return fmt.Errorf("%w: %s is a directory", ErrOutput, dir)
	}
	entries, err := foreign(dir)
	if err != nil || len(entries) == 0 || atomicfile.Left(atomicfile.Inside(dir)) {
		return err // a journal says what is what
	}
	if !replace {
		return exists(dir, "the directory is not empty")
	}
	if atomicfile.Left(dir) {
		return nil // its journal says what is what
	}
	_, err = owned(dir)
	return err
}

// foreign returns what is in a directory but for the staging directory and the
// journal of an output of its own.
func foreign(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return atomicfile.IsStaging(dir, e.Name()) }), err
}
