package doctor_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// sample is a file that PyTorch wrote.
func sample(name string) string {
	p, err := os.ReadFile("../testdata/pytorch/torch-2.6/" + name)
	if err != nil {
		panic(err)
	}
	return string(p)
}

// flipped changes a bit of the first tensor of a file that PyTorch wrote.
func flipped(s string) string {
	f, err := pytorch.NewFile(strings.NewReader(s), int64(len(s)), nil)
	if err != nil {
		panic(err)
	}
	_, at := f.Place(0)
	p := []byte(s)
	p[at] ^= 1
	return string(p)
}

// tinyGGUF is a file with one tensor of eight bytes, or of ones.
func tinyGGUF(name string, ones int) string { return buildGGUF(name, ones, nil) }

// splitGGUF is a shard.
func splitGGUF(name string, no, count uint16, total int32) string {
	return buildGGUF(name, 0, tensor.Metadata{{Key: "split.no", Value: no}, {Key: "split.count", Value: count}, {Key: "split.tensors.count", Value: total}})
}

// buildGGUF writes the bytes by hand where the writer would not: the keys of a
// split set are its own.
func buildGGUF(name string, ones int, split tensor.Metadata) string {
	var b bytes.Buffer
	le := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	str := func(s string) { le(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	le(uint32(3))
	le(uint64(1))
	le(uint64(len(split)))
	for _, e := range split {
		str(e.Key)
		kind, _ := tensor.KindOf(e.Value)
		le(uint32(kind))
		le(e.Value)
	}
	str(name)
	le(uint32(1)) // dimensions
	le(uint64(2))
	le(uint32(0)) // F32
	le(uint64(0))
	b.Write(make([]byte, -b.Len()&31))
	data := []byte(f32)
	if ones > 0 {
		data = bytes.Repeat([]byte{1}, ones)
	}
	b.Write(data)
	b.Write(make([]byte, -b.Len()&31))
	return b.String()
}

// torchSet is a set that PyTorch and transformers wrote, with its index, in which
// texts are replaced.
func torchSet(replace ...string) files {
	const index = "pytorch_model.bin.index.json"
	f := files{index: strings.NewReplacer(replace...).Replace(sample("set/" + index))}
	for _, name := range []string{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"} {
		f[name] = sample("set/" + name)
	}
	return f
}

// storeSet is a set of two stores with tensors a and b of two values.
func storeSet(data string) files {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s := format.CreateSet(dir, "m", int64(len(data)), nil)
	in := []tensor.Info{{Name: "a", DType: tensor.F32, Shape: []int64{2}, Size: 8}, {Name: "b", DType: tensor.F32, Shape: []int64{2}, Size: 8}}
	err = s.Begin(in, nil)
	for i := range in {
		err = errors.Join(err, s.Write(i, 0, []byte(data)))
	}
	if err = errors.Join(err, s.Finish(nil)); err != nil {
		panic(err)
	}
	f := files{}
	for _, name := range []string{store(1), store(2), storeIndex} {
		p, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			panic(err)
		}
		f[name] = string(p)
	}
	return f
}

const storeIndex = "m.demi.index.json"

func store(no int) string { return fmt.Sprintf("m-%05d-of-00002.demi", no) }
