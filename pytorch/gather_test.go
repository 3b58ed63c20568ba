package pytorch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// typesOf has a class of storages for each size of an element.
var typesOf = map[int]string{1: "ByteStorage", 2: "HalfStorage", 4: "FloatStorage", 8: "LongStorage"}

// drawn returns storage bytes of n elements that differ.
func drawn(n, item int) string {
	p := make([]byte, n*item)
	x := uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return string(p)
}

// naive is the row-major tensor, element by element.
func naive(data string, item, offset int64, shape, stride []int64) []byte {
	if len(shape) == 0 {
		return []byte(data[offset*item : (offset+1)*item])
	}
	var out []byte
	for i := range shape[0] {
		out = append(out, naive(data, item, offset+i*stride[0], shape[1:], stride[1:])...)
	}
	return out
}

// TestGather compares views of any strides with elements taken one by one, for
// reads of any range.
func TestGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "item")
		shape, stride := []int64{}, []int64{}
		last, size := int64(0), int64(1)
		for range rapid.IntRange(0, 4).Draw(t, "rank") {
			n := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 40)).Draw(t, "dim")
			s := rapid.OneOf(rapid.Int64Range(0, 8), rapid.Int64Range(0, 3000)).Draw(t, "stride")
			if size*n > 20_000 || last+(n-1)*s > 400_000 {
				continue
			}
			shape, stride = append(shape, n), append(stride, s)
			last, size = last+(n-1)*s, size*n
		}
		offset := rapid.Int64Range(0, 9).Draw(t, "offset")
		data := drawn(int(offset+last+1), item)
		value := view(store(typesOf[item], "0", offset+last+1), offset, shape, stride)
		f, err := run2(pickled(value), data)
		require.NoError(t, err)
		want := naive(data, int64(item), offset, shape, stride)
		require.Equal(t, want, content(t, f, 0), "%v %v", shape, stride)
		for range 8 {
			from := rapid.IntRange(0, len(want)).Draw(t, "from")
			p := make([]byte, rapid.IntRange(0, len(want)+3-from).Draw(t, "n"))
			n, err := f.Data(0).ReadAt(p, int64(from))
			rest := want[from:]
			require.Equal(t, min(len(p), len(rest)), n)
			require.Equal(t, rest[:n], p[:n])
			require.True(t, n == len(p) || err == io.EOF)
		}
	})
}

func run2(pickle string, stores ...string) (*pytorch.File, error) {
	return open(pack(pickle, stores...).bytes(), nil)
}

// counting counts reads, and the bytes of the largest one.
type counting struct {
	io.ReaderAt
	reads, most int
	bytes       int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.most = max(c.most, len(p))
	c.bytes += int64(len(p))
	return c.ReaderAt.ReadAt(p, off)
}

// TestGatherCost: what a read takes in memory and in reads of the file is
// bounded, whatever the strides.
func TestGatherCost(t *testing.T) {
	const n = 2048
	data := drawn(n*n, 2)
	for name, c := range map[string]struct {
		shape, stride []int64
		reads         int
	}{
		"transposed":     {[]int64{n, n}, []int64{1, n}, 16 * n},
		"every other":    {[]int64{n * n / 2}, []int64{2}, 129},
		"columns":        {[]int64{n, n / 2}, []int64{n, 1}, 600},
		"blocks swapped": {[]int64{64, 64, 32, 32}, []int64{32 * n, 32, n, 1}, 32 * 64 * 64},
		"expanded":       {[]int64{n, n}, []int64{0, 1}, 16},
		"repeated":       {[]int64{n, n}, []int64{1, 0}, 2 * 16},
	} {
		p := pack(pickled(view(store("HalfStorage", "0", n*n), 0, c.shape, c.stride)), data).bytes()
		r := &counting{ReaderAt: bytes.NewReader(p)}
		f, err := pytorch.NewFile(r, int64(len(p)), nil)
		require.NoError(t, err)
		size := f.Tensors()[0].Size
		const piece = 512 << 10
		out := make([]byte, piece)
		*r = counting{ReaderAt: r.ReaderAt}
		pieces := int((size + piece - 1) / piece)
		memory := allocated(func() {
			for off := int64(0); off < size; off += piece {
				q := out[:min(piece, size-off)]
				_, err := f.Data(0).ReadAt(q, off)
				require.NoError(t, err)
			}
		})
		require.LessOrEqual(t, r.most, 64<<10, name)
		require.LessOrEqual(t, r.reads, c.reads, name)
		require.Less(t, memory, uint64(size+int64(pieces)*(150<<10)), name)
		require.Equal(t, naive(data, 2, 0, c.shape, c.stride), content(t, f, 0), name)
	}
}

// TestGatherErrors: an error of the file comes through, and offsets are those
// of a ReaderAt.
func TestGatherErrors(t *testing.T) {
	a := pack(pickled(view(store("ByteStorage", "0", 12), 0, []int64{3, 4}, []int64{1, 3})), floats3)
	p := a.bytes()
	f := mustOpen(t, p, nil)
	_, err := f.Data(0).ReadAt(make([]byte, 1), -1)
	require.ErrorContains(t, err, "negative offset")
	n, err := f.Data(0).ReadAt(make([]byte, 5), 10)
	require.Equal(t, 2, n)
	require.Equal(t, io.EOF, err)

	r := &switched{ReaderAt: bytes.NewReader(p)}
	f, err = pytorch.NewFile(r, int64(len(p)), nil)
	require.NoError(t, err)
	for _, e := range []error{errDisk, io.EOF} {
		r.err = e
		err = tensor.ReadFull(f, 0, make([]byte, 12), 0)
		require.ErrorContains(t, err, `tensor "tensor": byte `)
		if e == io.EOF {
			e = tensor.ErrTruncated
		}
		require.True(t, errors.Is(err, e), "%v", err)
	}
	r.err = nil
	require.Equal(t, naive(floats3, 1, 0, []int64{3, 4}, []int64{1, 3}), content(t, f, 0), "an error is not kept")
}

// TestBands: readers of permuted tensors, more of them than bands are kept,
// read what is there, at any place and all at once.
func TestBands(t *testing.T) {
	const rows, columns, count = 1100, 1300, 6 // 2.7 MiB: two bands each
	var items, data []string
	for i := range count {
		data = append(data, drawn(rows*columns+i, 2)[2*i:])
		items = append(items, str(fmt.Sprint(i)), view(store("HalfStorage", fmt.Sprint(i), rows*columns), 0, []int64{columns, rows}, []int64{1, columns}))
	}
	f, err := run2(pickled(dict(items...)), data...)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range count {
		want := naive(data[i], 2, 0, []int64{columns, rows}, []int64{1, columns})
		for k := range 2 {
			wg.Go(func() {
				p := make([]byte, 300_001)
				for off := k * 77_777; off < len(want); off += len(p) / (k + 1) {
					n, _ := f.Data(i).ReadAt(p, int64(off))
					if !bytes.Equal(want[off:off+n], p[:n]) || n == 0 {
						t.Errorf("tensor %d differs in %d bytes at %d", i, n, off)
					}
				}
			})
		}
	}
	wg.Wait()
}

// switched fails once err is set.
type switched struct {
	io.ReaderAt
	err error
}

func (s *switched) ReadAt(p []byte, off int64) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.ReaderAt.ReadAt(p, off)
}
