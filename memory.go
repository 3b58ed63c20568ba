package demi

import (
	"fmt"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

// tensorMemory is about what a tensor takes beside the text of its header: its
// descriptions, its part of a plan, its record: about 2 KB each where there were 100,000,
// and some more while an index is made.
const tensorMemory = 2000

// HeaderMemory returns about how many bytes the headers of a checkpoint, and
// what is known of its tensors, take while it is converted. They grow with the
// number of tensors, not with their size.
func (c *Checkpoint) HeaderMemory() int64 {
	n := tensorMemory * int64(c.Len())
	for i := range c.layout {
		n += 2 * c.layout[i].Header // that of the source, and about as much for the output
	}
	return n
}

// workers returns how many workers the memory allows, of which each needs so
// many bytes.
func (o RunOptions) workers(each int64) (int, error) {
	if o.MaxMemory <= 0 {
		return o.Workers, nil
	}
	left := o.MaxMemory - o.headers
	if left < max(each, 1) {
		return 0, fmt.Errorf("%w: a memory limit of %d bytes; one worker needs %d, and the headers take about %d", tensor.ErrLimit, o.MaxMemory, each, o.headers)
	}
	return int(min(int64(o.Workers), left/max(each, 1))), nil
}

// divide returns how many workers the memory allows, of which each needs so many
// bytes, and how many bytes each of them reads at a time: 0 stands for one tile.
// Behind a URL that is more, where it leaves all workers: it takes as much memory,
// and for every further tile that it may have what waits of a tile.
func (o RunOptions) divide(each, waiting int64) (n int, run int64, err error) {
	if n, err = o.workers(each); err != nil || !o.remote {
		return n, 0, err
	}
	if m, err := o.workers(each + remoteRun + int64(tilesIn(remoteRun)-1)*waiting); err == nil && m == n {
		run = remoteRun
	}
	return n, run, nil
}

// tilesIn returns how many tiles a run of so many bytes may have.
func tilesIn(run int64) int { return int(max(1, run/tile.Bytes)) }

// Buffers returns what MaxMemory leaves for buffers in work on these
// checkpoints: 0 if there is no limit, and tensor.ErrLimit if nothing is left.
func (o *RunOptions) Buffers(of ...*Checkpoint) (int64, error) {
	r := o.withDefaults(of...)
	if _, err := r.workers(0); err != nil || r.MaxMemory <= 0 {
		return 0, err
	}
	return r.MaxMemory - r.headers, nil
}
