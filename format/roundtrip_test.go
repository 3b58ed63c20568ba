package format_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/tensor"
)

func TestRoundTrip(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	for _, level := range levels {
		for _, align := range []int64{0, 4096, format.MaxAlign} {
			t.Run(fmt.Sprint(level, align), func(t *testing.T) {
				p := m.bytes(t, &format.WriteOptions{Level: level, Align: align})
				f := mustOpen(t, p)
				m.requireHolds(t, f)
				require.NoError(t, f.Verify(context.Background(), 3))
				for i, in := range f.Tensors() {
					_, off := f.Place(i)
					require.Zero(t, off%max(align, 64), in.Name)
					hash, ok := f.At(i).Hash()
					require.True(t, ok)
					root := valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
					root.Add(valuehash.AppendLeaves(nil, m.data[i]))
					require.Equal(t, tensor.Hash(root.Sum()), hash)
				}
			})
		}
	}
}

// TestRawInPlace: the bytes of a tensor that is stored raw lie in the file as
// they are.
func TestRawInPlace(t *testing.T) {
	m := allTypes(tile.Elems*2 + 8)
	p := m.bytes(t, &format.WriteOptions{Level: codec.None})
	f := mustOpen(t, p)
	for i, in := range f.Tensors() {
		_, off := f.Place(i)
		require.True(t, bytes.Equal(m.data[i], p[off:off+in.Size]), in.Name)
		require.Equal(t, in.Size, f.At(i).Stored())
	}
}

// TestSameBytes: whatever the pieces, the workers and the output, the file is
// the same.
func TestSameBytes(t *testing.T) {
	m := allTypes(tile.Elems*3 + 8)
	o := &format.WriteOptions{Align: 256}
	want := m.bytes(t, o)
	for _, step := range []int{999, 64 << 10, 1 << 18, 1 << 30} {
		name := filepath.Join(t.TempDir(), "a.demi")
		require.NoError(t, m.write(format.Create(name, o), step))
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "step %d", step)
	}
	for _, workers := range []int{1, 2, 5} {
		var out bytes.Buffer
		require.NoError(t, m.parallel(format.NewWriter(&out, o), workers))
		require.True(t, bytes.Equal(want, out.Bytes()), "%d workers", workers)
	}
}

// parallel writes the model as a program with workers does.
func (m *model) parallel(sink format.TileSink, workers int) error {
	if err := sink.Begin(m.infos, m.meta); err != nil {
		return err
	}
	grid := tile.NewGrid(len(m.infos), func(i int) (int64, int) { return m.infos[i].Size, m.infos[i].DType.Bits() })
	encoders := make([]*format.TileEncoder, workers)
	for i := range encoders {
		encoders[i] = sink.NewTileEncoder()
	}
	err := ordered.Map(context.Background(), grid.Len(), workers, 2*workers,
		func(_ context.Context, worker int, k int64) (*format.Encoded, error) {
			i, off, n := grid.At(k)
			e := &format.Encoded{}
			return e, encoders[worker].Encode(e, i, off, m.data[i][off:off+n])
		}, func(k int64, e *format.Encoded) error {
			i, off, _ := grid.At(k)
			return sink.Append(i, off, e)
		})
	if err != nil {
		return err
	}
	return sink.Finish(m.records)
}

// TestBits: all patterns of 16 bits come back.
func TestBits(t *testing.T) {
	var p []byte
	for i := range 1 << 16 {
		p = append(p, byte(i), byte(i>>8))
	}
	m := &model{}
	m.add("f16", tensor.F16, p, 1<<16)
	m.add("bf16", tensor.BF16, p, 1<<16)
	m.add("f32", tensor.F32, p, 1<<15)
	for _, level := range levels {
		m.requireHolds(t, mustOpen(t, m.bytes(t, &format.WriteOptions{Level: level})))
	}
}

// TestLengths: tensors of every small length, and around a tile.
func TestLengths(t *testing.T) {
	m := &model{}
	for n := range 131 {
		m.add(fmt.Sprint("bf16.", n), tensor.BF16, asBF16(weights(n, 5)), int64(n))
		m.add(fmt.Sprint("u8.", n), tensor.U8, make([]byte, n), int64(n))
	}
	for d := -2; d <= 2; d++ {
		n := tile.Elems + d
		m.add(fmt.Sprint("f32.", n), tensor.F32, asF32(weights(n, 6)), int64(n))
		m.add(fmt.Sprint("u8.", tile.Bytes+d), tensor.U8, random(tile.Bytes+d, 7), int64(tile.Bytes+d))
	}
	p := m.bytes(t, nil)
	f := mustOpen(t, p)
	m.requireHolds(t, f)
	require.NoError(t, f.Verify(context.Background(), 1))
}

