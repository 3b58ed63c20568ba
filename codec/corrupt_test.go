package codec

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/guard"
	"github.com/stretchr/testify/require"
)

// A cage decodes with the stored bytes and the destination against pages that
// cannot be touched, at their end or at their start.
type cage struct {
	d        *Decoder
	src, dst []byte
}

func newCage(t testing.TB) *cage {
	return &cage{NewDecoder(), guard.New(t, 5*maxElems), guard.New(t, 4*maxElems)}
}

// at returns n bytes at the end of mem, or at its start.
func at(mem []byte, n int, end bool) []byte {
	if end {
		return mem[len(mem)-n:]
	}
	return mem[:n:n]
}

// decode decodes to size bytes and checks that those around them stay.
func (c *cage) decode(t testing.TB, src []byte, size int, elem Elem, id ID, end bool) ([]byte, error) {
	t.Helper()
	in, dst := at(c.src, len(src), end), at(c.dst, size, end)
	copy(in, src)
	near := c.dst[:min(64, len(c.dst)-size)]
	if !end {
		near = c.dst[size:min(len(c.dst), size+64)]
	}
	for i := range near {
		near[i] = 0xa5
	}
	err := c.d.Decode(dst, in, elem, id)
	require.Equal(t, len(near), bytes.Count(near, []byte{0xa5}), "bytes around the destination")
	require.True(t, bytes.Equal(src, in), "the source has changed")
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	return dst, err
}

// smallTiles returns stored tiles of every kind, with several levels, with a
// last group of few codes, and with planes of every sort.
func smallTiles(t testing.TB) (tiles []storedTile) {
	e := NewEncoder()
	add := func(src []byte, elem Elem, level Level) {
		out, id := e.Encode(nil, src, elem, level)
		tiles = append(tiles, storedTile{out, elem, id, len(src)})
	}
	for _, elem := range floats {
		for _, c := range append(shapes(70, elem), shapes(150, elem)[1]) {
			add(c.src, elem, Fast)
		}
		h := counts{}
		copy(h.counts[:], []int{100, 50, 25, 12, 6, 3, 1})
		add(h.tile(elem), elem, Fast)
	}
	add(exampleTile(), BF16, Fast)
	add(bytes.Repeat([]byte("text that comes again; "), 20), Bytes, Fast)
	return tiles
}

type storedTile struct {
	out  []byte
	elem Elem
	id   ID
	size int
}

// others returns values that a byte may become: every other one, or those with
// one bit changed and a few more.
func others(was byte, all bool) (bs []byte) {
	for x := 1; x < 256; x++ {
		if all || x&(x-1) == 0 || x == 255 || byte(x) == was {
			bs = append(bs, was^byte(x))
		}
	}
	return bs
}

// TestCorrupt changes every byte of small tiles, those at the start to every
// value, and cuts and extends them. The decoder gives an error or some values, the same answer as
// the decoder that is written from TILES.md, and touches nothing else.
func TestCorrupt(t *testing.T) {
	tiers := cpu.Tiers()
	if testing.Short() {
		tiers = tiers[len(tiers)-1:]
	}
	for _, tier := range tiers {
		limit(t, tier)
		c := newCage(t)
		for _, s := range smallTiles(t) {
			c.truncate(t, s)
			for i, was := range s.out {
				for _, b := range others(was, i < 48 && !testing.Short()) {
					s.out[i] = b
					c.compare(t, s, i%2 == 0)
				}
				s.out[i] = was
			}
			c.compare(t, s, true)
		}
	}
}

// truncate decodes all that is shorter, and some that is longer.
func (c *cage) truncate(t *testing.T, s storedTile) {
	for n := range s.out {
		_, err := c.decode(t, s.out[:n], s.size, s.elem, s.id, true)
		if err == nil {
			require.Equal(t, Constant, s.id, "%d of %d bytes of %v", n, len(s.out), s.elem)
			require.Contains(t, []int{1, 2, 4, 8}, n)
		}
	}
	_, err := c.decode(t, append(bytes.Clone(s.out), 0), s.size, s.elem, s.id, true)
	if s.id != Constant {
		require.Error(t, err)
	}
	for _, size := range []int{0, 1, s.size - s.elem.size(), s.size + s.elem.size(), 2 * s.size, 4 * maxElems} {
		s.size = size
		c.compare(t, s, true)
	}
}

// compare holds the decoder to the plain one.
func (c *cage) compare(t testing.TB, s storedTile, end bool) {
	got, err := c.decode(t, s.out, s.size, s.elem, s.id, end)
	if s.id == Cascade {
		want, wantErr := specCascade(s.out, s.elem, s.size)
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%v, %d bytes: got %v, by the document %v\n%s", s.elem, s.size, err, wantErr, hex.Dump(s.out))
		}
	}
	if s.elem != Bytes && s.size%s.elem.size() == 0 {
		wide := make([]float32, s.size/s.elem.size())
		errWide := c.d.Float32s(wide, s.out, s.elem, s.id)
		require.Equal(t, err == nil, errWide == nil)
	}
}

