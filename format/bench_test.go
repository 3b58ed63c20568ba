package format_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/format"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

// layers has one tensor of 64 MiB of BF16.
func layers() *model {
	const tiles = 512
	one := asBF16(weights(tile.Elems, 1))
	m := &model{}
	m.add("w", tensor.BF16, bytes.Repeat(one, tiles), tiles, tile.Elems)
	return m
}

func benchLevels(b *testing.B, run func(b *testing.B, m *model, o *format.WriteOptions)) {
	m := layers()
	for _, level := range []codec.Level{codec.Fast, codec.None} {
		for _, hash := range []format.HashMode{format.HashValues, format.HashNone} {
			b.Run(fmt.Sprintf("level=%v/hash=%v", level, hash == format.HashValues), func(b *testing.B) {
				b.SetBytes(m.infos[0].Size)
				run(b, m, &format.WriteOptions{Level: level, Hash: hash})
			})
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	benchLevels(b, func(b *testing.B, m *model, o *format.WriteOptions) {
		for b.Loop() {
			require.NoError(b, m.write(format.NewWriter(io.Discard, o), 1<<20))
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	benchLevels(b, func(b *testing.B, m *model, o *format.WriteOptions) {
		f := mustOpen(b, m.bytes(b, o))
		for b.Loop() {
			require.NoError(b, f.Verify(context.Background(), 1))
		}
	})
}

func BenchmarkRead(b *testing.B) {
	m := layers()
	for _, level := range []codec.Level{codec.Fast, codec.None} {
		name := m.create(b, &format.WriteOptions{Level: level})
		for _, mapped := range []bool{false, true} {
			f, err := format.Open(name, &format.Options{Map: mapped})
			require.NoError(b, err)
			defer f.Close()
			x := f.At(0)
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("all/level=%v/map=%v/workers=%d", level, mapped, workers), func(b *testing.B) {
					dst := tile.NewBuffer(int(x.Info().Size))
					b.SetBytes(x.Info().Size)
					for b.Loop() {
						require.NoError(b, x.ReadAll(context.Background(), dst, workers))
					}
				})
			}
			b.Run(fmt.Sprintf("float32s/level=%v/map=%v", level, mapped), func(b *testing.B) {
				dst := make([]float32, x.Info().Elements())
				b.SetBytes(2 * x.Info().Size)
				for b.Loop() {
					require.NoError(b, x.Float32s(dst, 0))
				}
			})
			b.Run(fmt.Sprintf("rows/level=%v/map=%v", level, mapped), func(b *testing.B) {
				row := make([]float32, 4096)
				b.SetBytes(4 * 4096)
				for from := int64(0); b.Loop(); from = (from + 4096) % x.Info().Elements() {
					require.NoError(b, x.Float32s(row, from))
				}
			})
		}
	}
}

// BenchmarkOpen opens a file of 100,000 tensors.
func BenchmarkOpen(b *testing.B) {
	m := &model{}
	for i := range 100_000 {
		m.add(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/1000, i%1000), tensor.BF16, []byte{byte(i), byte(i >> 8)}, 1, 1)
	}
	for _, with := range []bool{false, true} {
		if m.records = nil; with {
			m.records = recordsOf(m)
		}
		p := m.bytes(b, nil)
		b.Run(fmt.Sprintf("records=%v", with), func(b *testing.B) {
			for b.Loop() {
				mustOpen(b, p)
			}
			runtime.GC()
			b.ReportMetric(float64(mustOpen(b, p).IndexSize()), "index-bytes")
		})
	}
}
