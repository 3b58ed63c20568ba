package safetensors

import (
	"strconv"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// sets has the names of the files, and the rules of sets of them.
var sets = shardset.Kind{Ext: ".safetensors", Noun: "shard"}

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this stem (which may have a directory):
// "stem-00001-of-00003.safetensors".
func ShardName(stem string, no, count int) string { return sets.ShardName(stem, no, count) }

// ParseShardName is the reverse of ShardName; ok is false for other names.
func ParseShardName(name string) (stem string, no, count int, ok bool) {
	return sets.ParseShardName(name)
}

// IndexName returns the name of the index of the set with this stem:
// "stem.safetensors.index.json".
func IndexName(stem string) string { return sets.IndexName(stem) }

// checkFileName refuses what is not the plain name of a safetensors file in
// the directory of an index, on any system.
func checkFileName(name string) error {
	if name == "" || name == "." || name == ".." {
		return classed(tensor.ErrFormat, "%q is not the name of a file", name)
	}
	return sets.CheckName(name, strconv.Quote)
}
