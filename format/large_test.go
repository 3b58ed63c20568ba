package format_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/tensor"
)

// A sparse file keeps the writes that are not zeros.
type sparse struct {
	size   int64
	writes map[int64][]byte
}

func (s *sparse) Write(p []byte) (int, error) {
	if bytes.Count(p, []byte{0}) < len(p) {
		s.writes[s.size] = bytes.Clone(p)
	}
	s.size += int64(len(p))
	return len(p), nil
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	for at, w := range s.writes {
		if at < off+int64(len(p)) && off < at+int64(len(w)) {
			copy(p[max(at-off, 0):], w[max(off-at, 0):])
		}
	}
	if off+int64(len(p)) > s.size {
		return int(max(s.size-off, 0)), io.EOF
	}
	return len(p), nil
}

// TestBeyond4GiB writes a tensor of more than 2^32 bytes, and one behind it.
func TestBeyond4GiB(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 4 GiB to nowhere")
	}
	const size = 1<<32 + 1<<20 + 3
	infos := []tensor.Info{{Name: "zeros", DType: tensor.U8, Shape: []int64{size}, Size: size}, {Name: "w", DType: tensor.F32, Shape: []int64{}, Size: 4}}
	out := &sparse{writes: map[int64][]byte{}}
	sink := format.NewWriter(out, &format.WriteOptions{Level: codec.None, Hash: format.HashNone})
	require.NoError(t, sink.Begin(infos, nil))
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < size-3; off += 1 << 20 {
		require.NoError(t, sink.Write(0, off, zeros))
	}
	require.NoError(t, sink.Write(0, size-3, []byte{1, 2, 3}))
	require.NoError(t, sink.Write(1, 0, []byte{4, 5, 6, 7}))
	require.NoError(t, sink.Finish(nil))
	f, err := format.NewFile(out, out.size, nil)
	require.NoError(t, err)
	_, off := f.Place(1)
	require.Greater(t, off, int64(1<<32))
	p := make([]byte, 4)
	_, err = f.Data(1).ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, []byte{4, 5, 6, 7}, p)
	n, err := f.Data(0).ReadAt(p, size-3)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []byte{1, 2, 3}, p[:n])
}

// TestLargeSection reads a compressed section of more than 2^29 bytes, the
// window up to which many decoders go: a string of zeros, as runs.
func TestLargeSection(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes 520 MiB")
	}
	const zeros, size = 520 << 20, 4 + 4 + 1 + 4 + 4 + 520<<20
	le := binary.LittleEndian
	frame := le.AppendUint32([]byte("\x28\xb5\x2f\xfd\xa0"), size)
	frame = append(frame, 17<<3, 0, 0)
	frame = append(frame, "\x01\x00\x00\x00\x01\x00\x00\x00k"...)
	frame = le.AppendUint32(le.AppendUint32(frame, 8), zeros)
	for left := zeros; left > 0; left -= 128 << 10 {
		v := 1<<20 | 1<<1
		if left == 128<<10 {
			v |= 1
		}
		frame = append(frame, byte(v), byte(v>>8), byte(v>>16), 0)
	}
	head := (&model{}).bytes(t, nil)
	f, err := readMini(head)
	require.NoError(t, err)
	f.sections = append(f.sections, miniSection{name: "metadata", flags: 2, length: size, stored: frame}, miniSection{name: "padded"})
	tail := seal(make([]byte, 1<<20), f.appendIndex())[1<<20:]
	foot := tail[len(tail)-64:]
	le.PutUint64(foot, zeros)
	le.PutUint32(foot[52:], crc32c(foot[:52]))
	file := &sparse{size: zeros + int64(len(tail)), writes: map[int64][]byte{0: head[:64], zeros: tail}}
	g, err := format.NewFile(file, file.size, nil)
	require.NoError(t, err)
	v, ok := g.Meta().Text("k")
	require.True(t, ok)
	require.Len(t, v, zeros)
}

// TestAnyModel: whatever the tensors, the options and the pieces, both readers
// see what was written.
func TestAnyModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &model{}
		names := rapid.SliceOfNDistinct(rapid.String(), 0, 6, rapid.ID[string]).Draw(r, "names")
		for _, name := range names {
			d := tensor.DType(rapid.IntRange(int(tensor.U64), int(tensor.Opaque)).Draw(r, "type"))
			dims := rapid.SliceOfN(rapid.Int64Range(0, 40), 0, 3).Draw(r, "shape")
			if d == tensor.Opaque {
				t := tensor.Foreign{Name: rapid.String().Draw(r, "foreign"), ID: rapid.Uint32().Draw(r, "id"), BlockElems: rapid.Int64Range(0, 1).Draw(r, "elems") * 8, BlockBytes: 5}
				dims = append(dims, 8)
				n, _ := tensor.Elements(dims)
				m.addOpaque(name, t, noise(int(n/8*5), uint32(n)), dims...)
				continue
			}
			dims = append(dims, 4)
			n, _ := tensor.Elements(dims)
			size, err := tensor.ByteSize(d, n)
			require.NoError(r, err)
			p := noise(int(size), uint32(size))
			if rapid.Bool().Draw(r, "bell") && d == tensor.BF16 {
				p = asBF16(bell(int(n), 1))
			}
			m.add(name, d, p, dims...)
		}
		o := &writeOptions{Align: 64 << rapid.IntRange(0, 4).Draw(r, "align"), Level: rapid.SampledFrom(levels).Draw(r, "level"),
			Hash: rapid.SampledFrom([]format.HashMode{format.HashValues, format.HashNone}).Draw(r, "hash")}
		var out bytes.Buffer
		require.NoError(r, m.write(format.NewWriter(&out, o), rapid.IntRange(1, 70_000).Draw(r, "step")))
		require.NoError(r, check(out.Bytes()))
		m.requireHolds(t, mustOpen(t, out.Bytes()))
		m.requireMini(t, out.Bytes())
	})
}
