package demi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// A dirSink writes a set of files into a directory, which appears complete, or,
// if the path has the extension of a format, beside the path. A file gets a receipt in the journal when it is complete, so that a run after
// one that ended early need not write it again.
type dirSink struct {
	tensor.SetSink
	path       string
	plan       *Plan
	source     *Checkpoint
	options    CreateOptions
	companions []companion
	key        string
	parts      *Parts // whose files are taken; nil for those of an earlier run alone

	dir     *atomicfile.Dir
	inside  bool        // the staging directory is in that of the output
	stopped func() bool // whether the run was told to end; nil before resume
	files   []tensor.SetFile
	kept    []bool
	current int  // the file whose tensors are being completed
	moving  bool // an earlier run has begun to move files to their places
	remove  []string

	ending   sync.WaitGroup // files that are being finished
	mu       sync.Mutex     // for what follows
	err      error          // of one of them
	complete bool           // one is finished and noted
}

// resume begins the output before Begin, and returns the records of tensors
// that an earlier run has written and that need not be written again.
func (s *dirSink) resume(ctx context.Context, infos []tensor.Info, meta tensor.Metadata, workers int) (map[int]tensor.Record, error) {
	err := s.start(infos, meta)
	if err != nil {
		return nil, err
	}
	s.stopped = func() bool { return ctx.Err() != nil }
	notes := decodeNotes(s.dir.Notes())
	if len(notes) == 0 || s.key == "" || notes[0].Key != s.key {
		if err := s.restart(); err != nil {
			return nil, err
		}
		notes = []note{{Key: s.key}}
	}
	if last := notes[len(notes)-1]; last.Moving {
		s.moving, s.remove = true, last.Remove
	}
	have := map[int]tensor.Record{}
	for i := range notes[1:] {
		if err := s.adopt(ctx, &notes[i+1], infos, workers, have); err != nil {
			return nil, err
		}
	}
	if s.parts != nil {
		if err := s.collect(ctx, infos, workers, have); err != nil {
			return nil, err
		}
	}
	return have, s.clean()
}

