package demi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	store "github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A note is a line in the journal of an output that is being made: the first
// has the key, each further one is the receipt of a file that is complete, or
// says that the files are being moved to their places.
type note struct {
	Key     string // of the conversion
	File    string
	Size    int64
	Header  string          // hash of what describes the tensors, as in FileIdentity
	Records []tensor.Record // of the tensors in the file
	Moving  bool
	Remove  []string // what is to be removed when the files have been moved
}

// receiptFor returns the receipt of a file at path that is complete.
func (p *Plan) receiptFor(path, file string, records []tensor.Record) (*note, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	src, err := openOne(p.Options.Format, path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	header, err := headerOf(src)
	return &note{File: file, Size: info.Size(), Header: header, Records: records}, err
}

// headerOf returns the Header of a note.
func headerOf(src tensor.Source) (string, error) {
	h := sha256.New()
	switch f := src.(type) {
	case *store.File:
		d, err := f.UnlinkedDigest() // a part gets its link when all are put together
		return "blake3:" + d.String(), err
	case interface{ HeaderSection() *io.SectionReader }:
		if _, err := io.Copy(h, f.HeaderSection()); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// encode returns the note as one line, which ends with its own hash. It is not
// JSON, which has no Inf.
func (n *note) encode() ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(n); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	return []byte(base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// decodeNotes returns the notes of a journal; none if one of them cannot be
// read, or is damaged.
func decodeNotes(lines [][]byte) (notes []note) {
	for _, line := range lines {
		n, ok := decodeNote(line)
		if !ok {
			return nil
		}
		notes = append(notes, n)
	}
	return notes
}

func decodeNote(line []byte) (n note, ok bool) {
	raw, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(line))
	end := len(raw) - sha256.Size
	if err != nil || end < 0 || sha256.Sum256(raw[:end]) != [sha256.Size]byte(raw[end:]) {
		return n, false
	}
	return n, gob.NewDecoder(bytes.NewReader(raw[:end])).Decode(&n) == nil
}

// conversionVersion is part of every key. It rises when the same conversion
// would give other bytes.
const conversionVersion = 1

// key tells whether two runs would write the same bytes: it is a hash of the
// source's identity, of what is to be done with it, and of the program's idea
// of how. It is "" if the source has no identity, as one that is not in files.
func (p *Plan) key(c *Checkpoint, o *CreateOptions) (string, error) {
	files, err := c.Identity()
	if err != nil || len(files) == 0 {
		return "", err
	}
	var rules []string
	for _, r := range p.Options.Rules {
		rules = append(rules, r.String())
	}
	options := p.Options
	options.Rules = nil
	text, err := json.Marshal(map[string]any{
		"version": conversionVersion, "store": store.Version, "source": files,
		"options": options, "rules": rules, "align": o.Align, "level": o.Level, "shard": o.MaxShard,
		"dequantize": c.way,
	})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// openOne opens one file, whatever set it may be of.
func openOne(f Format, path string) (tensor.Source, error) {
	switch f {
	case GGUF:
		return gguf.Open(path, &gguf.Options{Lenient: true})
	case Demi:
		return store.Open(path, nil)
	}
	return safetensors.Open(path, &safetensors.Options{Lenient: true})
}

// errNotWhole is a file that is not what its receipt says.
var errNotWhole = errors.New("it is not what was written")

// checkReceipt reads a file again and compares it with its receipt: its size,
// and the values of every tensor. infos are those that it should have.
func (p *Plan) checkReceipt(ctx context.Context, path string, n *note, infos []tensor.Info, workers int) error {
	src, at, err := p.openReceipted(path, n, infos)
	if err != nil {
		return err
	}
	defer src.Close()
	hashes, err := hashValues(ctx, src, workers)
	if err != nil {
		return err
	}
	for k, i := range at {
		if hashes[i] != n.Records[k].Hash {
			return errNotWhole
		}
	}
	return nil
}

// openReceipted opens a file and compares with its receipt what can be seen
// without the values. at has the number that each tensor has in the file.
func (p *Plan) openReceipted(path string, n *note, infos []tensor.Info) (src tensor.Source, at []int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() != n.Size || len(n.Records) != len(infos) {
		return nil, nil, errNotWhole
	}
	if src, err = openOne(p.Options.Format, path); err != nil {
		return nil, nil, err
	}
	if header, err := headerOf(src); err != nil || header != n.Header {
		src.Close()
		return nil, nil, cmp.Or(err, errNotWhole)
	}
	byName := map[string]int{}
	for i, in := range src.Tensors() {
		byName[in.Name] = i
	}
	for k := range infos {
		in := &infos[k]
		i, ok := byName[in.Name]
		if !ok && p.pipeline {
			_, own := componentOf(in.Name)
			i, ok = byName[own]
		}
		if !ok || n.Records[k].Name != in.Name || src.Tensors()[i].TypeName() != in.TypeName() {
			src.Close()
			return nil, nil, errNotWhole
		}
		at = append(at, i)
	}
	return src, at, nil
}

// hashValues returns the value hash of every tensor. It reads all data.
func hashValues(ctx context.Context, src tensor.Source, workers int) ([]tensor.Hash, error) {
	infos := src.Tensors()
	grid := tile.NewGrid(len(infos), func(i int) (int64, int) { return infos[i].Size, infos[i].DType.Bits() })
	roots := make([]valuehash.Root, len(infos))
	for i, in := range infos {
		roots[i] = valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
	}
	buffers := make([][]byte, workers)
	err := ordered.Map(ctx, grid.Len(), workers, 2*workers, func(_ context.Context, w int, k int64) ([]valuehash.Leaf, error) {
		i, off, n := grid.At(k)
		p := grow(&buffers[w], n)
		if err := tensor.ReadFull(src, i, p, off); err != nil {
			return nil, err
		}
		return valuehash.AppendLeaves(nil, p), nil
	}, func(k int64, leaves []valuehash.Leaf) error {
		i, _, _ := grid.At(k)
		roots[i].Add(leaves)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hash of values: %w", err)
	}
	hashes := make([]tensor.Hash, len(infos))
	for i := range roots {
		hashes[i] = roots[i].Sum()
	}
	return hashes, nil
}
