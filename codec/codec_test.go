package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/stretchr/testify/require"
)

var floats = []Elem{BF16, F16, F32}

// limit turns off the tiers above the named one until the test ends.
func limit(tb testing.TB, tier string) {
	tb.Helper()
	require.NoError(tb, cpu.Limit(tier))
	tb.Cleanup(func() { cpu.Limit("") })
}

// eachTier runs f with every tier of this processor.
func eachTier(t *testing.T, f func(t *testing.T)) {
	for _, tier := range cpu.Tiers() {
		t.Run(tier, func(t *testing.T) {
			limit(t, tier)
			f(t)
		})
	}
}

// roundTrip encodes and decodes a tile and returns its kind and stored bytes.
func roundTrip(t testing.TB, e *Encoder, d *Decoder, src []byte, elem Elem, level Level) (ID, []byte) {
	t.Helper()
	prefix := []byte("before")
	out, id := e.Encode(prefix, src, elem, level)
	require.Equal(t, "before", string(out[:6]))
	out = out[6:]
	require.LessOrEqual(t, len(out), len(src))
	dst := bytes.Repeat([]byte{0xa5}, len(src))
	require.NoError(t, d.Decode(dst, out, elem, id))
	if !bytes.Equal(src, dst) {
		t.Fatalf("%v, %v, %d bytes: other bytes came back", elem, id, len(src))
	}
	return id, out
}

// TestRoundTrip encodes and decodes every case with every tier; the stored
// bytes are those of the generic tier.
func TestRoundTrip(t *testing.T) {
	all := cases(t)
	e, d := NewEncoder(), NewDecoder()
	limit(t, cpu.Generic)
	var want [][]byte
	for _, c := range all {
		id, out := roundTrip(t, e, d, c.src, c.elem, Fast)
		if c.id >= 0 {
			require.Equal(t, ID(c.id), id, "%s, %v", c.name, c.elem)
		}
		want = append(want, out)
	}
	for _, tier := range cpu.Tiers()[1:] {
		limit(t, tier)
		e, d := NewEncoder(), NewDecoder()
		for i, c := range all {
			_, out := roundTrip(t, e, d, c.src, c.elem, Fast)
			require.True(t, bytes.Equal(want[i], out), "%s, %v: other stored bytes with %s", c.name, c.elem, tier)
		}
	}
}

// TestLengths encodes every length around one and two groups, and around a
// tile.
func TestLengths(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		e, d := NewEncoder(), NewDecoder()
		seen := map[ID]int{}
		for _, elem := range floats {
			for _, n := range lengths() {
				for _, c := range shapes(n, elem) {
					id, _ := roundTrip(t, e, d, c.src, elem, Fast)
					seen[id]++
				}
			}
		}
		require.Greater(t, seen[Cascade], 300)
		require.Greater(t, seen[Constant], 300)
		require.Greater(t, seen[Raw], 300)
	})
}

func lengths() (ns []int) {
	for n := range 2*group + 2 {
		ns = append(ns, n)
	}
	if testing.Short() {
		return append(ns, 1000, chunk+1, chunk+group, maxElems-1, maxElems)
	}
	return append(ns, 200, 1000, chunk-1, chunk, chunk+1, chunk+group, 2*chunk+group-1,
		maxElems-group-1, maxElems-group, maxElems-1, maxElems)
}

// TestOddSizes: bytes that are not whole elements, or more than a tile, come
// back too.
func TestOddSizes(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	for _, elem := range floats {
		for _, size := range []int{1, 3, 5, 255, elem.size()*maxElems + elem.size(), elem.size()*maxElems - 1} {
			id, _ := roundTrip(t, e, d, gaussian(size, Bytes), elem, Fast)
			require.Equal(t, Raw, id)
			id, _ = roundTrip(t, e, d, make([]byte, size), elem, Fast)
			require.True(t, id == Constant || size == 1)
		}
	}
}

