package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/internal/hfconfig"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A Repair is what Fix has done to one file.
//
// A safetensors file is written again: the same tensors with the same bytes,
// aligned, with "format": "pt" in the metadata, without bytes of zero after the
// last tensor; other bytes there are never cut. An index is made from the
// headers of its shards, if it loses no name by that. In config.json the values
// that name a wrong type change and no other byte. What demi itself has left of
// an output that was not completed is removed, unless it is in use. Nothing
// else is touched, and no symbolic link is.
type Repair struct {
	File string `json:"file"`
	Text string `json:"text"` // what was done

	do func(*fixer) error
}

// maxRounds bounds how often Fix looks again: an index that can be read now can
// show what else is wrong.
const maxRounds = 4

// Fix carries out the repairs of Examine and looks again, until there are none
// left. Findings are those of the last look; Repairs is what was done. A repair
// that fails ends it, with the error and a report of what was done until then.
func Fix(ctx context.Context, path string, o *Options) (*Report, error) {
	var done []Repair
	for range maxRounds {
		r, err := Examine(ctx, path, o)
		if err != nil {
			return &Report{Repairs: done}, err
		}
		n, err := carryOut(ctx, r.Findings, &done)
		r.Repairs = done
		if err != nil || n == 0 {
			return r, err
		}
	}
	r, err := Examine(ctx, path, o)
	if err != nil {
		return &Report{Repairs: done}, err
	}
	r.Repairs = done
	return r, nil
}

// carryOut does the repairs of findings, one for each file: files of weights
// come before what is about them.
func carryOut(ctx context.Context, findings []Finding, done *[]Repair) (n int, err error) {
	seen := make(map[string]bool)
	for _, index := range []bool{false, true} {
		for i := range findings {
			r := findings[i].repair
			if r == nil || seen[r.File] || (kindOfName(r.File) == "") != index {
				continue
			}
			seen[r.File] = true
			x := &fixer{ctx: ctx, repair: *r}
			if err := r.do(x); err != nil {
				return n, fmt.Errorf("repair of %s: %w", r.File, err)
			}
			*done = append(*done, x.repair)
			n++
		}
	}
	return n, nil
}

// A fixer does one repair.
type fixer struct {
	ctx    context.Context
	repair Repair
}

func (x *fixer) did(text string) { x.repair.Text = text }

// rewrite writes a safetensors file again. The order of the tensors stays if
// all are aligned in it.
func (x *fixer) rewrite(path string) error {
	src, err := safetensors.Open(path, &safetensors.Options{Lenient: true})
	if err != nil {
		return err
	}
	defer src.Close()
	o := &safetensors.WriteOptions{Lenient: true}
	order, err := alignedOrder(src, o)
	if err != nil {
		return err
	}
	infos := make([]tensor.Info, len(order))
	for to, from := range order {
		infos[to] = src.Tensors()[from]
	}
	sink := safetensors.Create(path, o)
	defer sink.Abort()
	if err := sink.Begin(infos, src.Meta()); err != nil {
		return err
	}
	for to, from := range order {
		if err := x.copy(sink, to, src, from); err != nil {
			return err
		}
	}
	if err := src.Close(); err != nil { // or it could not be replaced on Windows
		return err
	}
	x.did(fmt.Sprintf("written again, with a header of %d bytes for %d tensors", dataStart(infos, src, o), len(infos)))
	return sink.Finish(make([]tensor.Record, len(infos)))
}

// dataStart is where the data begin in the file that is written.
func dataStart(infos []tensor.Info, src *safetensors.File, o *safetensors.WriteOptions) int {
	l, err := safetensors.Plan(infos, src.Meta(), o)
	if err != nil {
		return 0
	}
	return len(l.Header)
}

// alignedOrder returns the order of the tensors in the new file.
func alignedOrder(src *safetensors.File, o *safetensors.WriteOptions) ([]int, error) {
	infos := src.Tensors()
	l, err := safetensors.Plan(infos, src.Meta(), o)
	if err != nil {
		return nil, err
	}
	order, aligned := make([]int, len(infos)), true
	for i, in := range infos {
		order[i] = i
		aligned = aligned && (in.Size == 0 || l.Offset(i)%elementAlign(in.DType) == 0)
	}
	if aligned {
		return order, nil
	}
	return safetensors.Order(infos, o), nil
}

// copy copies the bytes of a tensor.
func (x *fixer) copy(sink tensor.Sink, to int, src tensor.Source, from int) error {
	size := src.Tensors()[from].Size
	buf := make([]byte, min(size, atomicfile.WriteSize))
	for off := int64(0); off < size; off += int64(len(buf)) {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(int64(len(buf)), size-off)]
		if err := tensor.ReadFull(src, from, buf, off); err != nil {
			return err
		}
		if err := sink.Write(to, off, buf); err != nil {
			return err
		}
	}
	return nil
}

// writeIndex writes an index.
func (x *fixer) writeIndex(path string, index *safetensors.Index, total int64) error {
	text, err := index.AppendJSON(nil, total)
	if err != nil {
		return err
	}
	x.did(madeIndex(len(index.Names()), len(index.Files), total))
	return shardset.WriteIndex(path, text)
}

func madeIndex(files, tensors int, total int64) string {
	return fmt.Sprintf("made from the headers of %d files: %d tensors, total_size %d", files, tensors, total)
}

// configRepair puts a type into a configuration, unless that has changed since.
func configRepair(path string, text []byte, values []hfconfig.Value, d tensor.DType) *Repair {
	return &Repair{File: path, do: func(x *fixer) error {
		now, err := readUpTo(path, hfconfig.MaxSize+1)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, text) {
			return &tensor.FileError{File: path, Offset: -1, Err: fmt.Errorf("%w: it is not the file that was looked at", tensor.ErrChanged)}
		}
		x.did(fmt.Sprintf("%d values changed to %q", len(values), hfconfig.Name(d)))
		return shardset.WriteIndex(path, hfconfig.Replace(text, values, d))
	}}
}

// isLink reports whether a name is a symbolic link.
func isLink(path string) bool {
	l, err := os.Lstat(path)
	return err == nil && l.Mode()&fs.ModeSymlink != 0
}
