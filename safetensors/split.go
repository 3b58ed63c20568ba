package safetensors

import (
	"errors"
	"path/filepath"

	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/internal/shardset"
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
	return shardset.Split[Shard](infos, limit, nil)
}

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
func CreateSet(dir, stem string, limit int64, o *WriteOptions) tensor.SetSink {
	opts := o.orZero()
	return rawsink.NewSet(format, func(infos []tensor.Info, meta tensor.Metadata) (*rawsink.SetLayout, error) {
		p := &setPlan{stem: filepath.Join(dir, stem), limit: limit, opts: &opts}
		if err := p.check(infos, meta); err != nil {
			return nil, err
		}
		return p.layout(infos, meta)
	})
}

// A setPlan lays out a sharded set.
type setPlan struct {
	stem   string // with its directory
	limit  int64
	opts   *WriteOptions
	shards []Shard
}

// check refuses what no file of the set could hold, and splits the tensors.
func (p *setPlan) check(infos []tensor.Info, meta tensor.Metadata) error {
	errs := append(checkTensors(infos, p.opts.Lenient), checkMetadata(meta)...)
	p.shards, _ = shardset.Split[Shard](infos, p.limit, p.opts.ShardOf)
	if len(p.shards) > shardset.MaxShards {
		errs = append(errs, cannotHold("", "%d shards of %d bytes, names count %d", len(p.shards), p.limit, shardset.MaxShards))
	}
	if err := checkFileName(p.name(0)); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return inFile(p.stem+sets.Ext, errors.Join(errs...))
	}
	return nil
}

// name returns the name of a shard's file, without the directory.
func (p *setPlan) name(no int) string {
	return sets.FileName(filepath.Base(p.stem), no+1, len(p.shards))
}

func (p *setPlan) layout(infos []tensor.Info, meta tensor.Metadata) (*rawsink.SetLayout, error) {
	set := &rawsink.SetLayout{Order: identity(len(p.shards))}
	if len(p.shards) > 1 {
		index, err := p.index(infos)
		if err != nil {
			return nil, err
		}
		set.Last = func() error { return shardset.WriteIndex(IndexName(p.stem), index) }
	}
	for no := range p.shards {
		if err := p.addShard(set, no, infos, meta); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// index returns the text of the index.
func (p *setPlan) index(infos []tensor.Info) ([]byte, error) {
	total := int64(0)
	x := &Index{Meta: p.opts.IndexMeta, Files: make(map[string]string, len(infos))}
	for no, shard := range p.shards {
		total += shard.Size
		for _, in := range infos[shard.From:shard.To] {
			x.Files[in.Name] = p.name(no)
		}
	}
	return x.AppendJSON(nil, total)
}

// addShard adds the file of a shard to the set.
func (p *setPlan) addShard(set *rawsink.SetLayout, no int, infos []tensor.Info, meta tensor.Metadata) error {
	infos = infos[p.shards[no].From:p.shards[no].To]
	sorted, places := make([]tensor.Info, len(infos)), make([]rawsink.Place, len(infos))
	for to, from := range Order(infos, p.opts) {
		sorted[to], places[from] = infos[from], rawsink.Place{File: no, Tensor: to}
	}
	name := filepath.Join(filepath.Dir(p.stem), p.name(no))
	layout, err := p.opts.planFile(name, sorted, meta)
	set.Files = append(set.Files, rawsink.Shard{Name: name, Layout: layout})
	set.Places = append(set.Places, places...)
	return err
}
