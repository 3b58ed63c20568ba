package format

import (
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// sets has the names of the files, and the rules of sets of them.
var sets = shardset.Kind{Ext: ".demi", Noun: "file"}

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this stem (which may have a directory): "stem-00001-of-00003.demi".
func ShardName(stem string, no, count int) string { return sets.ShardName(stem, no, count) }

// ParseShardName is the reverse of ShardName; ok is false for other names.
func ParseShardName(name string) (stem string, no, count int, ok bool) {
	return sets.ParseShardName(name)
}

// IndexName returns the name of the index of the set with this stem:
// "stem.demi.index.json".
func IndexName(stem string) string { return sets.IndexName(stem) }

// checkFileName refuses what is not the plain name of a file of a set, on any
// system.
func checkFileName(name string) error {
	if name == sets.Ext {
		return classed(tensor.ErrUnsupported, "file name %s does not end in %s", quote(name), sets.Ext)
	}
	return sets.CheckName(name, quote[string])
}
