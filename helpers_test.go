package demi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

const charlmDir = "testdata/charlm"

// A memTensor is a tensor in memory, and a mem a Source of some.
type memTensor struct {
	name  string
	dtype tensor.DType
	shape []int64
	data  []byte
}

type mem struct {
	tensors []memTensor
	meta    tensor.Metadata
}

func (m *mem) Tensors() (infos []tensor.Info) {
	for _, t := range m.tensors {
		infos = append(infos, tensor.Info{Name: t.name, DType: t.dtype, Shape: t.shape, Size: int64(len(t.data))})
	}
	return infos
}
func (m *mem) Data(i int) io.ReaderAt       { return bytes.NewReader(m.tensors[i].data) }
func (m *mem) Meta() tensor.Metadata        { return m.meta }
func (m *mem) Place(i int) (string, int64)  { return "memory", 0 }
func (m *mem) Close() error                 { return nil }
func (m *mem) checkpoint() *demi.Checkpoint { return demi.FromSource(m, demi.Safetensors) }
func (m *mem) add(t memTensor) *mem         { m.tensors = append(m.tensors, t); return m }
func (m *mem) f32(name string, x ...float32) *mem {
	return m.add(memTensor{name, tensor.F32, []int64{int64(len(x))}, f32Bytes(x)})
}
func (m *mem) f64(name string, x ...float64) *mem {
	var b []byte
	for _, f := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return m.add(memTensor{name, tensor.F64, []int64{int64(len(x))}, b})
}

// zeros adds a tensor of zero bytes.
func (m *mem) zeros(name string, d tensor.DType, shape ...int64) *mem {
	n, err := tensor.Elements(shape)
	if err == nil {
		n, err = tensor.ByteSize(d, n)
	}
	if err != nil {
		panic(err)
	}
	return m.add(memTensor{name, d, shape, make([]byte, n)})
}

func f32Bytes(x []float32) []byte {
	var b []byte
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// weights returns n normally distributed values.
func weights(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 0.02)
	}
	return x
}

// convert plans, decides and converts into memory, front to back.
func convert(t testing.TB, c *demi.Checkpoint, o demi.Options, run *demi.RunOptions) ([]byte, []tensor.Record, error) {
	t.Helper()
	p, err := demi.NewPlan(c, o)
	if err != nil {
		return nil, nil, err
	}
	if err := p.Decide(context.Background(), c, run); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	records, err := demi.Convert(context.Background(), c, demi.NewWriter(&b, p, c, nil), p, run)
	return b.Bytes(), records, err
}

func mustConvert(t testing.TB, c *demi.Checkpoint, o demi.Options) ([]byte, []tensor.Record) {
	t.Helper()
	out, records, err := convert(t, c, o, nil)
	require.NoError(t, err)
	return out, records
}

// convertFile converts a file or directory to another and returns the records.
func convertFile(t testing.TB, src, dst string, o demi.Options, create *demi.CreateOptions) ([]tensor.Record, error) {
	t.Helper()
	return convertAs(t, open(t, src), dst, o, create)
}

func convertAs(t testing.TB, c *demi.Checkpoint, dst string, o demi.Options, create *demi.CreateOptions) ([]tensor.Record, error) {
	t.Helper()
	p, err := demi.NewPlan(c, o)
	if err != nil {
		return nil, err
	}
	if err := p.Decide(context.Background(), c, nil); err != nil {
		return nil, err
	}
	sink, err := demi.Create(dst, p, c, create)
	if err != nil {
		return nil, err
	}
	return demi.Convert(context.Background(), c, sink, p, nil)
}

func open(t testing.TB, path string) *demi.Checkpoint {
	t.Helper()
	c, err := demi.Open(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// parse reads a safetensors file in memory.
func parse(t testing.TB, file []byte) *safetensors.File {
	t.Helper()
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)), nil)
	require.NoError(t, err)
	return f
}

// values returns the stored bytes of every tensor by name.
func values(t testing.TB, src tensor.Source) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for i, in := range src.Tensors() {
		b := make([]byte, in.Size)
		require.NoError(t, tensor.ReadFull(src, i, b, 0))
		m[in.Name] = b
	}
	return m
}

// names returns what is in a directory.
func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// sharedWeights returns the real checkpoints beside the project, if they are
// there, and the one that always is.
func realWeights(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob("../shared/data/weights/*.safetensors")
	require.NoError(t, err)
	return append(list, filepath.Join(charlmDir, "model.safetensors"))
}
