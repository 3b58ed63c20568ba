package format_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

// create writes a model to a file.
func (m *model) create(t testing.TB, o *format.WriteOptions) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "model.demi")
	require.NoError(t, m.write(format.Create(name, o), 1<<20))
	return name
}

func TestFloat32s(t *testing.T) {
	w := bell(tile.Elems*2+100, 1)
	m := &model{}
	n := int64(len(w))
	m.add("f32", tensor.F32, asF32(w), n)
	m.add("bf16", tensor.BF16, asBF16(w), n)
	m.add("f16", tensor.F16, asF16(w), n)
	m.add("f64", tensor.F64, asF64(w), n)
	m.add("u8", tensor.U8, []byte{1}, 1)
	for _, level := range levels {
		name := m.create(t, &format.WriteOptions{Level: level})
		for _, mapped := range []bool{false, true} {
			f, err := format.Open(name, &format.Options{Map: mapped})
			require.NoError(t, err)
			for i := range 4 {
				requireFloats(t, f.At(i), m.data[i])
			}
			require.ErrorIs(t, f.At(4).Float32s(make([]float32, 1), 0), tensor.ErrUnsupported)
			require.NoError(t, f.Close())
		}
	}
}

// requireFloats compares Float32s with the bytes of a tensor, widened one by
// one.
func requireFloats(t *testing.T, x *format.Tensor, p []byte) {
	t.Helper()
	in := x.Info()
	n := in.Elements()
	want := make([]float32, n)
	for i := range want {
		switch b := p[int64(i)*in.Size/n:]; in.DType {
		case tensor.F32:
			want[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		case tensor.F64:
			want[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		case tensor.BF16:
			want[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
		case tensor.F16:
			h := uint32(binary.LittleEndian.Uint16(b))
			if want[i] = 0; h&0x7c00 != 0 {
				want[i] = math.Float32frombits(h&0x8000<<16 | (h&0x7fff<<13 + 112<<23))
			} else {
				want[i] = math.Float32frombits(h & 0x8000 << 16)
			}
		}
	}
	for _, from := range []int64{0, 1, 65535, 65536, 65537, n - 1, n} {
		for _, k := range []int64{0, 1, 100, 65536, n} {
			k = min(k, n-from)
			got := make([]float32, k)
			require.NoError(t, x.Float32s(got, from))
			require.True(t, slices.Equal(want[from:from+k], got), "%v from %d, %d of them", in.DType, from, k)
		}
	}
	require.Error(t, x.Float32s(make([]float32, 2), n-1))
	require.Error(t, x.Float32s(make([]float32, 1), -1))
	require.Error(t, x.Float32s(nil, math.MinInt64))
}

func TestReadAll(t *testing.T) {
	m := allTypes(tile.Elems*3 + 8)
	name := m.create(t, nil)
	for _, mapped := range []bool{false, true} {
		f, err := format.Open(name, &format.Options{Map: mapped})
		require.NoError(t, err)
		for i, want := range m.data {
			for _, workers := range []int{0, 1, 3} {
				got := make([]byte, len(want))
				require.NoError(t, f.At(i).ReadAll(context.Background(), got, workers))
				require.True(t, bytes.Equal(want, got))
			}
			require.Error(t, f.At(i).ReadAll(context.Background(), make([]byte, len(want)+1), 1))
		}
		require.NoError(t, f.Verify(context.Background(), 2))
		require.NoError(t, f.Close())
	}
}

func TestReadTile(t *testing.T) {
	m := allTypes(tile.Elems + 8)
	f := mustOpen(t, m.bytes(t, nil))
	for x := range f.All() {
		var got []byte
		buf := make([]byte, x.TileSize())
		for k := range x.Blocks() {
			n, err := x.ReadTile(buf, k)
			require.NoError(t, err)
			got = append(got, buf[:n]...)
		}
		i := slices.IndexFunc(m.infos, func(in tensor.Info) bool { return in.Name == x.Info().Name })
		require.True(t, bytes.Equal(m.data[i], got))
	}
	x, ok := f.Lookup("t.F32")
	require.True(t, ok)
	_, err := x.ReadTile(make([]byte, 5), 0)
	require.Error(t, err)
	require.Panics(t, func() { x.Block(2) })
	_, ok = f.Lookup("none")
	require.False(t, ok)
}

// TestConcurrentReads: any number of goroutines may read at once.
func TestConcurrentReads(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	name := m.create(t, nil)
	for _, mapped := range []bool{false, true} {
		f, err := format.Open(name, &format.Options{Map: mapped})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				for i := range m.data {
					i = (i*7 + g) % len(m.data)
					want := m.data[i]
					for off := 0; off < len(want); off += 50_000 {
						p := make([]byte, min(1000+g, len(want)-off))
						if _, err := f.Data(i).ReadAt(p, int64(off)); err != nil || !bytes.Equal(p, want[off:][:len(p)]) {
							t.Errorf("tensor %d at %d: %v", i, off, err)
						}
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, f.Close())
	}
}

// TestCloseInUse: reads that are under way when the file is closed end well or
// with an error, those that come later fail, and slices live until they are
// released.
func TestCloseInUse(t *testing.T) {
	m := &model{}
	m.add("raw", tensor.U8, random(3*tile.Bytes, 1), 3*tile.Bytes)
	m.add("w", tensor.BF16, asBF16(weights(3*tile.Elems, 1)), 3*tile.Elems)
	name := m.create(t, nil)
	for _, mapped := range []bool{false, true} {
		for range 20 {
			f, err := format.Open(name, &format.Options{Map: mapped})
			require.NoError(t, err)
			p, release, ok := f.At(0).Bytes()
			require.Equal(t, mapped, ok)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for k := range 50 {
						got := make([]byte, len(m.data[k%2]))
						_, err := f.Data(k%2).ReadAt(got, 0)
						if err == nil && !bytes.Equal(got, m.data[k%2]) {
							t.Error("other bytes")
						}
					}
				})
			}
			require.NoError(t, f.Close())
			wg.Wait()
			_, err = f.Data(0).ReadAt(make([]byte, 1), 0)
			require.ErrorIs(t, err, fs.ErrClosed)
			require.Error(t, f.At(1).Float32s(make([]float32, 1), 0))
			if ok {
				require.True(t, bytes.Equal(m.data[0], p))
				release()
				release()
				_, _, ok = f.At(0).Bytes()
				require.False(t, ok)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	f, err := format.Open(m.create(t, &format.WriteOptions{Level: codec.None}), &format.Options{Map: true})
	require.NoError(t, err)
	defer f.Close()
	for i, want := range m.data {
		p, release, ok := f.At(i).Bytes()
		require.True(t, ok)
		require.True(t, bytes.Equal(want, p))
		require.Equal(t, len(p), cap(p))
		release()
	}
	f2, err := format.Open(m.create(t, nil), &format.Options{Map: true})
	require.NoError(t, err)
	defer f2.Close()
	x, _ := f2.Lookup("zeros")
	_, _, ok := x.Bytes()
	require.False(t, ok, "it is not raw")
}

// A counting reader tells which ranges were read.
type counting struct {
	io.ReaderAt
	ranges [][2]int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.ranges = append(c.ranges, [2]int64{off, int64(len(p))})
	return c.ReaderAt.ReadAt(p, off)
}

// TestRangeRequests: opening takes two reads, and a row one, of its block.
func TestRangeRequests(t *testing.T) {
	m := &model{}
	m.add("w", tensor.BF16, asBF16(weights(8*tile.Elems, 1)), 8, tile.Elems)
	p := m.bytes(t, nil)
	c := &counting{ReaderAt: bytes.NewReader(p)}
	f, err := format.NewFile(c, int64(len(p)), nil)
	require.NoError(t, err)
	require.Len(t, c.ranges, 2)
	row := make([]byte, 2*tile.Elems)
	_, err = f.Data(0).ReadAt(row, 5*2*tile.Elems)
	require.NoError(t, err)
	require.True(t, bytes.Equal(row, m.data[0][5*2*tile.Elems:][:len(row)]))
	b := f.At(0).Block(5)
	require.Equal(t, [2]int64{b.Offset, b.Stored}, c.ranges[2])
	for off := range int64(100) {
		_, err = f.Data(0).ReadAt(row[:10], off)
		require.NoError(t, err)
	}
	require.Len(t, c.ranges, 4, "a tile is read once for many small reads")
}

// TestDump: the ranges of every kept file add up to its size.
func TestDump(t *testing.T) {
	for name, p := range keptBytes(t) {
		pos := int64(0)
		for r := range mustOpen(t, p).Ranges() {
			require.Equal(t, pos, r.Offset, name)
			require.Positive(t, r.Length)
			require.NotEmpty(t, r.What)
			pos += r.Length
		}
		require.EqualValues(t, len(p), pos, name)
		var out strings.Builder
		require.NoError(t, format.Dump(&out, bytes.NewReader(p), int64(len(p))))
		sum := 0
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines[:len(lines)-1] {
			n, err := strconv.Atoi(strings.Fields(line)[1])
			require.NoError(t, err)
			sum += n
		}
		require.Equal(t, len(p), sum)
	}
	require.Error(t, format.Dump(io.Discard, strings.NewReader("x"), 1))
	require.NoFileExists(t, "x")
	_, err := format.Open(os.DevNull, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestReadAllErrors: the error is that of the first tile that is damaged, for
// any number of workers; a context that has ended ends the work.
func TestReadAllErrors(t *testing.T) {
	m := &model{}
	m.add("w", tensor.U8, random(40*tile.Bytes, 1), 40*tile.Bytes)
	p := m.bytes(t, nil)
	f := mustOpen(t, p)
	for _, k := range []int64{9, 10, 33} {
		p[f.At(0).Block(k).Offset+7] ^= 1
	}
	dst := make([]byte, 40*tile.Bytes)
	ctx, cancel := context.WithCancel(context.Background())
	for _, workers := range []int{1, 2, 7, 100} {
		err := f.At(0).ReadAll(ctx, dst, workers)
		require.ErrorIs(t, err, format.ErrChecksum)
		require.ErrorContains(t, err, "block 9:")
	}
	cancel()
	for _, workers := range []int{1, 3} {
		require.ErrorIs(t, f.At(0).ReadAll(ctx, dst, workers), context.Canceled)
	}
	require.ErrorIs(t, f.Verify(ctx, 2), context.Canceled)
}
