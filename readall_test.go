package demi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// several is a checkpoint with tensors of no, one and several pieces.
func several() *mem {
	m := new(mem).zeros("empty", tensor.F32, 0, 3)
	for i, n := range []int64{1, 2 << 20, 2<<20 + 1, 5 << 20} {
		p := make([]byte, n)
		for k := range p {
			p[k] = byte(k*7 + k>>16 + i)
		}
		m.add(memTensor{fmt.Sprint("t", i), tensor.U8, []int64{n}, p})
	}
	return m
}

// TestReadAllTells: progress adds up to everything that is wanted, and each
// tensor is told of once, complete.
func TestReadAllTells(t *testing.T) {
	m := several()
	want := values(t, m)
	for _, workers := range []int{1, 4} {
		var calls atomic.Int64
		var last, total int64
		var mu sync.Mutex
		done := map[string][]byte{}
		asked := []string{}
		err := m.checkpoint().ReadAll(t.Context(), func(in tensor.Info) []byte {
			asked = append(asked, in.Name)
			if in.Name == "t1" {
				return nil
			}
			return make([]byte, in.Size)
		}, demi.ReadOptions{
			Workers: workers,
			Progress: func(d, all int64) {
				if calls.Add(1) > 1 && (d < last || all != total) {
					t.Errorf("%d of %d after %d of %d", d, all, last, total)
				}
				last, total = d, all
			},
			Done: func(in tensor.Info, p []byte) error {
				mu.Lock()
				defer mu.Unlock()
				if done[in.Name] != nil {
					t.Errorf("%s is done twice", in.Name)
				}
				done[in.Name] = bytes.Clone(p)
				return nil
			},
		})
		require.NoError(t, err)
		require.Equal(t, []string{"empty", "t0", "t1", "t2", "t3"}, asked, "in file order")
		require.EqualValues(t, 1+2<<20+1+5<<20, total)
		require.Equal(t, total, last)
		require.Len(t, done, 4)
		for name, p := range done {
			require.True(t, bytes.Equal(want[name], p), name)
		}
	}
}

// TestReadAllRefuses: memory of a wrong size is an error before anything is
// read, an error of the caller's ends the work, and a context does.
func TestReadAllRefuses(t *testing.T) {
	m := several()
	c := m.checkpoint()
	for _, wrong := range []int64{-1, 1} {
		read := false
		err := c.ReadAll(t.Context(), func(in tensor.Info) []byte {
			if in.Name == "t3" {
				return make([]byte, in.Size+wrong)
			}
			return make([]byte, in.Size)
		}, demi.ReadOptions{Progress: func(int64, int64) { read = true }})
		require.EqualError(t, err, fmt.Sprintf(`tensor "t3" has 5242880 bytes, the memory for it %d`, 5242880+wrong))
		require.False(t, read)
	}
	require.ErrorContains(t, c.ReadAll(t.Context(), func(tensor.Info) []byte { return []byte{} }, demi.ReadOptions{}), `tensor "t0" has 1 bytes`)
	require.NoError(t, c.ReadAll(t.Context(), func(tensor.Info) []byte { return nil }, demi.ReadOptions{}))
	alloc := func(in tensor.Info) []byte { return make([]byte, in.Size) }
	ours := errors.New("ours")
	for _, workers := range []int{1, 3} {
		o := demi.ReadOptions{Workers: workers, Done: func(in tensor.Info, _ []byte) error {
			if in.Name == "t1" {
				return ours
			}
			return nil
		}}
		require.Equal(t, ours, c.ReadAll(t.Context(), alloc, o))

		ctx, cancel := context.WithCancel(t.Context())
		o = demi.ReadOptions{Workers: workers, Progress: func(done, _ int64) {
			if done > 0 {
				cancel()
			}
		}}
		require.ErrorIs(t, c.ReadAll(ctx, alloc, o), context.Canceled)
		require.ErrorIs(t, c.ReadAll(ctx, alloc, demi.ReadOptions{Workers: workers}), context.Canceled)
	}
	var caught *ordered.PanicError
	require.ErrorAs(t, c.ReadAll(t.Context(), alloc, demi.ReadOptions{Workers: 2, Progress: func(int64, int64) { panic("theirs") }}), &caught)
}

