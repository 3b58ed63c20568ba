package gguf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/internal/shardset"
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
		if cur.To > cur.From && (maxBytes > 0 && sum > maxBytes || o.shardOf().Apart(infos, i)) {
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

func (o *WriteOptions) shardOf() shardset.ShardOf {
	if o == nil {
		return nil
	}
	return o.ShardOf
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
func CreateSet(name string, maxBytes int64, o *WriteOptions) tensor.SetSink {
	prefix := strings.TrimSuffix(name, ".gguf")
	return rawsink.NewSet(format, func(infos []tensor.Info, meta tensor.Metadata) (*rawsink.SetLayout, error) {
		meta = withoutSplit(meta)
		if _, err := Plan(infos, meta, o); err != nil { // also finds names that come twice across shards
			return nil, inFile(prefix+".gguf", err)
		}
		shards, err := Split(infos, maxBytes, o)
		if err != nil {
			return nil, inFile(prefix+".gguf", err)
		}
		return o.planSet(prefix, shards, infos, meta)
	})
}

// planSet lays out the files of a set; the first one is the last to appear.
func (o *WriteOptions) planSet(prefix string, shards []Shard, infos []tensor.Info, meta tensor.Metadata) (*rawsink.SetLayout, error) {
	set := &rawsink.SetLayout{}
	for no, shard := range shards {
		name, keys := sets.FileName(prefix, no+1, len(shards)), meta
		if len(shards) > 1 {
			keys = splitMeta(meta, no, len(shards), len(infos))
		}
		layout, err := o.planFile(name, infos[shard.From:shard.To], keys)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, rawsink.Shard{Name: name, Layout: layout})
		set.Order = append(set.Order, len(shards)-1-no)
		for i := range shard.To - shard.From {
			set.Places = append(set.Places, rawsink.Place{File: no, Tensor: i})
		}
	}
	return set, nil
}

// splitMeta returns the metadata of shard no, counted from 0: the keys of the
// set are in the order of llama-gguf-split.
func splitMeta(meta tensor.Metadata, no, shards, tensors int) tensor.Metadata {
	if no > 0 {
		meta = nil
	}
	return append(slices.Clip(meta),
		tensor.Entry{Key: keySplitNo, Value: uint16(no)},
		tensor.Entry{Key: keySplitTensors, Value: int32(tensors)},
		tensor.Entry{Key: keySplitCount, Value: uint16(shards)})
}
