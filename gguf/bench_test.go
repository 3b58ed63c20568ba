package gguf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// manyTensors is a file of n tensors without elements.
func manyTensors(n int) []byte {
	m := newMaker(uint64(n), 1).key("general.architecture", tensor.KindString).str("llama")
	for i := range n {
		m.info(fmt.Sprintf("blk.%d.attn_q.weight", i), 0, 0, 4096, 0)
	}
	return m.pad(32).b
}

// TestOpenCost holds the memory for the header of 100,000 tensors under ten
// times its size.
func TestOpenCost(t *testing.T) {
	p := manyTensors(100_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := open(p, nil)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	total := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(p))
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := float64(after.HeapAlloc-before.HeapAlloc) / float64(len(p))
	t.Logf("header of %d bytes: %.1f times that allocated, %.1f times kept", len(p), total, kept)
	require.Less(t, total, 10.0)
	runtime.KeepAlive(f)
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{5, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := manyTensors(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := open(p, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStream reads one large tensor through Data, and the same bytes from
// the file itself.
func BenchmarkStream(b *testing.B) {
	const size = 2 << 30
	name := filepath.Join(b.TempDir(), "a.gguf")
	s := gguf.Create(name, nil)
	require.NoError(b, s.Begin([]tensor.Info{{Name: "a", DType: tensor.F32, Shape: []int64{size / 4}, Size: size}}, nil))
	p := make([]byte, 512<<10)
	for off := int64(0); off < size; off += int64(len(p)) {
		require.NoError(b, s.Write(0, off, p))
	}
	require.NoError(b, s.Finish(nil))
	f, err := gguf.Open(name, nil)
	require.NoError(b, err)
	defer f.Close()
	plain, err := os.Open(name)
	require.NoError(b, err)
	defer plain.Close()
	_, at := f.Place(0)
	for _, c := range []struct {
		name string
		r    io.ReaderAt
	}{{"plain", io.NewSectionReader(plain, at, size)}, {"gguf", f.Data(0)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for off := int64(0); off < size; off += int64(len(p)) {
					if _, err := c.r.ReadAt(p, off); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkBigEndian(b *testing.B) {
	const n = 1 << 20
	m := makerOf(binary.BigEndian, 3, 1, 0).info("a", 0, 0, n).pad(32).zeros(4 * n)
	f, err := gguf.NewFile(bytes.NewReader(m.b), int64(len(m.b)), nil)
	require.NoError(b, err)
	p := make([]byte, 4*n)
	b.SetBytes(4 * n)
	for b.Loop() {
		if _, err := f.Data(0).ReadAt(p, 0); err != nil {
			b.Fatal(err)
		}
	}
}