// TestManyBlocks crosses the marks of the table of blocks.
func TestManyBlocks(t *testing.T) {
	m := &model{}
	m.add("a", tensor.BF16, asBF16(weights(5, 1)), 5)
	m.add("b", tensor.U8, random(tile.Bytes*130+3, 9), tile.Bytes*130+3)
	m.add("c", tensor.U8, random(tile.Bytes*63, 10), tile.Bytes*63)
	m.add("d", tensor.U8, make([]byte, tile.Bytes*3), tile.Bytes*3)
	f := mustOpen(t, m.bytes(t, nil))
	m.requireHolds(t, f)
	require.NoError(t, f.Verify(context.Background(), 2))
	b, _ := f.Lookup("b")
	p := make([]byte, 7)
	for _, off := range []int64{0, 64*tile.Bytes - 3, 129 * tile.Bytes, 130*tile.Bytes - 4} {
		n, err := b.ReadAt(p, off)
		require.NoError(t, err)
		require.Equal(t, m.data[1][off:][:7], p[:n])
	}
}

func TestReadAt(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	f := mustOpen(t, m.bytes(t, nil))
	for i, want := range m.data {
		d := f.Data(i)
		for _, off := range []int{0, 1, len(want) / 2, tile.Bytes - 1, 2*tile.Bytes - 1, len(want) - 1} {
			for _, n := range []int{0, 1, 100, tile.Bytes, len(want)} {
				if off < 0 || off >= len(want) {
					continue
				}
				p := make([]byte, n)
				got, err := d.ReadAt(p, int64(off))
				require.True(t, bytes.Equal(want[off:min(off+n, len(want))], p[:got]))
				if off+n > len(want) {
					require.ErrorIs(t, err, io.EOF)
				} else {
					require.NoError(t, err)
				}
			}
		}
		_, err := d.ReadAt(make([]byte, 1), int64(len(want)))
		require.ErrorIs(t, err, io.EOF)
		_, err = d.ReadAt(make([]byte, 1), -1)
		require.Error(t, err)
	}
}

func TestHashModes(t *testing.T) {
	m := allTypes(64)
	f := mustOpen(t, m.bytes(t, &format.WriteOptions{Hash: format.HashNone}))
	require.NoError(t, f.Verify(context.Background(), 1))
	_, ok := f.At(0).Hash()
	require.False(t, ok)

	var out bytes.Buffer
	require.ErrorContains(t, m.write(format.NewWriter(&out, &format.WriteOptions{Hash: format.HashRecords}), 1<<20), "records")
	m.records = recordsOf(m)
	want := m.bytes(t, nil)
	require.Equal(t, want, m.bytes(t, &format.WriteOptions{Hash: format.HashRecords}))
	m.records[3].Hash[0]++
	f = mustOpen(t, m.bytes(t, &format.WriteOptions{Hash: format.HashRecords}))
	err := f.Verify(context.Background(), 2)
	require.ErrorIs(t, err, format.ErrChecksum)
	require.ErrorContains(t, err, m.infos[3].Name)
}

// recordsOf returns records of a model whose hashes are right.
func recordsOf(m *model) (records []tensor.Record) {
	for i, in := range m.infos {
		root := valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
		root.Add(valuehash.AppendLeaves(nil, m.data[i]))
		r := tensor.Record{Name: in.Name, From: "F64", To: in.TypeName(), Reason: fmt.Sprint("because of ", i), Shape: in.Shape,
			SizeIn: 8 * in.Elements(), SizeOut: in.Size, Hash: root.Sum()}
		if i%2 == 0 {
			r.Rounding, r.Overflow, r.Flush, r.Seed = "stochastic", "saturate", true, 1<<63+5
			r.Stats = &tensor.Stats{Count: int64(i), Changed: 2, Overflowed: 3, Flushed: 4, Subnormal: 5, NaNIn: 6, NaNOut: 7, NaNLost: 8,
				NaNMade: 9, InfIn: 10, InfOut: 11, Finite: 12, SumErr2: 1.3, SumRef2: 1.4, SumRefEr: -1.5, ULPUp: -16, ULPAway: 17,
				MaxAbs: 1.8, MaxIndex: -1, MaxRef: 2.0, MaxGot: -2.1}
		}
		records = append(records, r)
	}
	return records
}

func TestRecords(t *testing.T) {
	m := allTypes(64)
	f := mustOpen(t, m.bytes(t, nil))
	got, err := f.Records()
	require.NoError(t, err)
	require.Nil(t, got)

	m.records = recordsOf(m)
	f = mustOpen(t, m.bytes(t, nil))
	got, err = f.Records()
	require.NoError(t, err)
	require.Equal(t, m.records, got)

	var out bytes.Buffer
	m.records = m.records[1:]
	require.ErrorContains(t, m.write(format.NewWriter(&out, nil), 1<<20), "records")
}
