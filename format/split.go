package format

import (
	"path/filepath"
	"unicode/utf8"

	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// A Shard is a run of tensors that share a file.
type Shard struct {
	From, To int   // tensors From to To-1
	Size     int64 // bytes of their data, before compression
}

// SplitShards divides tensors into shards, in order: a shard ends before the
// tensor that would take its data, before compression, beyond limit bytes. A
// tensor that is larger than that gets a shard of its own, with a warning; no
// shard is empty, but that without tensors there is one. limit <= 0 means no
// limit.
func SplitShards(infos []tensor.Info, limit int64) (shards []Shard, warnings []string) {
	return shardset.Split[Shard](infos, limit, nil)
}

// CreateSet returns a Sink that writes a set of files into a directory that
// exists: SplitShards with limit says which tensors share a file, and an index
// names them. If there is one only, it is the plain file stem.demi, without an
// index. The first file has the metadata and the sources.
//
// Finish makes all files durable, one after another, and the index last. If
// that fails for one of them, those that have taken their places are removed.
// Other files in the directory are left alone, also those of a set that was
// there before: write into an empty directory, or remove them.
func CreateSet(dir, stem string, limit int64, o *WriteOptions) *Sink {
	path := filepath.Join(dir, stem)
	return &Sink{opts: o.orZero(), name: path + sets.Ext,
		layout: func(s *Sink) error { return s.layoutSet(path, limit) },
		last:   func(s *Sink) error { return s.writeIndex(path) },
	}
}

func (s *Sink) layoutSet(path string, limit int64) error {
	shards, _ := shardset.Split[Shard](s.infos, limit, s.opts.ShardOf)
	if len(shards) > shardset.MaxShards {
		return &tensor.FileError{Offset: -1, Err: classed(tensor.ErrUnsupported, "%d shards of %d bytes, names count %d", len(shards), limit, shardset.MaxShards)}
	}
	s.parts = nil
	for no, shard := range shards {
		name := sets.FileName(path, no+1, len(shards))
		if err := checkFileName(filepath.Base(name)); err != nil {
			return &tensor.FileError{Offset: -1, Err: err}
		}
		s.parts = append(s.parts, &part{name: name, from: shard.From, to: shard.To})
	}
	for i := range s.infos {
		if len(shards) > 1 && !utf8.ValidString(s.infos[i].Name) {
			return &tensor.FileError{Tensor: s.infos[i].Name, Offset: -1, Err: classed(tensor.ErrUnsupported, "the name is not UTF-8, as that of a set must be")}
		}
	}
	return nil
}

// writeIndex writes the index of the set, if it has several files.
func (s *Sink) writeIndex(path string) error {
	if len(s.parts) < 2 {
		return nil
	}
	x := &Index{Files: make(map[string]string, len(s.infos))}
	x.Metadata.Digests = make(map[string]string, len(s.parts))
	for _, p := range s.parts {
		file := filepath.Base(p.name)
		x.Metadata.Digests[file] = p.digest.String()
		for i := range p.x.infos {
			x.Files[p.x.infos[i].Name] = file
			x.Metadata.TotalSize += p.x.infos[i].Size
		}
	}
	text, err := x.AppendJSON(nil)
	if err != nil {
		return err
	}
	return shardset.WriteIndex(IndexName(path), text)
}
