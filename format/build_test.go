package format_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// A model is what a file is to hold.
type model struct {
	infos   []tensor.Info
	data    [][]byte
	meta    tensor.Metadata
	records []tensor.Record
}

// add appends a tensor; its size is that of its data.
func (m *model) add(name string, d tensor.DType, p []byte, shape ...int64) {
	if shape == nil {
		shape = []int64{}
	}
	m.infos = append(m.infos, tensor.Info{Name: name, DType: d, Shape: shape, Size: int64(len(p))})
	m.data = append(m.data, p)
}

func (m *model) addOpaque(name string, t tensor.Foreign, p []byte, shape ...int64) {
	m.add(name, tensor.Opaque, p, shape...)
	m.infos[len(m.infos)-1].Foreign = t
}

// write writes the model in pieces of at most step bytes.
func (m *model) write(sink tensor.Sink, step int) error {
	if err := sink.Begin(m.infos, m.meta); err != nil {
		return err
	}
	for i, p := range m.data {
		for off := 0; off < len(p); off += step {
			if err := sink.Write(i, int64(off), p[off:min(off+step, len(p))]); err != nil {
				return err
			}
		}
	}
	return sink.Finish(m.records)
}

// bytes returns the file of the model.
func (m *model) bytes(t testing.TB, o *format.WriteOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, m.write(format.NewWriter(&out, o), 1<<20))
	return out.Bytes()
}

func open(p []byte) (*format.File, error) {
	return format.NewFile(bytes.NewReader(p), int64(len(p)), nil)
}

func mustOpen(t testing.TB, p []byte) *format.File {
	t.Helper()
	f, err := open(p)
	require.NoError(t, err)
	return f
}

// dataOf reads all of tensor i.
func dataOf(t testing.TB, src tensor.Source, i int) []byte {
	t.Helper()
	p := make([]byte, src.Tensors()[i].Size)
	n, err := io.ReadFull(io.NewSectionReader(src.Data(i), 0, int64(len(p))), p)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
	return p
}

// requireHolds checks that src is what the model says, to the bit.
func (m *model) requireHolds(t testing.TB, src tensor.Source) {
	t.Helper()
	require.Equal(t, len(m.infos), len(src.Tensors()))
	for i, in := range src.Tensors() {
		require.Equal(t, m.infos[i], in)
		require.True(t, bytes.Equal(m.data[i], dataOf(t, src, i)), "data of %s", in.Name)
	}
	require.Equal(t, len(m.meta), len(src.Meta()))
	for i, e := range src.Meta() {
		require.Equal(t, m.meta[i], e)
	}
}

// random returns n bytes that no codec makes fewer.
func random(n int, seed uint64) []byte {
	p := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// weights returns n numbers as of a layer.
func weights(n int, seed uint64) []float32 {
	w := make([]float32, n)
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range w {
		w[i] = float32(rng.NormFloat64() * 0.02)
	}
	return w
}

func asF32(w []float32) (p []byte) {
	for _, v := range w {
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(v))
	}
	return p
}

func asF64(w []float32) (p []byte) {
	for _, v := range w {
		p = binary.LittleEndian.AppendUint64(p, math.Float64bits(float64(v)))
	}
	return p
}

func asBF16(w []float32) (p []byte) {
	for _, v := range w {
		p = binary.LittleEndian.AppendUint16(p, uint16(math.Float32bits(v)>>16))
	}
	return p
}

// asF16 is for numbers whose F16 is normal or zero, cut off.
func asF16(w []float32) (p []byte) {
	for _, v := range w {
		b := math.Float32bits(v)
		h := uint16(b >> 16 & 0x8000)
		if e := int(b>>23&0xff) - 112; e > 0 {
			h |= uint16(e<<10) | uint16(b>>13&0x3ff)
		}
		p = binary.LittleEndian.AppendUint16(p, h)
	}
	return p
}

// allTypes has a tensor of every type, more than one tile long, and odd ones.
func allTypes(elems int64) *model {
	m := &model{}
	w := weights(int(elems), 3)
	for d := tensor.U64; d < tensor.Opaque; d++ {
		size := elems * int64(d.Bits()) / 8
		p := random(int(size), uint64(d))
		switch d {
		case tensor.F32:
			p = asF32(w)
		case tensor.BF16:
			p = asBF16(w)
		case tensor.F16:
			p = asF16(w)
		case tensor.I64, tensor.Bool:
			for i := range p {
				p[i] &= byte(i % 8 / 7)
			}
		}
		m.add("t."+d.String(), d, p, elems/8, 8)
	}
	m.addOpaque("q4", tensor.Foreign{Name: "Q4_0", ID: 2, BlockElems: 32, BlockBytes: 18}, random(18*300, 7), 300, 32)
	m.addOpaque("strange", tensor.Foreign{Name: "F6_E9M9"}, random(131072*2+5, 8), 3)
	m.add("empty", tensor.F32, []byte{}, 4, 0, 2)
	m.add("scalar", tensor.F32, []byte{0, 0, 0x80, 0x3f})
	m.add("zeros", tensor.F32, make([]byte, 4*elems), elems)
	m.add("empty.last", tensor.BF16, []byte{}, 0)
	m.meta = tensor.Metadata{
		{Key: "format", Value: "pt"}, {Key: "u8", Value: uint8(200)}, {Key: "i8", Value: int8(-3)},
		{Key: "u16", Value: uint16(60000)}, {Key: "i16", Value: int16(-30000)}, {Key: "u32", Value: uint32(4e9)},
		{Key: "i32", Value: int32(-2e9)}, {Key: "f32", Value: float32(1.5)}, {Key: "yes", Value: true}, {Key: "no", Value: false},
		{Key: "u64", Value: uint64(1) << 63}, {Key: "i64", Value: int64(-1) << 63}, {Key: "f64", Value: math.Pi}, {Key: "", Value: ""},
		{Key: "words", Value: stringArray("a", "", "bcd")},
		{Key: "scores", Value: tensor.Array{Elem: tensor.KindF32, Len: 2, Raw: []byte{1, 2, 3, 4, 5, 6, 7, 8}}},
		{Key: "none", Value: tensor.Array{Elem: tensor.KindU64}},
	}
	return m
}

func stringArray(list ...string) tensor.Array {
	a := tensor.Array{Elem: tensor.KindString, Len: len(list)}
	for _, s := range list {
		a.Raw = append(binary.LittleEndian.AppendUint64(a.Raw, uint64(len(s))), s...)
	}
	return a
}

var levels = []codec.Level{codec.None, codec.Fast, codec.Small}

type writeOptions = format.WriteOptions
