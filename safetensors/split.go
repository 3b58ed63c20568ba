package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// DefaultShardSize is the limit for a shard that the Hub's own tools have: 5
// GB, decimal.
const DefaultShardSize int64 = 5_000_000_000

// A Shard is a run of tensors that share a file.
type Shard struct {
	From, To int   // tensors From to To-1
	Size     int64 // bytes of their data
}

// SplitShards divides tensors into shards, in order: a shard ends before the
// tensor that would take its data beyond limit bytes. A tensor that is larger
// than that gets a shard of its own, with a warning; no shard is empty, but
// that without tensors there is one. limit <= 0 means no limit.
func SplitShards(infos []tensor.Info, limit int64) (shards []Shard, warnings []string) {
	cur := Shard{}
	for i := range infos {
		size := infos[i].Size
		if limit > 0 && size > limit {
			warnings = append(warnings, fmt.Sprintf("tensor %q of %d bytes is larger than the limit of %d for a shard", infos[i].Name, size, limit))
		}
		sum, fits := tensor.AddSize(cur.Size, size)
		if cur.To > cur.From && (!fits || limit > 0 && sum > limit) {
			shards, sum = append(shards, cur), size
			cur = Shard{From: i}
		}
		cur.To, cur.Size = i+1, sum
	}
	return append(shards, cur), warnings
}

// A setSink writes a sharded set.
type setSink struct {
	stem   string // with its directory
	limit  int64
	opts   WriteOptions
	shards []Shard
	files  []*fileSink
	where  []place // of each tensor
	index  *Index  // nil for one file
	total  int64
	mu     sync.Mutex // of ended, in what begins and ends the set
	ended  bool
}

// A place is a tensor's shard and its index there.
type place struct{ shard, i int }

// CreateSet returns a Sink that writes a set of shards into a directory that
// exists: SplitShards with limit says which tensors share a file, the tensors
// of each file come in the order of Order, and an index names them. If there
// is one shard only, it is the plain file stem.safetensors, without an index.
// Metadata is that of every file.
//
// Write may be called concurrently and in any order. Finish makes all shards
// durable, one after another, and the index last. Other files in the directory
// are left alone, also shards and an index of a set that was there before:
// write into an empty directory, or remove them.
func CreateSet(dir, stem string, limit int64, o *WriteOptions) tensor.Sink {
	return &setSink{stem: filepath.Join(dir, stem), limit: limit, opts: o.orZero()}
}

func (s *setSink) Ordered() bool { return false }

func (s *setSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files != nil || s.ended {
		return errBegun
	}
	err := s.check(infos, meta)
	for no := 0; err == nil && no < len(s.shards); no++ {
		err = s.beginShard(no, infos, meta)
	}
	if err != nil {
		s.abort()
	}
	return err
}

// check refuses what no file of the set could hold, before the first is begun,
// and makes the index.
func (s *setSink) check(infos []tensor.Info, meta tensor.Metadata) error {
	errs := append(checkTensors(infos, s.opts.Lenient), checkMetadata(meta)...)
	s.shards, _ = SplitShards(infos, s.limit)
	if len(s.shards) > maxShards {
		errs = append(errs, cannotHold("", "%d shards of %d bytes, names count %d", len(s.shards), s.limit, maxShards))
	}
	if err := checkFileName(s.name(0)); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return inFile(s.stem+fileSuffix, errors.Join(errs...))
	}
	if len(s.shards) == 1 {
		return nil
	}
	s.index = &Index{Meta: s.opts.IndexMeta, Files: make(map[string]string, len(infos))}
	for no, shard := range s.shards {
		s.total += shard.Size
		for _, in := range infos[shard.From:shard.To] {
			s.index.Files[in.Name] = s.name(no)
		}
	}
	_, err := s.index.AppendJSON(nil, s.total)
	return err
}

// name returns the name of a shard's file, without the directory.
func (s *setSink) name(no int) string {
	stem := filepath.Base(s.stem)
	if len(s.shards) == 1 {
		return stem + fileSuffix
	}
	return ShardName(stem, no+1, len(s.shards))
}

// beginShard starts the file of a shard.
func (s *setSink) beginShard(no int, infos []tensor.Info, meta tensor.Metadata) error {
	infos = infos[s.shards[no].From:s.shards[no].To]
	order := Order(infos, &s.opts)
	sorted, where := make([]tensor.Info, len(infos)), make([]place, len(infos))
	for to, from := range order {
		sorted[to], where[from] = infos[from], place{no, to}
	}
	s.where = append(s.where, where...)
	f := &fileSink{name: filepath.Join(filepath.Dir(s.stem), s.name(no)), opts: &s.opts}
	s.files = append(s.files, f)
	return f.Begin(sorted, meta)
}

func (s *setSink) Write(i int, off int64, p []byte) error {
	if i < 0 || i >= len(s.where) {
		return fmt.Errorf("safetensors: write to tensor %d of %d", i, len(s.where))
	}
	return s.files[s.where[i].shard].Write(s.where[i].i, off, p)
}

// Finish checks that all shards are complete before it puts any of them in its
// place. If that fails for one of them, those before it are removed: without
// the others they are of no use.
func (s *setSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil || s.ended {
		return errNotBegun
	}
	for _, f := range s.files {
		if err := f.whole(); err != nil {
			return err
		}
	}
	for no, f := range s.files {
		if err := f.Finish(nil); err != nil {
			return errors.Join(err, s.retreat(no))
		}
	}
	if err := s.writeIndex(); err != nil {
		return errors.Join(err, s.retreat(len(s.files)))
	}
	s.ended = true
	return nil
}

// retreat removes the first n files, which have taken their places.
func (s *setSink) retreat(n int) error {
	var errs []error
	for _, f := range s.files[:n] {
		errs = append(errs, os.Remove(f.name))
	}
	s.abort()
	return errors.Join(errs...)
}

func (s *setSink) writeIndex() error {
	if s.index == nil {
		return nil
	}
	text, err := s.index.AppendJSON(nil, s.total)
	if err != nil {
		return err
	}
	f, err := atomicfile.Create(IndexName(s.stem))
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Commit()
}

func (s *setSink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort()
}

func (s *setSink) abort() {
	s.ended = true
	for _, f := range s.files {
		f.Abort()
	}
}
