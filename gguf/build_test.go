package gguf_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// A maker builds files by hand, right and wrong ones.
type maker struct {
	order binary.AppendByteOrder
	b     []byte
}

// newMaker begins a little-endian file of version 3.
func newMaker(tensors, keys uint64) *maker { return makerOf(binary.LittleEndian, 3, tensors, keys) }

func makerOf(order binary.AppendByteOrder, version uint32, tensors, keys uint64) *maker {
	m := &maker{order, []byte("GGUF")}
	return m.u32(version).u64(tensors).u64(keys)
}

func (m *maker) raw(p ...byte) *maker  { m.b = append(m.b, p...); return m }
func (m *maker) u32(v uint32) *maker   { m.b = m.order.AppendUint32(m.b, v); return m }
func (m *maker) u64(v uint64) *maker   { m.b = m.order.AppendUint64(m.b, v); return m }
func (m *maker) f32(v float32) *maker  { return m.u32(math.Float32bits(v)) }
func (m *maker) str(s string) *maker   { m.u64(uint64(len(s))); m.b = append(m.b, s...); return m }
func (m *maker) pad(align int) *maker  { return m.raw(make([]byte, -len(m.b)&(align-1))...) }
func (m *maker) zeros(n int) *maker    { return m.raw(make([]byte, n)...) }
func (m *maker) cut(n int) *maker      { m.b = m.b[:len(m.b)-n]; return m }
func (m *maker) align(n uint32) *maker { return m.key("general.alignment", tensor.KindU32).u32(n) }

// key begins a key; the value follows.
func (m *maker) key(key string, kind tensor.Kind) *maker { return m.str(key).u32(uint32(kind)) }

// array begins an array; the elements follow.
func (m *maker) array(key string, elem tensor.Kind, n uint64) *maker {
	return m.key(key, tensor.KindArray).u32(uint32(elem)).u64(n)
}

// info adds a tensor description; dims are in the order of the file.
func (m *maker) info(name string, typ uint32, offset uint64, dims ...uint64) *maker {
	m.str(name).u32(uint32(len(dims)))
	for _, dim := range dims {
		m.u64(dim)
	}
	return m.u32(typ).u64(offset)
}

// floats adds n float32: 0, 1, 2, ...
func (m *maker) floats(n int) *maker {
	for i := range n {
		m.f32(float32(i))
	}
	return m
}

// open reads bytes as a file.
func open(p []byte, o *gguf.Options) (*gguf.File, error) {
	return gguf.NewFile(bytes.NewReader(p), int64(len(p)), o)
}

// dataOf reads all bytes of tensor i.
func dataOf(t testing.TB, src tensor.Source, i int) []byte {
	t.Helper()
	p := make([]byte, src.Tensors()[i].Size)
	n, err := src.Data(i).ReadAt(p, 0)
	if n < len(p) {
		require.NoError(t, err)
	}
	return p
}
