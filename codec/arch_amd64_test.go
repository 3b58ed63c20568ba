//go:build !purego

package codec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/stretchr/testify/require"
)

// requireArch skips where the kernels cannot run.
func requireArch(t *testing.T) {
	if !cpu.HasAVX2 {
		t.Skip("no AVX2 here")
	}
}

// randomBook returns the codebook of a level of random symbols, of which a
// closed one need not have all.
func randomBook(r *rand.Rand, width, rest int) (c codebook) {
	l := level{width: width, rest: rest}
	n := l.symbols()
	if rest == 0 {
		n = 1 + r.IntN(n)
	}
	for i, s := range r.Perm(64)[:n] {
		l.table[i] = byte(s)
	}
	c.set(&l)
	return c
}

// TestEncodeLevelArch is the same for encodeLevel, with symbols in the level,
// outside of it, or both.
func TestEncodeLevelArch(t *testing.T) {
	requireArch(t)
	in, esc, out := newRoom(t), newRoom(t), newRoom(t)
	for i, n := range append([]int{group + 1, 2*group - 1}, lengthsOfGroups...) {
		for width := 1; width <= maxWidth; width++ {
			for rest := range 2 {
				for _, spread := range []byte{0, 3, 31, 63, 255} {
					book := randomBook(in.rand, width, rest)
					src := in.take(n, i%3)
					for i := range src {
						src[i] &= spread
					}
					l := level{rest: rest}
					want, wantEscapes := make([]byte, wordBytes(n, width)), make([]byte, n+slack)
					whole := n &^ (group - 1)
					used := encodeLevelGeneric(want, wantEscapes, src[:whole], width, l.open(), &book)
					words, escapes := out.take(len(want), i%2), esc.take(n+slack, 0)
					gotN, gotUsed := encodeLevelArch(words, escapes, src, width, l.open(), &book)
					require.Equal(t, [2]int{whole, used}, [2]int{gotN, gotUsed}, "width %d, rest %d", width, rest)
					require.True(t, bytes.Equal(want[:wordBytes(whole, width)], words[:wordBytes(whole, width)]), "width %d, rest %d", width, rest)
					require.True(t, bytes.Equal(wantEscapes[:used], escapes[:used]), "width %d, rest %d", width, rest)
				}
			}
		}
	}
}

// TestEncodeLevelArchLeaves: codebooks that the kernels do not know are for the
// generic code.
func TestEncodeLevelArchLeaves(t *testing.T) {
	requireArch(t)
	src := make([]byte, group)
	for _, book := range []codebook{{}, {5: 4}, {1, 1, 2}} {
		n, used := encodeLevelArch(make([]byte, 16), make([]byte, group+slack), src, 2, 0, &book)
		require.Zero(t, [2]int{n, used})
	}
}

// TestHistogramArch counts what is concentrated, spread, or changes.
func TestHistogramArch(t *testing.T) {
	requireArch(t)
	in := newRoom(t)
	for i, n := range []int{countMin, countMin + group + 5, maxElems - 1, maxElems} {
		for name, f := range map[string]func(i int, b byte) byte{
			"one symbol":  func(int, byte) byte { return 200 },
			"few symbols": func(_ int, b byte) byte { return b & 7 },
			"falling":     func(_ int, b byte) byte { return byte(math.Sqrt(float64(b & (b >> 3)))) },
			"noise":       func(_ int, b byte) byte { return b },
			"changes":     func(i int, b byte) byte { return b & byte(3<<(i%3000/2048*2)) },
			"noise later": func(i int, b byte) byte { return b & byte(min(0, i%4096-512)>>31^0xff) },
		} {
			src := in.take(n, i%2)
			for i, b := range src {
				src[i] = f(i, b)
			}
			var want, got histogram
			want[7], got[7] = 3, 3
			k := histogramArch(&got, src)
			want.addGeneric(src[:k])
			require.Equal(t, want, got, "%s, %d symbols", name, n)
			if name != "noise" && name != "noise later" {
				require.Equal(t, n&^(group-1), k, name)
			}
		}
	}
}

// TestTierSelected: a processor with what a tier needs runs that tier, as Linux
// tells where internal/cpu does not look.
func TestTierSelected(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("no list of features here")
	}
	_, line, _ := strings.Cut(string(info), "\nflags")
	line, _, _ = strings.Cut(line, "\n")
	has := func(features ...string) bool {
		for _, f := range features {
			if !slices.Contains(strings.Fields(line), f) {
				return false
			}
		}
		return true
	}
	want := cpu.Generic
	if has("avx2", "f16c", "fma", "popcnt", "bmi2") {
		want = cpu.AVX2
		if has("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2") {
			want = cpu.AVX512
		}
	}
	require.Equal(t, want, cpu.Best())
}

// TestTiersAgree: every tier stores the same bytes, and decodes what is stored,
// where tiles and what is stored end at guard pages.
func TestTiersAgree(t *testing.T) {
	in, out, codes := newRoom(t), newRoom(t), newRoom(t)
	e, d := NewEncoder(), NewDecoder()
	tiles := 0
	for _, c := range cases(t) {
		src := in.take(len(c.src), 0)
		copy(src, c.src)
		limit(t, cpu.Generic)
		want, id := e.Encode(nil, src, c.elem, Fast)
		stored := codes.take(len(want), 0)
		copy(stored, want)
		wide := d.floats(t, src, stored, c.elem, id)
		for _, tier := range cpu.Tiers() {
			limit(t, tier)
			got, gotID := e.Encode(nil, src, c.elem, Fast)
			require.Equal(t, id, gotID, "%s: %s, %v", tier, c.name, c.elem)
			require.True(t, bytes.Equal(want, got), "%s: %s, %v", tier, c.name, c.elem)
			dst := out.take(len(src), 0)
			require.NoError(t, d.Decode(dst, stored, c.elem, id), "%s: %s, %v", tier, c.name, c.elem)
			require.True(t, bytes.Equal(src, dst), "%s: %s, %v", tier, c.name, c.elem)
			require.Equal(t, wide, d.floats(t, src, stored, c.elem, id), "%s: %s, %v", tier, c.name, c.elem)
		}
		tiles++
	}
	t.Logf("%d tiles, tiers %v", tiles, cpu.Tiers())
}