// TestLevels: what each level may use.
func TestLevels(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	text := bytes.Repeat([]byte("tiles of text, "), 1000)
	for _, c := range []struct {
		src               []byte
		elem              Elem
		none, fast, small ID
	}{
		{nil, BF16, Raw, Raw, Raw},
		{[]byte{7, 7, 7}, Bytes, Raw, Constant, Constant},
		{make([]byte, 1000), F32, Raw, Constant, Constant},
		{bytes.Repeat([]byte("eight..."), 100), Bytes, Raw, Constant, Constant},
		{text, Bytes, Raw, Zstd, Zstd},
		{text[:14000], F32, Raw, Cascade, Zstd},
		{gaussian(4096, BF16), BF16, Raw, Cascade, Cascade},
		{gaussian(maxElems, F32), F32, Raw, Cascade, Cascade},
		{noisy(4096, F32), F32, Raw, Raw, Raw},
		{noisy(4096, Bytes), Bytes, Raw, Raw, Raw},
	} {
		for level, want := range map[Level]ID{None: c.none, Fast: c.fast, Small: c.small} {
			id, _ := roundTrip(t, e, d, c.src, c.elem, level)
			require.Equal(t, want, id, "%d bytes of %v, level %v", len(c.src), c.elem, level)
		}
	}
}

// TestPatterns encodes all 65,536 patterns of each 16-bit type, and of the
// high half of F32, among values as weights have them.
func TestPatterns(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		e, d := NewEncoder(), NewDecoder()
		for _, elem := range floats {
			for part := range 16 {
				src := gaussian(maxElems, elem)
				size := elem.size()
				for i := range maxElems / 16 {
					h := uint16(i*16 + part)
					binary.LittleEndian.PutUint16(src[16*i*size+size-2:], h)
				}
				id, out := roundTrip(t, e, d, src, elem, Fast)
				require.Equal(t, Cascade, id)
				require.Equal(t, widened(src, elem), d.floats(t, src, out, elem, id), "%v, widened", elem)
			}
		}
	})
}

// widened returns the bits of the values of stored bytes.
func widened(src []byte, elem Elem) []uint32 {
	xs := make([]float32, len(src)/elem.size())
	if elem == F32 {
		for i := range xs {
			xs[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
		return floatBits(xs)
	}
	half := make([]uint16, len(xs))
	for i := range half {
		half[i] = binary.LittleEndian.Uint16(src[2*i:])
	}
	if elem == BF16 {
		kernels.BF16ToF32(xs, half)
	} else {
		kernels.F16ToF32(xs, half)
	}
	return floatBits(xs)
}

func floatBits(xs []float32) []uint32 {
	bits := make([]uint32, len(xs))
	for i, x := range xs {
		bits[i] = math.Float32bits(x)
	}
	return bits
}

// floats returns the bits of what Float32s decodes.
func (d *Decoder) floats(t testing.TB, src, out []byte, elem Elem, id ID) []uint32 {
	dst := make([]float32, len(src)/elem.size())
	require.NoError(t, d.Float32s(dst, out, elem, id))
	return floatBits(dst)
}

// TestFloat32s: the values are those that Decode and a conversion give.
func TestFloat32s(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		e, d := NewEncoder(), NewDecoder()
		seen := map[ID]bool{}
		for _, elem := range floats {
			for _, n := range []int{0, 1, 63, 64, 65, 100, 2*chunk + 1} {
				for _, c := range append(shapes(n, elem), tcase{src: bytes.Repeat([]byte("zstd.."), n*elem.size()/6)[:n*elem.size()/6/4*4]}) {
					for _, level := range []Level{Fast, None, Small} {
						out, id := e.Encode(nil, c.src, elem, level)
						seen[id] = true
						require.Equal(t, widened(c.src, elem), d.floats(t, c.src, out, elem, id))
					}
				}
			}
		}
		require.Len(t, seen, 4)
	})
	require.ErrorContains(t, NewDecoder().Float32s(nil, nil, Bytes, Raw), "no values")
}

// TestCleanF32: values that fit a 16-bit type take what they would take there,
// and 64 bytes more at most.
func TestCleanF32(t *testing.T) {
	e := NewEncoder()
	xs := synthetic(1, 32, 2048)[0]
	for _, elem := range []Elem{BF16, F16} {
		narrow := stored(xs, elem)
		var wide []byte
		for _, bits := range widened(narrow, elem) {
			wide = binary.LittleEndian.AppendUint32(wide, bits)
		}
		want, _ := e.Encode(nil, narrow, elem, Fast)
		got, id := e.Encode(nil, wide, F32, Fast)
		require.Equal(t, Cascade, id)
		require.LessOrEqual(t, len(got), len(want)+64, "%v", elem)
	}
}

// TestSaving: a tile is raw if the saving is under 1/32.
func TestSaving(t *testing.T) {
	e := NewEncoder()
	for n := range 300 {
		for _, elem := range floats {
			src := gaussian(n, elem)
			out, id := e.Encode(nil, src, elem, Fast)
			require.True(t, id == Raw && len(out) == len(src) || len(out)*32 <= len(src)*31)
			if id == Raw && e.plan(src, elem) < none {
				require.Greater(t, e.plan(src, elem)*32, len(src)*31)
			}
		}
	}
}

