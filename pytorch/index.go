package pytorch

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// sets has the names of the files of sets, and their rules; lone has those of
// checkpoints that come in one file.
var (
	sets = shardset.Kind{Ext: ".bin", Noun: "shard"}
	lone = []shardset.Kind{{Ext: ".pt", Noun: "file"}, {Ext: ".pth", Noun: "file"}, {Ext: ".ckpt", Noun: "file"}}
)

// ShardName returns the name of shard no of count, counted from 1, of the set
// with this stem: "stem-00001-of-00003.bin".
func ShardName(stem string, no, count int) string { return sets.ShardName(stem, no, count) }

// ParseShardName returns the parts of the name of a shard,
// "stem-00001-of-00003.bin"; ok is false for other names.
func ParseShardName(name string) (stem string, no, count int, ok bool) {
	return sets.ParseShardName(name)
}

// An Index says in which file of a set each tensor is: the content of
// pytorch_model.bin.index.json.
type Index struct {
	// Files has the file of each tensor: a plain name, in the directory of the
	// index.
	Files map[string]string
	// Meta has the members of the metadata, as JSON text.
	Meta  map[string]string
	total float64 // NaN if there is none
}

// ParseIndex reads an index. It refuses what is not strict JSON, names that
// come twice, a missing weight_map, and file names that are not plain names of
// files in .bin. Members that it does not know are accepted. Its errors wrap
// tensor.ErrFormat or tensor.ErrUnsupported.
func ParseIndex(text []byte) (*Index, error) {
	var in struct {
		Metadata  map[string]jsontext.Value `json:"metadata"`
		WeightMap map[string]string         `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, &tensor.FileError{Offset: offsetOf(err), Err: classed(tensor.ErrFormat, "index: %v", err)}
	}
	if in.WeightMap == nil {
		return nil, &tensor.FileError{Offset: -1, Err: classed(tensor.ErrFormat, "weight_map is missing")}
	}
	x := &Index{Files: in.WeightMap, total: math.NaN()}
	if n, err := strconv.ParseFloat(string(in.Metadata["total_size"]), 64); err == nil {
		x.total = n // some writers make it a float
	}
	if len(in.Metadata) > 0 {
		x.Meta = make(map[string]string, len(in.Metadata))
	}
	for key, value := range in.Metadata {
		x.Meta[key] = string(value)
	}
	for _, name := range slices.Sorted(maps.Keys(x.Files)) {
		if err := sets.CheckName(x.Files[name], strconv.Quote); err != nil {
			return nil, &tensor.FileError{Offset: -1, Err: fmt.Errorf("weight_map: tensor %s: %w", quote(name), err)}
		}
	}
	return x, nil
}

// offsetOf returns where an error of the JSON library is in its text.
func offsetOf(err error) int64 {
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		return s.ByteOffset
	}
	var m *json.SemanticError
	if errors.As(err, &m) {
		return m.ByteOffset
	}
	return -1
}

// Names returns the files of the set, sorted.
func (x *Index) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(x.Files)))
}

// TotalSize returns total_size of the metadata, if it is there and an integer.
func (x *Index) TotalSize() (bytes int64, ok bool) {
	if x.total != math.Trunc(x.total) || math.Abs(x.total) >= 1<<63 {
		return 0, false
	}
	return int64(x.total), true
}
