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

// CreateOptions are those of Create. The zero value means the defaults.
type CreateOptions struct {
	// Replace allows an existing file to be replaced, at the end and in one
	// step. Directories are not replaced.
	Replace bool
	// MaxShard is the size of a shard in bytes, for directories; 0 means
	// DefaultMaxShard, negative no limit.
	MaxShard int64
	// Align is the alignment of the tensors in a GGUF file or in a store; 0
	// means 32 and 64.
	Align int64
	// Level is how hard a store is compressed.
	Level codec.Level
	// Warn, if not nil, is told what will be left out, a sentence each.
	Warn func(string)
}

// Create returns a Sink for the output of a plan for c. A path with the
// extension of a format is a file; any other is a directory, which gets shards
// named "model" and the files of up to 64 MiB that lie beside the source, such
// as config.json, in which the element type is corrected.
//
// Output appears complete and in one step when the Sink is finished. An
// existing output is an error that wraps fs.ErrExist; a file of the source
// is never replaced.
func Create(path string, p *Plan, c *Checkpoint, o *CreateOptions) (tensor.Sink, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	if err := checkOutput(path, p.Options.Format); err != nil {
		return nil, err
	}
	if err := checkFree(path, c, o.Replace); err != nil {
		return nil, err
	}
	if err := p.checkFormat(o); err != nil {
		return nil, err
	}
	if FormatOf(path) == "" {
		companions, err := findCompanions(c, o.Warn)
		return &dirSink{path: path, plan: p, source: c, options: *o, companions: companions}, err
	}
	switch p.Options.Format {
	case GGUF:
		return gguf.Create(path, o.gguf()), nil
	case Demi:
		return store.Create(path, o.store()), nil
	}
	return safetensors.Create(path, p.safetensors()), nil
}

// checkFormat refuses what the output format cannot hold, before the values are
// read. What a store cannot hold, it says itself.
func (p *Plan) checkFormat(o *CreateOptions) (err error) {
	switch p.Options.Format {
	case GGUF:
		_, err = gguf.Plan(p.Infos(), p.Meta, o.gguf())
	case Safetensors:
		_, err = safetensors.Plan(p.Infos(), p.Meta, p.safetensors())
	}
	return err
}

// NewWriter returns a Sink that writes the output of a plan as one file to w,
// front to back: the same bytes as those of a file. Begin writes the header.
func NewWriter(w io.Writer, p *Plan, o *CreateOptions) tensor.Sink {
	if o == nil {
		o = &CreateOptions{}
	}
	switch p.Options.Format {
	case GGUF:
		return gguf.NewWriter(w, o.gguf())
	case Demi:
		return store.NewWriter(w, o.store())
	}
	return safetensors.NewWriter(w, p.safetensors())
}

// store leaves the hashes to Convert, which has them in the records.
func (o *CreateOptions) store() *store.WriteOptions {
	return &store.WriteOptions{Align: o.Align, Level: o.Level, Hash: store.HashRecords}
}

func (o *CreateOptions) gguf() *gguf.WriteOptions { return &gguf.WriteOptions{Align: o.Align} }

func (p *Plan) safetensors() *safetensors.WriteOptions {
	return &safetensors.WriteOptions{Canonical: p.Options.Canonical, Lenient: p.Options.Lenient}
}

// foreignExtensions are those of weight files that Demi does not write: a
// directory of such a name would be a misunderstanding.
var foreignExtensions = []string{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".onnx", ".npz", ".npy", ".h5", ".msgpack", ".ggml", ".json", ".zip"}

// ErrOutput is an output path that cannot be used as it was asked for.
var ErrOutput = errors.New("unusable output")

func checkOutput(path string, f Format) error {
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case path == "" || strings.Trim(filepath.Base(path), ".") == "" || filepath.Base(path) == string(filepath.Separator):
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
	return st || gg
}

// checkFree refuses to touch what is there already, and the source above all.
func checkFree(path string, c *Checkpoint, replace bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil && !replace {
			return fmt.Errorf("%s: %w (a symbolic link to nothing)", path, fs.ErrExist)
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
		return checkEmpty(path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrOutput, path)
	}
	if !replace {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return nil
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

func checkEmpty(dir string) error {
	if FormatOf(dir) != "" {
		return fmt.Errorf("%w: %s is a directory", ErrOutput, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w: the directory is not empty, and directories are not replaced", dir, fs.ErrExist)
	}
	return nil
}

// A dirSink writes a set of shards into a new directory.
type dirSink struct {
	tensor.Sink // of the shards
	path        string
	plan        *Plan
	source      *Checkpoint
	options     CreateOptions
	companions  []string
	dir         *atomicfile.Dir
}

func (s *dirSink) Ordered() bool { return s.plan.Options.Format == Demi }

func (s *dirSink) Begin(infos []tensor.Info, meta tensor.Metadata) (err error) {
	if s.dir, err = atomicfile.CreateDir(s.path); err != nil {
		return err
	}
	limit := s.options.MaxShard
	if limit == 0 {
		limit = DefaultMaxShard
	}
	switch s.plan.Options.Format {
	case GGUF:
		s.Sink = gguf.CreateSet(s.dir.Path("model.gguf"), limit, s.options.gguf())
	case Demi:
		s.Sink = store.CreateSet(s.dir.Path(""), "model", limit, s.options.store())
	default:
		o := s.plan.safetensors()
		o.IndexMeta = s.source.indexMeta
		s.Sink = safetensors.CreateSet(s.dir.Path(""), "model", limit, o)
	}
	return s.Sink.Begin(infos, meta)
}

func (s *dirSink) Finish(records []tensor.Record) error {
	if err := s.Sink.Finish(records); err != nil {
		return err
	}
	if err := copyCompanions(s.dir, s.companions, s.plan); err != nil {
		return err
	}
	return s.dir.Commit()
}

func (s *dirSink) Abort() {
	if s.Sink != nil {
		s.Sink.Abort()
	}
	if s.dir != nil {
		s.dir.Abort()
	}
}
