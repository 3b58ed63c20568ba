package shardset

import (
	"fmt"

	"github.com/demi-weights/demi/tensor"
)

// A Shard is a run of tensors that share a file: tensors From to To-1, with
// Size bytes of data.
type Shard interface {
	~struct {
		From, To int
		Size     int64
	}
}

// A ShardOf gives the number of a shard for the name of a tensor. Nil gives all
// the same.
type ShardOf func(name string) int

// Apart reports whether tensor i and the one before it have different shards.
func (f ShardOf) Apart(infos []tensor.Info, i int) bool {
	return f != nil && i > 0 && f(infos[i-1].Name) != f(infos[i].Name)
}

// Split divides tensors into shards, in order: a shard ends before the tensor
// that would take its data beyond limit bytes. A tensor that is larger than
// that gets a shard of its own, with a warning; no shard is empty, but that
// without tensors there is one. limit <= 0 means no limit. Tensors for which
// shardOf, if it is not nil, has different answers share no shard.
func Split[S Shard](infos []tensor.Info, limit int64, shardOf ShardOf) (shards []S, warnings []string) {
	var cur struct {
		From, To int
		Size     int64
	}
	for i := range infos {
		size := infos[i].Size
		if limit > 0 && size > limit {
			warnings = append(warnings, fmt.Sprintf("tensor %q of %d bytes is larger than the limit of %d for a shard", infos[i].Name, size, limit))
		}
		sum, fits := tensor.AddSize(cur.Size, size)
		if cur.To > cur.From && (!fits || limit > 0 && sum > limit || shardOf.Apart(infos, i)) {
			shards, sum = append(shards, S(cur)), size
			cur.From = i
		}
		cur.To, cur.Size = i+1, sum
	}
	return append(shards, S(cur)), warnings
}
