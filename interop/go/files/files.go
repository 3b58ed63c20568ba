// Package files writes, with the writers of this project, a directory of files
// for programs of other people to read: the trained checkpoint of
// testdata/charlm in every form that the writers know, and a tensor of every
// element type.
package files

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A File is what a reader should find in one of the files.
type File struct {
	Path    string   `json:"path"`   // in the directory: a file, or a directory or first shard of a set
	Format  string   `json:"format"` // "safetensors" or "gguf"
	Set     bool     `json:"set"`    // Path is a set of several files
	Align   int64    `json:"align"`  // of the data, bytes
	Tensors []Tensor `json:"tensors"`
}

// A Tensor is one tensor with the digest of its stored bytes.
type Tensor struct {
	Name   string  `json:"name"`
	DType  string  `json:"dtype"`
	Shape  []int64 `json:"shape"` // slowest dimension first
	Bytes  int64   `json:"bytes"`
	SHA256 string  `json:"sha256"`
}

// A job is one file to write: where its tensors come from, and the sink.
type job struct {
	File
	src  tensor.Source
	meta tensor.Metadata
	sink tensor.Sink
	sort *safetensors.WriteOptions // of the order; nil for that of the source
}

// Write writes all files into dir, which exists and is empty, and a list of
// them, manifest.json. charlm is the directory of the checkpoint.
func Write(dir, charlm string) ([]File, error) {
	st, err := safetensors.OpenSet(filepath.Join(charlm, "sharded"), nil)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	gg, err := gguf.Open(filepath.Join(charlm, "model.gguf"), nil)
	if err != nil {
		return nil, err
	}
	defer gg.Close()
	jobs, err := plan(dir, st, gg)
	if err != nil {
		return nil, err
	}
	var list []File
	for _, j := range jobs {
		if err := j.write(); err != nil {
			return nil, fmt.Errorf("%s: %w", j.Path, err)
		}
		list = append(list, j.File)
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return nil, err
	}
	return list, os.WriteFile(filepath.Join(dir, "manifest.json"), append(text, '\n'), 0o644)
}

