package demi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/demi-weights/demi/codec"
	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// ErrIncomplete is an output, or a plan of tasks, for which not all has been done
// yet.
var ErrIncomplete = errors.New("it is not complete yet")

// Parts make the output of a plan file by file: any number of processes, on any
// number of machines that share a file system, write the files, each into a
// directory of parts, and one puts them together. The bytes are those that
// Convert writes to a Sink of Create.
//
// A part is complete when its receipt is there, which is written last: what is
// complete is not written again, and two processes that write the same part do
// not harm each other. The methods of Parts may be called by several goroutines
// at once.
type Parts struct {
	path, dir string
	plan      *Plan
	source    *Checkpoint
	key       string
	options   CreateOptions
	files     []tensor.SetFile
}

// PartsDir returns the directory of parts that an output at path has: a hidden
// one beside it or, if what is there now is a mount point, in it.
func PartsDir(path string) string {
	if FormatOf(path) == "" && atomicfile.Mounted(path) {
		path = atomicfile.Inside(path)
	}
	return atomicfile.Parts(path)
}

// IsPartsDir reports whether dir can be what PartsDir returned for path.
func IsPartsDir(path, dir string) bool {
	return dir == atomicfile.Parts(path) || dir == atomicfile.Parts(atomicfile.Inside(path))
}

// NewParts returns the Parts of the output of p, which is decided, for c at
// path. dir is what PartsDir returned before the first part was written. Parts
// are taken for those of this output if they were written with the same key,
// which has to stand for the source, the plan and the options.
func NewParts(path, dir, key string, p *Plan, c *Checkpoint, o *CreateOptions) (*Parts, error) {
	if p.Undecided() > 0 || p.tieOpen {
		return nil, errUndecided
	}
	b := &Parts{path: path, dir: dir, key: fmt.Sprintf("%d.%d.%s", conversionVersion, store.Version, key), plan: p, source: c}
	if o != nil {
		b.options = *o
	}
	var err error
	b.files, err = p.Files(path, c, &b.options)
	return b, err
}

// Files returns the files of the output that have tensors, with the tensors of
// each.
func (b *Parts) Files() []tensor.SetFile { return b.files }

// Write writes the part with the number file in Files, and returns the records
// of its tensors. If it is there already, or the output is, it writes nothing,
// and written is false.
func (b *Parts) Write(ctx context.Context, file int, run *RunOptions) (records []tensor.Record, written bool, err error) {
	f := b.files[file]
	if records, ok := b.Assembled(); ok {
		return records[f.From:f.To], false, nil
	}
	if n := b.receipt(file); n != nil {
		there, err := b.there(ctx, file, n, run.withDefaults(b.source).Workers)
		if there || err != nil {
			return n.Records, false, err
		}
	}
	if err := atomicfile.MkdirAll(b.dir); err != nil {
		return nil, false, err
	}
	tmp, err := os.MkdirTemp(b.dir, ".task-*")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(tmp)
	records, err = b.write(ctx, file, tmp, run)
	if err == nil {
		err = b.place(filepath.Join(tmp, f.Name), file, records)
	}
	if _, late := b.Assembled(); late {
		os.RemoveAll(b.dir) // another process has done the same, and it is all put together
		return records, true, nil
	}
	return records, err == nil, err
}

// write writes a file into the directory tmp.
func (b *Parts) write(ctx context.Context, file int, tmp string, run *RunOptions) ([]tensor.Record, error) {
	f, p, c := b.files[file], b.plan, b.source
	if !p.makesSet(b.path, &b.options) {
		records, err := Convert(ctx, c, p.archived(c, &b.options, func(o *CreateOptions) tensor.Sink {
			return p.createFile(filepath.Join(tmp, f.Name), o)
		}), p, run)
		return records, err
	}
	create := func(o *CreateOptions) tensor.Sink {
		s := &dirSink{path: b.path, source: c}
		return &partSink{p.createSet(tmp, s.stem(), c, o), o.Level, file, f}
	}
	sink := create(&b.options)
	if file == 0 { // it has what a store knows of its sources
		sink = p.archived(c, &b.options, create)
	}
	records, err := Convert(ctx, c, sink, p, run)
	if err != nil {
		return nil, err
	}
	return records[f.From:f.To], nil
}

// A partSink writes one file of a set.
type partSink struct {
	tensor.SetSink
	level codec.Level
	file  int
	part  tensor.SetFile
}