// TestForged: the rules of TILES.md, broken one at a time.
func TestForged(t *testing.T) {
	d := NewDecoder()
	example, _ := NewEncoder().Encode(nil, exampleTile(), BF16, Fast)
	dst := make([]byte, 200)
	require.NoError(t, d.Decode(dst, example, BF16, Cascade))
	for _, c := range []struct {
		at   int
		b    byte
		want string
	}{
		{0, 7, "7 levels in plane 0"},
		{1, 7, "7 levels in plane 1"},
		{2, 1, "1 levels in plane 2"},
		{3, 255, "255 levels in plane 3"},
		{1, 3, "plane 1, level 3: width 126"},
		{4, 5, "width 5"},
		{4, 0, "width 0 with 50 escapes"},
		{5, 1, "width 1"},
		{6, 100, "100 escapes of 100 symbols"},
		{6, 0, "0 escapes of 100"},
		{7, 1, "escapes of 100 symbols"},
		{8, 3, "154 bytes, want"},
		{10, 50, "50 escapes of 50 symbols"},
		{28, 0x1a, "codes beyond the last"},
		{31, 0x80, "codes beyond the last"},
		{16, 0xa8, "49 escapes, want 50"},
		{16, 0xab, "51 escapes, want 50"},
		{32, 0xaa, "7 escapes, want 6"},
	} {
		bad := bytes.Clone(example)
		bad[c.at] = c.b
		err := d.Decode(dst, bad, BF16, Cascade)
		require.ErrorIs(t, err, ErrCorrupt, "byte %d", c.at)
		require.ErrorContains(t, err, c.want, "byte %d", c.at)
	}
	for _, c := range []struct {
		src  []byte
		dst  int
		elem Elem
		id   ID
		want string
	}{
		{nil, 2, BF16, Cascade, "0 bytes"},
		{[]byte{0, 1, 0, 0, 4, 0}, 2, BF16, Cascade, "6 bytes"},
		{make([]byte, 4), 0, BF16, Cascade, "no tile of 0 bytes of BF16"},
		{make([]byte, 7), 3, BF16, Cascade, "no tile of 3 bytes of BF16"},
		{make([]byte, 4), 4, Bytes, Cascade, "no tile of 4 bytes of bytes"},
		{make([]byte, 4+2*maxElems+2), 2*maxElems + 2, BF16, Cascade, "no tile"},
		{make([]byte, 3), 4, BF16, Raw, "3 bytes, want 4"},
		{make([]byte, 3), 6, Bytes, Constant, "pattern of 3 bytes"},
		{nil, 6, Bytes, Constant, "pattern of 0 bytes"},
		{make([]byte, 4), 6, Bytes, Constant, "in a tile of 6"},
		{make([]byte, 4), 4, Bytes, 4, "unknown kind 4"},
		{make([]byte, 4), 4, Bytes, Zstd, "zstd"},
		{nil, 4, Bytes, Zstd, "zstd"},
	} {
		err := d.Decode(make([]byte, c.dst), c.src, c.elem, c.id)
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, c.want)
	}
}

// TestZstdSizes: a frame that says or holds another size is refused, and gets
// no memory.
func TestZstdSizes(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	out, id := e.Encode(nil, bytes.Repeat([]byte("a longer text, "), 20000), Bytes, Fast)
	require.Equal(t, Zstd, id)
	for _, size := range []int{0, 1, 299999, 300001} {
		mem := bytes.Repeat([]byte{0xa5}, size+100)
		require.ErrorIs(t, d.Decode(mem[:size], out, Bytes, Zstd), ErrCorrupt)
		require.Equal(t, 100, bytes.Count(mem[size:], []byte{0xa5}))
	}
	dst := make([]byte, 300000)
	require.NoError(t, d.Decode(dst, out, Bytes, Zstd))
	require.Less(t, testing.AllocsPerRun(5, func() { d.Decode(dst[:100], out, Bytes, Zstd) }), 20.0)
}

// TestGuard decodes and encodes tiles of every length against guard pages.
func TestGuard(t *testing.T) {
	if !guard.Supported {
		t.Skip("no guard pages here")
	}
	eachTier(t, func(t *testing.T) {
		c, e := newCage(t), NewEncoder()
		for _, elem := range floats {
			for _, n := range lengths() {
				for _, shape := range shapes(n, elem)[1:] {
					for _, end := range []bool{true, false} {
						src := at(c.dst, len(shape.src), end)
						copy(src, shape.src)
						out, id := e.Encode(at(c.src, 5*maxElems, false)[:0], src, elem, Fast)
						out = bytes.Clone(out)
						got, err := c.decode(t, out, len(shape.src), elem, id, end)
						require.NoError(t, err)
						require.True(t, bytes.Equal(shape.src, got), "%s, %v", shape.name, elem)
					}
				}
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range smallTiles(f) {
		f.Add(s.out, uint8(s.elem), uint8(s.id), s.size)
	}
	f.Fuzz(func(t *testing.T, out []byte, elem, id uint8, size int) {
		if size < 0 || size > 4*maxElems || len(out) > 5*maxElems || elem > uint8(F32) {
			return
		}
		for _, tier := range cpu.Tiers() {
			limit(t, tier)
			newCage(t).compare(t, storedTile{out, Elem(elem), ID(id), size}, size%2 == 0)
		}
	})
}

// FuzzEncode: whatever is encoded comes back.
func FuzzEncode(f *testing.F) {
	for _, elem := range floats {
		for _, c := range shapes(150, elem) {
			f.Add(c.src, uint8(elem), uint8(Fast))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, elem, level uint8) {
		elem, level = elem%4, level%3
		id, out := roundTrip(t, NewEncoder(), NewDecoder(), src, Elem(elem), Level(level))
		if id == Cascade {
			got, err := specCascade(out, Elem(elem), len(src))
			require.NoError(t, err, fmt.Sprint(Elem(elem)))
			require.Equal(t, src, got)
		}
	})
}
