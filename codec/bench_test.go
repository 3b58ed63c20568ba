package codec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// benchTile returns a whole tile of values as transformers have them.
func benchTile(elem Elem) []byte { return synthetic(1, 32, 2048).tiles(elem)[0] }

// Benchmarks count bytes of decoded data, a tile in cache.
func BenchmarkDecode(b *testing.B) {
	for _, elem := range floats {
		src := benchTile(elem)
		out, id := NewEncoder().Encode(nil, src, elem, Fast)
		for _, tier := range cpu.Tiers() {
			b.Run(fmt.Sprintf("elem=%v/codec=%v/tier=%s", elem, id, tier), func(b *testing.B) {
				limit(b, tier)
				d, dst := NewDecoder(), make([]byte, len(src))
				loop(b, len(src), func() { require.NoError(b, d.Decode(dst, out, elem, id)) })
			})
		}
	}
}

func BenchmarkFloat32s(b *testing.B) {
	for _, elem := range floats {
		src := benchTile(elem)
		out, id := NewEncoder().Encode(nil, src, elem, Fast)
		for _, tier := range cpu.Tiers() {
			b.Run(fmt.Sprintf("elem=%v/codec=%v/tier=%s", elem, id, tier), func(b *testing.B) {
				limit(b, tier)
				d, dst := NewDecoder(), make([]float32, len(src)/elem.size())
				loop(b, len(src), func() { require.NoError(b, d.Float32s(dst, out, elem, id)) })
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, elem := range floats {
		src := benchTile(elem)
		for _, tier := range cpu.Tiers() {
			b.Run(fmt.Sprintf("elem=%v/tier=%s", elem, tier), func(b *testing.B) {
				limit(b, tier)
				e, out := NewEncoder(), make([]byte, 0, len(src))
				loop(b, len(src), func() { e.Encode(out, src, elem, Fast) })
				report(b, len(src), func() int { out, _ := e.Encode(out, src, elem, Fast); return len(out) })
			})
		}
	}
}

// BenchmarkOthers encodes and decodes the same tiles with the entropy coders
// of klauspost/compress: zstd the whole tile, huff0 the exponents only (the
// other plane is not even copied).
func BenchmarkOthers(b *testing.B) {
	src := benchTile(BF16)
	for _, effort := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBestCompression} {
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(effort), zstd.WithEncoderConcurrency(1), zstd.WithAllLitEntropyCompression(true))
		r, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		out, dst := w.EncodeAll(src, nil), make([]byte, 0, len(src))
		b.Run(fmt.Sprintf("do=encode/codec=zstd-%v", effort), func(b *testing.B) {
			loop(b, len(src), func() { out = w.EncodeAll(src, out[:0]) })
			report(b, len(src), func() int { return len(out) })
		})
		b.Run(fmt.Sprintf("do=decode/codec=zstd-%v", effort), func(b *testing.B) {
			loop(b, len(src), func() { _, err := r.DecodeAll(out, dst); require.NoError(b, err) })
		})
	}
	benchHuff0(b, src)
}

func benchHuff0(b *testing.B, src []byte) {
	e := NewEncoder()
	n := len(src) / 2
	e.split(src, BF16, n)
	exp := e.planes[1][:n]
	var s huff0.Scratch
	out, _, err := huff0.Compress4X(exp, &s)
	require.NoError(b, err)
	out = append([]byte(nil), out...)
	b.Run("do=encode/codec=huff0", func(b *testing.B) {
		loop(b, len(src), func() { huff0.Compress4X(exp, &s) })
		report(b, len(src), func() int { return n + len(out) })
	})
	b.Run("do=decode/codec=huff0", func(b *testing.B) {
		dst := make([]byte, 0, n)
		loop(b, len(src), func() {
			s, rest, err := huff0.ReadTable(out, &s)
			require.NoError(b, err)
			_, err = s.Decoder().Decompress4X(dst[:n], rest)
			require.NoError(b, err)
		})
	})
}

// BenchmarkSets encodes and decodes whole sets, tile after tile, from DRAM
// where they do not fit the cache: what interop/python/codec_peers.py measures
// of others, on the same values.
func BenchmarkSets(b *testing.B) {
	for name, values := range map[string]func() set{
		"synthetic":           func() set { return synthetic(18, 512, 2048) }, // 252 MiB of BF16
		"esrgan_thick_x2":     func() set { return optional(b, "esrgan_thick_x2") },
		"human_mobilefacenet": func() set { return optional(b, "human_mobilefacenet") },
	} {
		tiles := values().tiles(BF16)
		if len(tiles) == 0 {
			continue // those files are not part of the repository
		}
		raw, stored := 0, 0
		e, d := NewEncoder(), NewDecoder()
		out, ids := make([][]byte, len(tiles)), make([]ID, len(tiles))
		for i, src := range tiles {
			out[i], ids[i] = e.Encode(nil, src, BF16, Fast)
			raw, stored = raw+len(src), stored+len(out[i])
		}
		scratch := make([]byte, 0, 1<<18)
		b.Run("do=encode/set="+name, func(b *testing.B) {
			loop(b, raw, func() {
				for _, src := range tiles {
					e.Encode(scratch, src, BF16, Fast)
				}
			})
			report(b, raw, func() int { return stored })
		})
		dst := make([]byte, raw)
		b.Run("do=decode/set="+name, func(b *testing.B) {
			loop(b, raw, func() {
				at := 0
				for i := range out {
					n := len(tiles[i])
					require.NoError(b, d.Decode(dst[at:at+n], out[i], BF16, ids[i]))
					at += n
				}
			})
		})
		src := slices.Concat(tiles...)
		b.Run("do=memcpy/set="+name, func(b *testing.B) { loop(b, raw, func() { copy(dst, src) }) })
	}
}

// loop runs f until the benchmark has enough, the first time for nothing.
func loop(b *testing.B, bytes int, f func()) {
	b.SetBytes(int64(bytes))
	f()
	for b.Loop() {
		f()
	}
}

// report adds the stored size over the decoded one.
func report(b *testing.B, bytes int, stored func() int) {
	b.ReportMetric(float64(stored())/float64(bytes), "of-raw")
}