// resume says that the tensors of the other files are somebody else's.
func (s *partSink) resume(_ context.Context, infos []tensor.Info, meta tensor.Metadata, _ int) (map[int]tensor.Record, error) {
	files, err := s.Files(infos, meta)
	if err != nil {
		return nil, err
	}
	have := map[int]tensor.Record{}
	for k, f := range files {
		if k == s.file {
			continue
		}
		s.Omit(k)
		for i := f.From; i < f.To; i++ {
			have[i] = tensor.Record{Name: infos[i].Name}
		}
	}
	return have, nil
}

func (s *partSink) completed(int, []tensor.Record) {}

func (s *partSink) Finish(records []tensor.Record) error {
	err := s.FinishFile(s.file, records[s.part.From:s.part.To])
	s.Abort() // there is nothing else
	return err
}

// part returns the place of a part.
func (b *Parts) part(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

// receiptExt is what the name of a part's receipt ends with.
const receiptExt = ".receipt"

// place puts a part in its place, and its receipt beside it.
func (b *Parts) place(from string, file int, records []tensor.Record) error {
	name := b.files[file].Name
	n, err := b.plan.receiptFor(from, name, records)
	if err != nil {
		return err
	}
	n.Key = b.key
	line, err := n.encode()
	if err != nil {
		return err
	}
	receipt, err := atomicfile.Create(from + receiptExt)
	if err != nil {
		return err
	}
	defer receipt.Abort()
	if _, err := receipt.Write(line); err != nil {
		return err
	}
	if err := receipt.Commit(); err != nil {
		return err
	}
	to := b.part(name)
	if err := atomicfile.MkdirAll(filepath.Dir(to)); err != nil {
		return err
	}
	for _, ext := range []string{"", receiptExt} {
		if err := atomicfile.Rename(from+ext, to+ext); err != nil {
			return err
		}
		if err := atomicfile.SyncDir(filepath.Dir(to)); err != nil {
			return err
		}
	}
	return nil
}

// move moves a part to its place in a staging directory.
func (b *Parts) move(name, stage string) error {
	if err := atomicfile.MkdirAll(filepath.Dir(stage)); err != nil {
		return err
	}
	return atomicfile.Rename(b.part(name), stage)
}

// receipt returns that of a part; nil if there is none, or it is of another
// output.
func (b *Parts) receipt(file int) *note {
	f := b.files[file]
	line, err := os.ReadFile(b.part(f.Name) + receiptExt)
	if err != nil {
		return nil
	}
	notes := decodeNotes([][]byte{line})
	if len(notes) != 1 || notes[0].Key != b.key || notes[0].File != f.Name || len(notes[0].Records) != f.To-f.From {
		return nil
	}
	return &notes[0]
}

// whole tells whether the part of a receipt is there.
func (b *Parts) whole(n *note) bool {
	info, err := os.Stat(b.part(n.File))
	return err == nil && info.Size() == n.Size
}

// there tells whether the part of a receipt is there: in its place or, where the
// parts are being put together, or that has ended early, in another.
func (b *Parts) there(ctx context.Context, file int, n *note, workers int) (bool, error) {
	if b.whole(n) {
		return true, nil
	}
	for _, name := range []string{b.path, atomicfile.Inside(b.path)} {
		info, err := os.Stat(filepath.Join(atomicfile.Staging(name), filepath.FromSlash(n.File)))
		if err == nil && info.Size() == n.Size {
			return true, nil
		}
	}
	f := b.files[file]
	if err := b.plan.checkReceipt(ctx, b.final(file), n, b.plan.Infos()[f.From:f.To], workers); err != nil {
		if isDamage(err) || errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// Missing returns the numbers of the files of which there is no part, unless
// the output is there, or is being put together.
func (b *Parts) Missing() (files []int) {
	if _, ok := b.Assembled(); ok || b.begun() {
		return nil
	}
	for k := range b.files {
		if n := b.receipt(k); n == nil || !b.whole(n) {
			files = append(files, k)
		}
	}
	return files
}

// begun tells whether a process has begun to put the parts together, and has
// not ended.
func (b *Parts) begun() bool {
	return atomicfile.Left(b.path) || FormatOf(b.path) == "" && atomicfile.Left(atomicfile.Inside(b.path))
}

// Assemble puts the parts together: the output appears at its path, as with
// Create, with what belongs to all of it, such as an index, and the parts are
// gone. It returns the records of all tensors, also if it has done so before.
// The values are not read again.
//
// Parts that are missing, or are not what their receipts say, are
// ErrIncomplete. Whatever else fails leaves the parts for the next time.
func (b *Parts) Assemble(ctx context.Context, run *RunOptions) ([]tensor.Record, error) {
	if records, ok := b.Assembled(); ok {
		b.tidy()
		return records, nil
	}
	records, err := b.placed(ctx, run.withDefaults(b.source).Workers)
	if err != nil {
		return nil, err
	}
	if records == nil {
		if records, err = b.assemble(ctx, run); err != nil {
			return nil, err
		}
	}
	key, err := b.plan.key(b.source, &b.options)
	if err != nil {
		return nil, err
	}
	if err := writeReceipt(b.path, &receipt{Key: key, Batch: b.key}, records); err != nil {
		return nil, fmt.Errorf("%s is complete, but has no receipt: %w", b.path, err)
	}
	os.RemoveAll(b.dir) // what another process is just writing there does not matter
	return records, nil
}

// tidy removes what a process left that was killed after the output was
// complete, but no parts of another conversion.
func (b *Parts) tidy() {
	foreign := errors.New("of another conversion")
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, receiptExt) {
			return err
		}
		line, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if notes := decodeNotes([][]byte{line}); len(notes) != 1 || notes[0].Key != b.key {
			return foreign
		}
		return nil
	})
	if err == nil {
		os.RemoveAll(b.dir)
	}
}