// plan says which files there are.
func plan(dir string, st, gg tensor.Source) ([]job, error) {
	for _, sub := range []string{"set", "split"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	typed, err := gguf.StringsToMetadata(st.Meta())
	if err != nil {
		return nil, err
	}
	const shard = 500_000
	path := func(name string) string { return filepath.Join(dir, name) }
	canonical, wide := &safetensors.WriteOptions{Canonical: true}, &gguf.WriteOptions{Align: 64}
	aligned := &safetensors.WriteOptions{}
	return []job{
		{File{Path: "aligned.safetensors", Format: "safetensors", Align: 64}, st, st.Meta(), safetensors.Create(path("aligned.safetensors"), nil), aligned},
		{File{Path: "canonical.safetensors", Format: "safetensors", Align: 8}, st, st.Meta(), safetensors.Create(path("canonical.safetensors"), canonical), canonical},
		{File{Path: "set", Format: "safetensors", Set: true, Align: 64}, st, st.Meta(), safetensors.CreateSet(path("set"), "model", shard, nil), nil},
		{File{Path: "types.safetensors", Format: "safetensors", Align: 64}, everyType(nil), nil, safetensors.Create(path("types.safetensors"), nil), aligned},
		{File{Path: "types-canonical.safetensors", Format: "safetensors", Align: 8}, everyType(pythonTypes()), nil, safetensors.Create(path("types-canonical.safetensors"), canonical), canonical},
		{File{Path: "model.gguf", Format: "gguf", Align: 32}, gg, gg.Meta(), gguf.Create(path("model.gguf"), nil), nil},
		{File{Path: "align64.gguf", Format: "gguf", Align: 64}, gg, gg.Meta(), gguf.Create(path("align64.gguf"), wide), nil},
		{File{Path: "split/model-00001-of-00005.gguf", Format: "gguf", Set: true, Align: 32}, gg, gg.Meta(), gguf.CreateSet(path("split/model"), shard, nil), nil},
		{File{Path: "from-safetensors.gguf", Format: "gguf", Align: 32}, st, named(typed), gguf.Create(path("from-safetensors.gguf"), nil), nil},
		{File{Path: "types.gguf", Format: "gguf", Align: 64}, everyType(ggufTypes), named(nil), gguf.Create(path("types.gguf"), wide), nil},
	}, nil
}

// named adds the key without which most readers of GGUF give up.
func named(meta tensor.Metadata) tensor.Metadata {
	return append(tensor.Metadata{{Key: "general.architecture", Value: "demi-test"}}, meta...)
}

// write writes the tensors of a job, 64 KiB at a time, and notes them.
func (j *job) write() error {
	infos := j.src.Tensors()
	order := make([]int, len(infos))
	for i := range order {
		order[i] = i
	}
	if j.sort != nil {
		order = safetensors.Order(infos, j.sort)
	}
	sorted := make([]tensor.Info, len(order))
	for to, from := range order {
		sorted[to] = infos[from]
	}
	if err := j.sink.Begin(sorted, j.meta); err != nil {
		return err
	}
	defer j.sink.Abort()
	for to, from := range order {
		t, err := copyTensor(j.sink, to, sorted[to], j.src.Data(from))
		if err != nil {
			return err
		}
		j.Tensors = append(j.Tensors, t)
	}
	return j.sink.Finish(nil)
}

func copyTensor(sink tensor.Sink, i int, in tensor.Info, r io.ReaderAt) (Tensor, error) {
	sum := sha256.New()
	p := make([]byte, 64<<10)
	for off := int64(0); off < in.Size; {
		part := p[:min(int64(len(p)), in.Size-off)]
		if _, err := io.ReadFull(io.NewSectionReader(r, off, int64(len(part))), part); err != nil {
			return Tensor{}, err
		}
		sum.Write(part)
		if err := sink.Write(i, off, part); err != nil {
			return Tensor{}, err
		}
		off += int64(len(part))
	}
	shape := append([]int64{}, in.Shape...)
	return Tensor{in.Name, in.TypeName(), shape, in.Size, hex.EncodeToString(sum.Sum(nil))}, nil
}

var ggufTypes = []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I64, tensor.I32, tensor.I16, tensor.I8}

// pythonTypes are those that the reference implementation writes from Python.
func pythonTypes() (types []tensor.DType) {
	for d := tensor.U64; d < tensor.Opaque; d++ {
		if d.Bits() != 6 {
			types = append(types, d)
		}
	}
	return types
}

// made is a Source of tensors that are made up.
type made struct {
	infos []tensor.Info
	data  []string
}

// everyType returns 24 elements of each of the types given, or of all types,
// as a matrix.
func everyType(types []tensor.DType) *made {
	if types == nil {
		for d := tensor.U64; d < tensor.Opaque; d++ {
			types = append(types, d)
		}
	}
	m := &made{}
	for k, d := range types {
		in := tensor.Info{Name: strings.ToLower(d.String()), DType: d, Shape: []int64{3, 8}, Size: int64(24 * d.Bits() / 8)}
		p := make([]byte, in.Size)
		for i := range p {
			p[i] = byte(37*i+k) & 0x3F // no NaN in any type
			if d == tensor.Bool {
				p[i] &= 1
			}
		}
		m.infos, m.data = append(m.infos, in), append(m.data, string(p))
	}
	return m
}

func (m *made) Tensors() []tensor.Info      { return m.infos }
func (m *made) Data(i int) io.ReaderAt      { return strings.NewReader(m.data[i]) }
func (m *made) Meta() tensor.Metadata       { return nil }
func (m *made) Place(i int) (string, int64) { return "", 0 }
func (m *made) Close() error                { return nil }
