package gguf_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// floats decodes little-endian float32.
func floats(p []byte) []float32 {
	out := make([]float32, len(p)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return out
}

// requireSameBits compares values to the bit; a NaN must be the one NaN.
func requireSameBits(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		bits := math.Float32bits(w)
		if w != w {
			bits = 0x7FC00000
		}
		if math.Float32bits(got[i]) != bits {
			t.Fatalf("element %d is %v (%08x), want %v (%08x)", i, got[i], math.Float32bits(got[i]), w, bits)
		}
	}
}

// TestDequantizeGolden compares every value with those of ggml's Python
// package.
func TestDequantizeGolden(t *testing.T) {
	files, err := filepath.Glob("../testdata/gguf/dequant/*.blocks")
	require.NoError(t, err)
	require.Len(t, files, 16)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".blocks")
		t.Run(name, func(t *testing.T) {
			require.True(t, gguf.CanDequantize(name))
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(file, "blocks") + "f32")
			require.NoError(t, err)
			foreign, ok := gguf.TypeByName(name)
			require.True(t, ok)
			got := make([]float32, len(want)/4)
			require.NoError(t, gguf.Dequantize(foreign, got, src))
			requireSameBits(t, floats(want), got)

			// block by block gives the same
			size, elems := int(foreign.BlockBytes), int(foreign.BlockElems)
			for i := range len(src) / size {
				part := make([]float32, elems)
				require.NoError(t, gguf.Dequantize(foreign, part, src[i*size:(i+1)*size]))
				requireSameBits(t, got[i*elems:(i+1)*elems], part)
			}
		})
	}
}

func TestDequantizeRefuses(t *testing.T) {
	q8, _ := gguf.TypeByName("Q8_0")
	for name, call := range map[string]error{
		"partial block": gguf.Dequantize(q8, make([]float32, 32), make([]byte, 33)),
		"short output":  gguf.Dequantize(q8, make([]float32, 31), make([]byte, 34)),
		"long output":   gguf.Dequantize(q8, make([]float32, 64), make([]byte, 34)),
	} {
		require.ErrorIs(t, call, tensor.ErrFormat, name)
	}
	for _, name := range []string{"IQ3_S", "Q1_0", "Q2_0", "Q8_K", "F32", "", "ggml_type_99"} {
		err := gguf.Dequantize(tensor.Foreign{Name: name}, nil, nil)
		require.ErrorIs(t, err, tensor.ErrUnsupported)
		require.ErrorContains(t, err, name)
		require.False(t, gguf.CanDequantize(name))
	}
	require.NoError(t, gguf.Dequantize(q8, nil, nil), "no blocks at all")
}

func BenchmarkDequantize(b *testing.B) {
	for _, name := range []string{"Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_XS"} {
		b.Run(name, func(b *testing.B) {
			foreign, _ := gguf.TypeByName(name)
			const elems = 65536
			src := make([]byte, elems/foreign.BlockElems*foreign.BlockBytes)
			for i := range src {
				src[i] = byte(37*i) & 0x3F // no scale is NaN
			}
			dst := make([]float32, elems)
			b.SetBytes(elems * 4) // of output
			for b.Loop() {
				if err := gguf.Dequantize(foreign, dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