// Assembled returns the records of the output, if its receipt says that it was
// put together from these parts, and its files are as they were then.
func (b *Parts) Assembled() (records []tensor.Record, ok bool) {
	r := readReceipt(b.path)
	if r == nil || r.Batch != b.key {
		return nil, false
	}
	notes := decodeNotes([][]byte{[]byte(r.Records)})
	if len(notes) != 1 || len(notes[0].Records) != len(b.plan.Tensors) {
		return nil, false
	}
	return notes[0].Records, true
}

// assemble does what is left to do.
func (b *Parts) assemble(ctx context.Context, run *RunOptions) ([]tensor.Record, error) {
	if missing := b.Missing(); len(missing) > 0 {
		return nil, b.incomplete(missing)
	}
	sink, err := b.plan.create(b.path, b.source, &b.options, b)
	if err != nil {
		return nil, err
	}
	if b.plan.makesSet(b.path, &b.options) {
		return Convert(ctx, b.source, sink, b.plan, run)
	}
	n := b.receipt(0)
	if err := b.check(b.part(n.File), n, b.plan.Infos()); err != nil {
		return nil, b.discard(0, err)
	}
	return n.Records, atomicfile.Publish(b.part(n.File), b.path, b.options.IfExists == Replace)
}

func (b *Parts) incomplete(missing []int) error {
	var names []string
	for _, k := range missing[:min(len(missing), 10)] {
		names = append(names, b.files[k].Name)
	}
	if len(missing) > len(names) {
		names = append(names, "…")
	}
	return fmt.Errorf("%s: %w: %d of %d files are missing: %s", b.path, ErrIncomplete, len(missing), len(b.files), strings.Join(names, ", "))
}

// check opens a part and compares it with its receipt, but for the values.
func (b *Parts) check(path string, n *note, infos []tensor.Info) error {
	src, _, err := b.plan.openReceipted(path, n, infos)
	if err != nil {
		return err
	}
	return src.Close()
}

// discard removes the receipt of a part that is not what was written, so that
// it is written again. One that cannot be read stays.
func (b *Parts) discard(file int, why error) error {
	if !isDamage(why) {
		return why
	}
	name := b.part(b.files[file].Name)
	return errors.Join(fmt.Errorf("%s: %w: the part %s is not what was written (%w): it has to be written again", b.path, ErrIncomplete, name, why), os.Remove(name+receiptExt))
}

// placed returns the records of an output that has been put together by a
// process which ended before it could say so; nil if there is none. Its values
// are read.
func (b *Parts) placed(ctx context.Context, workers int) (records []tensor.Record, err error) {
	if b.begun() {
		return nil, nil
	}
	notes := make([]*note, len(b.files))
	for k := range b.files {
		if notes[k] = b.receipt(k); notes[k] == nil {
			return nil, nil
		}
		info, err := os.Stat(b.final(k))
		if err != nil || info.Size() != notes[k].Size {
			return nil, nil //nolint:nilerr // it is not there
		}
	}
	infos := b.plan.Infos()
	for k, f := range b.files {
		if b.whole(notes[k]) {
			return nil, nil // nothing has been moved
		}
		err := b.plan.checkReceipt(ctx, b.final(k), notes[k], infos[f.From:f.To], workers)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, nil //nolint:nilerr // it is something else
		}
		records = append(records, notes[k].Records...)
	}
	return records, nil
}

// final returns the place of a file in the output.
func (b *Parts) final(file int) string {
	if !b.plan.makesSet(b.path, &b.options) {
		return b.path
	}
	return filepath.Join((&dirSink{path: b.path}).target(), filepath.FromSlash(b.files[file].Name))
}