// TestTruncatedWhileReading: a file that becomes shorter while it is open is an
// error; where files are mapped, the program dies (safetensors#528, vLLM#24469).
func TestTruncatedWhileReading(t *testing.T) {
	dir := library(t)
	for _, name := range []string{"model.safetensors", "sharded/model-00003-of-00003.safetensors", "model.gguf", "raw.demi", "compressed.demi"} {
		path := filepath.Join(dir, name)
		c := open(t, path)
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, st.Size()/2))
		for _, workers := range []int{1, 3} {
			err = c.ReadAll(t.Context(), func(in tensor.Info) []byte { return make([]byte, in.Size) }, demi.ReadOptions{Workers: workers})
			require.ErrorIs(t, err, tensor.ErrTruncated)
			require.ErrorContains(t, err, path)
			var place *tensor.FileError
			require.ErrorAs(t, err, &place)
			x, ok := c.Tensor(place.Tensor)
			require.True(t, ok)
			rows, size, err := x.Rows()
			require.NoError(t, err)
			require.ErrorIs(t, x.ReadRows(make([]byte, rows*size), 0), tensor.ErrTruncated)
		}
	}
}

// BenchmarkReadAll reads 256 MiB from the page cache into the same memory again
// and again: with ReadAll, and beside it with nothing but pread, in blocks of
// the same size on as many goroutines. The file has few tensors or many.
func BenchmarkReadAll(b *testing.B) {
	const size = 256 << 20
	for _, tensors := range []int64{8, 4096} {
		path := filepath.Join(b.TempDir(), "model.safetensors")
		m := new(mem)
		for i := range tensors {
			m.zeros(fmt.Sprintf("t%04d", i), tensor.F16, size/2/tensors)
		}
		require.NoError(b, writeAll(safetensors.Create(path, nil), m))
		c := open(b, path)
		bufs := make([][]byte, tensors)
		for i := range bufs {
			bufs[i] = make([]byte, size/tensors)
			for k := 0; k < len(bufs[i]); k += 4096 {
				bufs[i][k] = 1 // the pages are there
			}
		}
		b.Run(fmt.Sprintf("tensors=%d/demi", tensors), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				next := -1
				require.NoError(b, c.ReadAll(b.Context(), func(tensor.Info) []byte { next++; return bufs[next] }, demi.ReadOptions{}))
			}
		})
		b.Run(fmt.Sprintf("tensors=%d/peer=pread", tensors), func(b *testing.B) {
			file, err := os.Open(path)
			require.NoError(b, err)
			defer file.Close()
			_, start := first(c).Place()
			b.SetBytes(size)
			for b.Loop() {
				require.NoError(b, preadAll(file, start, bufs, 2<<20))
			}
		})
	}
}

func first(c *demi.Checkpoint) *demi.Tensor {
	for x := range c.Tensors() {
		return x
	}
	return nil
}

// preadAll fills buffers of one size from a file, in blocks of at most n bytes.
func preadAll(file *os.File, start int64, bufs [][]byte, n int) error {
	var next atomic.Int64
	size := len(bufs[0])
	n = min(n, size)
	blocks := size / n
	errs := make(chan error, runtime.GOMAXPROCS(0))
	for range cap(errs) {
		go func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= blocks*len(bufs) {
					errs <- nil
					return
				}
				i, off := k/blocks, k%blocks*n
				if _, err := file.ReadAt(bufs[i][off:off+n], start+int64(i*size+off)); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return err
}

// writeAll writes a Source to a Sink.
func writeAll(s tensor.Sink, m *mem) error {
	defer s.Abort()
	if err := s.Begin(m.Tensors(), m.Meta()); err != nil {
		return err
	}
	for i, x := range m.tensors {
		if err := s.Write(i, 0, x.data); err != nil {
			return err
		}
	}
	return s.Finish(nil)
}
