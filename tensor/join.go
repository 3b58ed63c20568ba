package tensor

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

// Join makes one Source of several, such as the shards of a set: the tensors
// of the first come first. It refuses a name that two of them have, and names
// both files. The metadata is that of the first Source, followed by the keys
// of the others that have not come before; where values differ, the first one
// stays.
//
// Closing the result closes all of them. After an error they are the caller's
// to close, as before.
func Join(sources []Source) (Source, error) {
	j := &joined{sources: slices.Clone(sources), first: make([]int, 0, len(sources))}
	total := 0
	for _, s := range sources {
		total += len(s.Tensors())
	}
	j.infos = make([]Info, 0, total)
	for _, s := range sources {
		j.first = append(j.first, len(j.infos))
		j.infos = append(j.infos, s.Tensors()...)
	}
	if err := j.checkNames(); err != nil {
		return nil, err
	}
	j.meta = joinMeta(sources)
	return j, nil
}

type joined struct {
	sources []Source
	first   []int // index in infos of the first tensor of each source
	infos   []Info
	meta    Metadata
}

func (j *joined) checkNames() error {
	if len(j.sources) < 2 {
		return nil // a Source vouches for itself
	}
	seen := make(map[string]int, len(j.infos))
	for i := range j.infos {
		name := j.infos[i].Name
		if other, dup := seen[name]; dup {
			theirs, _ := j.Place(other)
			file, offset := j.Place(i)
			return &FileError{File: file, Tensor: name, Offset: offset,
				Err: fmt.Errorf("%w: duplicate tensor name %q: it is also in %s", ErrFormat, name, theirs)}
		}
		seen[name] = i
	}
	return nil
}

func joinMeta(sources []Source) (meta Metadata) {
	seen := make(map[string]struct{})
	for _, s := range sources {
		for _, e := range s.Meta() {
			if _, dup := seen[e.Key]; !dup {
				seen[e.Key] = struct{}{}
				meta = append(meta, e)
			}
		}
	}
	return meta
}

// at returns the source that has tensor i, and its index there.
func (j *joined) at(i int) (Source, int) {
	k := sort.SearchInts(j.first, i+1) - 1 // the last one that begins at or before i
	return j.sources[k], i - j.first[k]
}

func (j *joined) Tensors() []Info { return j.infos }

func (j *joined) Data(i int) io.ReaderAt {
	s, k := j.at(i)
	return s.Data(k)
}

func (j *joined) Meta() Metadata { return j.meta }

func (j *joined) Place(i int) (file string, offset int64) {
	s, k := j.at(i)
	return s.Place(k)
}

func (j *joined) Close() error {
	errs := make([]error, len(j.sources))
	for i, s := range j.sources {
		errs[i] = s.Close()
	}
	return errors.Join(errs...)
}
