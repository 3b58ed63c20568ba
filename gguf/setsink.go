package gguf

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/demi-weights/demi/tensor"
)

// A Shard is a run of tensors that share a file.
type Shard struct {
	From, To int   // tensors From to To-1
	Size     int64 // bytes of their data, with padding
}

// Split divides tensors into shards, in order: a shard ends before the tensor
// that would take its data, padding included, beyond maxBytes. A larger tensor
// gets a shard of its own; no shard is empty, but that without tensors there
// is one. maxBytes <= 0 means no limit.
func Split(infos []tensor.Info, maxBytes int64, o *WriteOptions) ([]Shard, error) {
	align, err := o.align()
	if err != nil {
		return nil, err
	}
	var shards []Shard
	cur := Shard{}
	for i := range infos {
		size, ok := tensor.AlignUp(infos[i].Size, align)
		sum, fits := tensor.AddSize(cur.Size, size)
		if !ok || !fits {
			return nil, cannotHold(infos[i].Name, "size of %d bytes ends beyond 2^63", infos[i].Size)
		}
		if maxBytes > 0 && sum > maxBytes && cur.To > cur.From {
			shards = append(shards, cur)
			cur, sum = Shard{From: i}, size
		}
		cur.To, cur.Size = i+1, sum
	}
	shards = append(shards, cur)
	if len(shards) > maxShards {
		return nil, fmt.Errorf("%w: %d shards of %d bytes, GGUF counts %d", tensor.ErrUnsupported, len(shards), maxBytes, maxShards)
	}
	return shards, nil
}

// A setSink writes a split set.
type setSink struct {
	prefix   string
	maxBytes int64
	opts     *WriteOptions
	shards   []Shard
	sinks    []*fileSink
	of       []int      // shard of each tensor
	mu       sync.Mutex // of what begins and ends the set
}

// CreateSet returns a Sink that writes a split set: name without ".gguf" is the
// prefix of ShardName, and Split with maxBytes says which tensors share a
// shard. If there is one shard only, it is the plain file name.gguf.
//
// The first shard has all the metadata, and the others only split.no,
// split.count and split.tensors.count (and general.alignment if it is not 32),
// as llama.cpp splits; keys of these names in the metadata given are replaced.
// Write may be called concurrently and in any order. Finish makes all shards
// durable; the first one, without which the others cannot be opened, appears
// last.
func CreateSet(name string, maxBytes int64, o *WriteOptions) tensor.Sink {
	return &setSink{prefix: strings.TrimSuffix(name, ".gguf"), maxBytes: maxBytes, opts: o}
}

func (s *setSink) Ordered() bool { return false }

func (s *setSink) Begin(infos []tensor.Info, meta tensor.Metadata) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sinks != nil {
		return errBegun
	}
	meta = withoutSplit(meta)
	if _, err := Plan(infos, meta, s.opts); err != nil { // also finds names that come twice across shards
		return inFile(s.prefix+".gguf", err)
	}
	shards, err := Split(infos, s.maxBytes, s.opts)
	if err != nil {
		return inFile(s.prefix+".gguf", err)
	}
	s.shards, s.of = shards, make([]int, 0, len(infos))
	for no := range shards {
		if err := s.beginShard(no, infos, meta); err != nil {
			s.abort()
			return err
		}
	}
	return nil
}

// beginShard starts the sink of one shard.
func (s *setSink) beginShard(no int, infos []tensor.Info, meta tensor.Metadata) error {
	shard := s.shards[no]
	for range shard.To - shard.From {
		s.of = append(s.of, no)
	}
	name := s.prefix + ".gguf"
	if len(s.shards) > 1 {
		name = ShardName(s.prefix, no+1, len(s.shards))
		if no > 0 {
			meta = nil
		}
		meta = append(meta[:len(meta):len(meta)],
			tensor.Entry{Key: keySplitNo, Value: uint16(no)},
			tensor.Entry{Key: keySplitTensors, Value: int32(len(infos))},
			tensor.Entry{Key: keySplitCount, Value: uint16(len(s.shards))}) // the order of llama-gguf-split
	}
	sink := &fileSink{name: name, opts: s.opts}
	s.sinks = append(s.sinks, sink)
	return sink.Begin(infos[shard.From:shard.To], meta)
}

func (s *setSink) Write(i int, off int64, p []byte) error {
	if i < 0 || i >= len(s.of) {
		return fmt.Errorf("gguf: write to tensor %d of %d", i, len(s.of))
	}
	no := s.of[i]
	return s.sinks[no].Write(i-s.shards[no].From, off, p)
}

// Finish checks that all shards are complete before it puts any of them in its
// place.
func (s *setSink) Finish([]tensor.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sinks == nil {
		return errNotBegun
	}
	for _, sink := range s.sinks {
		if err := sink.whole(); err != nil {
			return err
		}
	}
	for no := len(s.sinks) - 1; no >= 0; no-- {
		if err := s.sinks[no].Finish(nil); err != nil {
			return errors.Join(err, s.retreat(no+1))
		}
	}
	return nil
}

// retreat removes the shards from number no on, which have taken their places:
// without those before them they are of no use.
func (s *setSink) retreat(no int) error {
	var errs []error
	for _, sink := range s.sinks[no:] {
		errs = append(errs, os.Remove(sink.name))
	}
	s.abort()
	return errors.Join(errs...)
}

func (s *setSink) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort()
}

func (s *setSink) abort() {
	for _, sink := range s.sinks {
		sink.Abort()
	}
	if s.sinks == nil {
		s.sinks = []*fileSink{}
	}
}