// TestFewestBytes: no other choice of widths takes fewer bytes, tried on
// histograms of few symbols.
func TestFewestBytes(t *testing.T) {
	for _, c := range histograms() {
		var p plane
		w := &planner{}
		n := 0
		for s, count := range c.counts {
			w.counts[s] = uint32(count)
			n += count
		}
		p.levels, p.rest = p.store[:0], n
		w.levels(&p)
		got := p.rest
		for i := range p.levels {
			got += 4 + p.levels[i].symbols() + p.levels[i].size()
		}
		require.Equal(t, fewest(w, 0, 0), got, c.name)
	}
}

// fewest tries everything.
func fewest(w *planner, l, r int) int {
	best := int(w.left[r])
	for k := 0; l < maxLevels && k <= maxWidth; k++ {
		size := 4 + (int(w.left[r])+63)/64*8*k
		switch {
		case w.symbols-r <= 1<<k:
			best = min(best, size+1<<k)
		case k > 0:
			best = min(best, size+1<<k-1+fewest(w, l+1, r+1<<k-1))
		}
	}
	return best
}

// TestNoAllocations: warm encoders and decoders do not allocate. Pools, which
// Zstandard has, forget things at random under the race detector.
func TestNoAllocations(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	text := bytes.Repeat([]byte("tiles of text, "), 1000)[:12000]
	out := make([]byte, 0, 4*maxElems)
	for _, elem := range []Elem{Bytes, BF16, F16, F32} {
		for _, src := range [][]byte{text, make([]byte, 4000), gaussian(5000, elem), noisy(3000, elem)} {
			for _, level := range []Level{Fast, None, Small} {
				dst, wide := make([]byte, len(src)), make([]float32, len(src)/elem.size())
				var id ID
				var b []byte
				run := func() {
					b, id = e.Encode(out, src, elem, level)
					if d.Decode(dst, b, elem, id) != nil || elem != Bytes && d.Float32s(wide, b, elem, id) != nil {
						t.Fatal("not decoded")
					}
				}
				run()
				if raceEnabled && id == Zstd {
					continue
				}
				require.Zero(t, testing.AllocsPerRun(10, run), "%v of %d bytes, %v", elem, len(src), level)
			}
		}
	}
}

// TestUnaligned: source and destination may begin anywhere.
func TestUnaligned(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		e, d := NewEncoder(), NewDecoder()
		for _, elem := range floats {
			want := gaussian(1000, elem)
			for off := range 9 {
				src := append(tile.NewBuffer(off), want...)[off:]
				out, id := e.Encode(make([]byte, off), src, elem, Fast)
				dst := tile.NewBuffer(off + len(src))[off:]
				require.NoError(t, d.Decode(dst, out[off:], elem, id))
				require.Equal(t, want, dst)
			}
		}
	})
}

func TestNames(t *testing.T) {
	require.Equal(t, "raw constant cascade zstd ID(4)", fmt.Sprint(Raw, Constant, Cascade, Zstd, ID(4)))
	require.Equal(t, "bytes BF16 F16 F32 Elem(9)", fmt.Sprint(Bytes, BF16, F16, F32, Elem(9)))
	require.Equal(t, []string{"fast", "none", "small"}, Levels())
	for _, name := range Levels() {
		l, err := ParseLevel(name)
		require.NoError(t, err)
		require.Equal(t, name, l.String())
	}
	_, err := ParseLevel("huge")
	require.ErrorContains(t, err, "huge")
}

// TestSameBytes: stored bytes and values do not depend on earlier tiles.
func TestSameBytes(t *testing.T) {
	all := cases(t)
	e, d := NewEncoder(), NewDecoder()
	for i := len(all) - 1; i >= 0; i -= 3 {
		c := all[i]
		id, used := roundTrip(t, e, d, c.src, c.elem, Fast)
		fresh, freshID := NewEncoder().Encode(nil, c.src, c.elem, Fast)
		require.Equal(t, id, freshID)
		require.True(t, bytes.Equal(used, fresh), "%s, %v", c.name, c.elem)
		dst := make([]byte, len(c.src))
		require.NoError(t, NewDecoder().Decode(dst, fresh, c.elem, id))
		require.True(t, bytes.Equal(c.src, dst))
	}
}