// collect takes over the parts.
func (s *dirSink) collect(ctx context.Context, infos []tensor.Info, workers int, have map[int]tensor.Record) error {
	var missing []int
	notes := make([]*note, len(s.files))
	for k := range s.files {
		if notes[k] = s.parts.receipt(k); !s.kept[k] && (notes[k] == nil || !s.parts.whole(notes[k])) {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		return s.parts.incomplete(missing)
	}
	for k, n := range notes {
		if s.kept[k] {
			continue
		}
		if err := s.parts.check(s.parts.part(n.File), n, infos[s.files[k].From:s.files[k].To]); err != nil {
			return s.parts.discard(k, err)
		}
		if err := s.note(n); err != nil { // first: what the journal does not know is removed
			return err
		}
		if err := s.adopt(ctx, n, infos, workers, have); err != nil {
			return err
		}
		if !s.kept[k] {
			return s.parts.discard(k, errNotWhole)
		}
	}
	return nil
}

// start makes the staging directory and lays the files out.
func (s *dirSink) start(infos []tensor.Info, meta tensor.Metadata) (err error) {
	if s.parts != nil {
		s.key = s.parts.key
	} else if s.key, err = s.plan.key(s.source, &s.options); err != nil {
		return err
	}
	switch s.inside = !s.beside() && atomicfile.Mounted(s.path); {
	case s.inside:
		s.dir, err = atomicfile.CreateFiles(atomicfile.Inside(s.path))
	case s.beside():
		s.dir, err = atomicfile.CreateFiles(s.path)
	default:
		s.dir, err = atomicfile.CreateDir(s.path)
	}
	if err != nil {
		return err
	}
	s.dir.KeepFailed(s.parts != nil)
	s.SetSink = s.plan.createSet(s.dir.Path(""), s.stem(), s.source, &s.options)
	s.files, err = s.Files(infos, meta)
	s.kept = make([]bool, len(s.files))
	return err
}

// beside reports whether the files go where the path is, under names made of
// it.
func (s *dirSink) beside() bool { return FormatOf(s.path) != "" }

// target returns the directory that the files go to.
func (s *dirSink) target() string {
	if s.beside() {
		return filepath.Dir(s.path)
	}
	return s.path
}

// stem returns what the names of the files begin with: in a directory that of
// the source, which loaders look for.
func (s *dirSink) stem() string {
	if s.beside() {
		return strings.TrimSuffix(filepath.Base(s.path), filepath.Ext(s.path))
	}
	return s.source.stem()
}

// restart forgets what an earlier run has written.
func (s *dirSink) restart() error {
	if err := s.dir.Reset(); err != nil {
		return err
	}
	return s.note(&note{Key: s.key})
}

func (s *dirSink) note(n *note) error {
	line, err := n.encode()
	if err != nil {
		return err
	}
	return s.dir.Note(line)
}

// adopt takes over a file of an earlier run if it is whole.
func (s *dirSink) adopt(ctx context.Context, n *note, infos []tensor.Info, workers int, have map[int]tensor.Record) error {
	k := slices.IndexFunc(s.files, func(f tensor.SetFile) bool { return f.Name == n.File })
	if k < 0 || n.Moving {
		return nil
	}
	stage := s.dir.Path(n.File)
	if _, err := os.Lstat(stage); err != nil && s.moving {
		os.Rename(filepath.Join(s.target(), n.File), stage) // it was moved; if that fails the file is not there
	}
	if _, err := os.Lstat(stage); err != nil && s.parts != nil {
		if err := s.parts.move(n.File, stage); err != nil {
			return err
		}
	}
	from, to := s.files[k].From, s.files[k].To
	if err := s.check(ctx, stage, n, infos[from:to], workers); err != nil {
		if s.parts == nil || isDamage(err) {
			return ctx.Err() // it is made again
		}
		return err
	}
	s.Keep(k)
	s.kept[k] = true
	for i := range n.Records {
		have[from+i] = n.Records[i]
	}
	return nil
}

// check compares a file with its receipt: the values too, but those of parts.
func (s *dirSink) check(ctx context.Context, stage string, n *note, infos []tensor.Info, workers int) error {
	if s.parts != nil {
		return s.parts.check(stage, n, infos)
	}
	return s.plan.checkReceipt(ctx, stage, n, infos, workers)
}

// isDamage reports whether an error says that a file is not what was written,
// and not that it cannot be read.
func isDamage(err error) bool {
	for _, class := range []error{errNotWhole, tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrLimit} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// clean removes from the staging directory what is not kept.
func (s *dirSink) clean() error {
	staged, err := filesUnder(s.dir.Path(""))
	for _, file := range staged {
		k := slices.IndexFunc(s.files, func(f tensor.SetFile) bool { return f.Name == file })
		if k < 0 || !s.kept[k] {
			err = errors.Join(err, os.Remove(s.dir.Path(file)))
		}
	}
	return err
}

// filesUnder returns the files below a directory, with slashes.
func filesUnder(dir string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func (s *dirSink) Ordered() bool { return s.plan.Options.Format == Demi }

func (s *dirSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	if s.dir == nil {
		if err := s.start(infos, meta); err != nil {
			return err
		}
		if err := s.restart(); err != nil {
			return err
		}
	}
	return s.SetSink.Begin(infos, meta)
}

// completed is told of each tensor, in order, when its bytes and its record are
// complete. records are those of all tensors.
func (s *dirSink) completed(i int, records []tensor.Record) {
	k := s.current
	if f := &s.files[k]; i != f.To-1 {
		return
	}
	s.current++
	if s.kept[k] {
		return
	}
	s.ending.Go(func() {
		err := s.finishFile(k, records[s.files[k].From:s.files[k].To])
		s.mu.Lock()
		s.err = errors.Join(s.err, err)
		s.mu.Unlock()
	})
}

func (s *dirSink) finishFile(k int, records []tensor.Record) error {
	if err := s.FinishFile(k, records); err != nil {
		return err
	}
	name := s.files[k].Name
	receipt, err := s.plan.receiptFor(s.dir.Path(name), name, records)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.note(receipt)
	s.complete = s.complete || err == nil
	return err
}

func (s *dirSink) Finish(records []tensor.Record) error {
	s.ending.Wait()
	if s.err != nil {
		return s.err
	}
	if err := s.SetSink.Finish(records); err != nil {
		return err
	}
	dtype := s.plan.newDType
	if s.options.KeepConfig {
		dtype = func(string) tensor.DType { return tensor.Invalid }
	}
	if err := copyCompanions(s.dir, s.companions, dtype, s.options.Warn); err != nil {
		return err
	}
	return s.publish()
}

// publish puts the directory, or in one that is there already the files, in
// their places.
func (s *dirSink) publish() error {
	files, err := filesUnder(s.dir.Path(""))
	if err != nil {
		return err
	}
	if !s.beside() {
		entries, err := foreign(s.path)
		if !s.inside && (err != nil || len(entries) == 0) {
			return s.dir.Commit()
		}
		if len(entries) > 0 && s.options.IfExists != Replace && !(s.inside && s.moving) {
			return exists(s.path, "the directory is not empty")
		}
	}
	if !s.moving {
		if s.remove, err = s.replaced(files); err != nil {
			return err
		}
		if err := s.note(&note{Moving: true, Remove: s.remove}); err != nil {
			return err
		}
	}
	remove := slices.DeleteFunc(s.remove, func(f string) bool { return slices.Contains(files, f) })
	return s.dir.Merge(s.inOrder(files), remove)
}

// replaced returns the files that the new ones replace.
func (s *dirSink) replaced(files []string) ([]string, error) {
	if !s.beside() {
		return owned(s.path)
	}
	old, err := ownedBeside(s.path)
	if err != nil || s.options.IfExists == Replace {
		return old, err
	}
	for _, file := range append(files, old...) {
		path := filepath.Join(s.target(), file)
		if _, err := os.Lstat(path); err == nil {
			return nil, exists(path, "")
		}
	}
	return nil, nil
}

// inOrder sorts files so that what names others comes after them: the shards,
// of GGUF the first one last, then the rest, then indexes.
func (s *dirSink) inOrder(files []string) []string {
	rank := func(file string) int {
		k := slices.IndexFunc(s.files, func(f tensor.SetFile) bool { return f.Name == file })
		switch {
		case k >= 0 && s.plan.Options.Format == GGUF:
			return -k
		case k >= 0:
			return k - len(s.files)
		case strings.HasSuffix(file, indexSuffix):
			return 2
		}
		return 1
	}
	slices.SortStableFunc(files, func(a, b string) int { return rank(a) - rank(b) })
	return files
}

// owned returns the files of the checkpoint in a directory, and its indexes: what
// another one in its place replaces. Weights of which it cannot be told whether
// they belong to it are an error.
func owned(dir string) (files []string, err error) {
	o := newOpener(nil, nil)
	weights, err := o.weightsIn(dir)
	if err != nil {
		return nil, err
	}
	if o.isPipeline(dir) {
		names, err := o.componentNames(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			list, err := o.weightsIn(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			for _, file := range list {
				weights = append(weights, name+"/"+file)
			}
		}
	}
	if len(weights) == 0 {
		return nil, nil
	}
	c, err := Open(dir, nil)
	if err != nil {
		return nil, notTold(dir, "what is there cannot be told to be one checkpoint", err)
	}
	defer c.Close()
	for _, s := range c.sections {
		file, err := filepath.Rel(dir, s.File)
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.ToSlash(file))
	}
	for _, w := range weights {
		if strings.HasSuffix(w, indexSuffix) {
			files = append(files, w)
		} else if !slices.Contains(files, w) {
			return nil, exists(dir, "%s is none of the files of the checkpoint there", w)
		}
	}
	return files, nil
}

// ownedBeside returns the files of the output at path, which has the extension
// of a format: itself, or those of the set that is named after it.
func ownedBeside(path string) (files []string, err error) {
	if _, err := os.Lstat(path); err == nil {
		files = append(files, filepath.Base(path))
	}
	set := path + indexSuffix
	if _, err := os.Lstat(set); err != nil {
		if set = firstShard(path); set == "" {
			return files, nil
		}
	}
	c, err := Open(set, nil)
	if err != nil {
		return nil, notTold(set, "what belongs to it cannot be told", err)
	}
	defer c.Close()
	for _, s := range c.sections {
		files = append(files, filepath.Base(s.File))
	}
	if strings.HasSuffix(set, indexSuffix) {
		files = append(files, filepath.Base(set))
	}
	return files, nil
}

// notTold is the error for an output that is there and is not what it should
// be, or cannot be read.
func notTold(path, why string, err error) error {
	for _, class := range []error{tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrLimit} {
		if errors.Is(err, class) {
			return exists(path, "%s: %v", why, err)
		}
	}
	return fmt.Errorf("%s: %s: %w", path, why, err)
}

// firstShard returns the first file of a set without an index that is named
// after path; "" if there is none.
func firstShard(path string) string {
	dir, base := filepath.Split(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		stem, no, _, ok := gguf.ParseShardName(e.Name())
		if ok && no == 1 && stem+filepath.Ext(base) == base {
			return dir + e.Name()
		}
	}
	return ""
}

// Abort removes what was written; what was complete when the run was told to
// end stays for the next one, as if the process had been killed.
func (s *dirSink) Abort() {
	s.ending.Wait()
	if s.SetSink != nil {
		s.SetSink.Abort()
	}
	switch {
	case s.dir == nil:
	case s.parts != nil && slices.Contains(s.kept, true):
		s.dir.Leave()
	case s.key != "" && s.stopped != nil && s.stopped() && (s.complete || slices.Contains(s.kept, true)):
		s.dir.Leave()
	default:
		s.dir.Abort()
	}
}
