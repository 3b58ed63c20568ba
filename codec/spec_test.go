package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// errSpec is what specCascade returns for a tile that breaks a rule.
var errSpec = errors.New("breaks a rule")

// A specLevel is a level as TILES.md describes it.
type specLevel struct {
	width, n, escapes int
	table             []byte
	codes             []byte
}

// A reader cuts bytes off and notes if there are too few.
type reader struct {
	b     []byte
	at    int
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.b)-r.at < n {
		r.short = true
		return make([]byte, n)
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// specCascade decodes a cascade tile by the letter of TILES.md, slowly. It
// shares no code with the decoder.
func specCascade(src []byte, elem Elem, size int) ([]byte, error) {
	width, planes := map[Elem]int{BF16: 2, F16: 2, F32: 4}[elem], map[Elem]int{BF16: 2, F16: 3, F32: 4}[elem]
	if width == 0 || size%width != 0 || size == 0 || size/width > 65536 {
		return nil, errSpec
	}
	n, r := size/width, &reader{b: src}
	levels, err := specLevels(r, planes, n)
	if err != nil {
		return nil, err
	}
	var raws [4][]byte
	for p := range planes {
		left := n
		if k := len(levels[p]); k > 0 {
			left = levels[p][k-1].escapes
		}
		raws[p] = r.take(left)
	}
	if r.short || r.at != len(src) {
		return nil, errSpec
	}
	var all [4][]byte
	for p := range planes {
		if all[p], err = specPlane(levels[p], raws[p]); err != nil {
			return nil, err
		}
	}
	return specJoin(all, elem, n), nil
}

// specLevels reads parts 1 to 4.
func specLevels(r *reader, planes, n int) (levels [4][]specLevel, err error) {
	counts := r.take(4)
	for p, count := range counts {
		if count > 6 || count > 0 && p >= planes {
			return levels, errSpec
		}
		left := n
		for i := range int(count) {
			b := r.take(4)
			l := specLevel{width: int(b[0]), n: left, escapes: int(b[2]) | int(b[3])<<8}
			closed := l.escapes == 0
			switch {
			case b[1] != 0 || l.width > 4 || l.width == 0 && !closed || l.escapes >= l.n || closed && i < int(count)-1:
				return levels, errSpec
			}
			left = l.escapes
			levels[p] = append(levels[p], l)
		}
	}
	specEach(&levels, func(l *specLevel) {
		l.table = r.take(1 << l.width)
		if l.escapes > 0 {
			r.at--
			l.table = l.table[:1<<l.width-1]
		}
	})
	for r.at%8 != 0 && !r.short {
		if r.take(1)[0] != 0 {
			return levels, errSpec
		}
	}
	specEach(&levels, func(l *specLevel) { l.codes = r.take((l.n + 63) / 64 * l.width * 8) })
	return levels, nil
}

func specEach(levels *[4][]specLevel, f func(l *specLevel)) {
	for p := range levels {
		for i := range levels[p] {
			f(&levels[p][i])
		}
	}
}

// specPlane decodes a plane from its last level to its first.
func specPlane(levels []specLevel, below []byte) ([]byte, error) {
	for i := len(levels) - 1; i >= 0; i-- {
		l := levels[i]
		escapes := below
		var symbols []byte
		for j := range (l.n + 63) / 64 * 64 {
			code := l.code(j)
			switch {
			case j >= l.n && code != 0:
				return nil, errSpec
			case j >= l.n:
			case code < len(l.table):
				symbols = append(symbols, l.table[code])
			case len(escapes) == 0:
				return nil, errSpec
			default:
				symbols = append(symbols, escapes[0])
				escapes = escapes[1:]
			}
		}
		if len(escapes) != 0 {
			return nil, errSpec
		}
		below = symbols
	}
	return below, nil
}

// code returns code number j of a level.
func (l *specLevel) code(j int) (code int) {
	for q := range l.width {
		bit := (j/64*l.width+q)*64 + j%64
		code |= int(l.codes[bit/8]>>(bit%8)&1) << q
	}
	return code
}

func specJoin(p [4][]byte, elem Elem, n int) (dst []byte) {
	for i := range n {
		switch a := uint32(p[0][i]); elem {
		case BF16:
			dst = binary.LittleEndian.AppendUint16(dst, uint16(a&0x80<<8|uint32(p[1][i])<<7|a&0x7f))
		case F16:
			b := uint32(p[1][i])
			dst = binary.LittleEndian.AppendUint16(dst, uint16(b&4<<13|uint32(p[2][i]&0x1f)<<10|b&3<<8|a))
		case F32:
			dst = binary.LittleEndian.AppendUint32(dst, a&0x80<<24|uint32(p[3][i])<<23|a&0x7f<<16|uint32(p[1][i])<<8|uint32(p[2][i]))
		}
	}
	return dst
}

// exampleTile is the tile of the example in TILES.md.
func exampleTile() (src []byte) {
	for i := range 100 {
		exp := 0x79
		for e, rule := range map[int][2]int{0x7e: {2, 0}, 0x7d: {4, 1}, 0x7c: {8, 3}, 0x7b: {16, 7}, 0x7a: {32, 15}} {
			if i%rule[0] == rule[1] {
				exp = e
			}
		}
		src = binary.LittleEndian.AppendUint16(src, uint16(exp<<7|i))
	}
	return src
}

// TestExample: the bytes in TILES.md are those of the encoder.
func TestExample(t *testing.T) {
	doc, err := os.ReadFile("TILES.md")
	require.NoError(t, err)
	var want []byte
	for _, line := range regexp.MustCompile(`(?m)^    [0-9a-f]{8}  (.*)$`).FindAllSubmatch(doc, -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(string(line[1]), " ", ""))
		require.NoError(t, err)
		want = append(want, b...)
	}
	src := exampleTile()
	out, id := NewEncoder().Encode(nil, src, BF16, Fast)
	require.Equal(t, Cascade, id)
	require.Equal(t, want, out)
	require.Contains(t, string(doc), fmt.Sprintf("begins with % x.", src[:10]))
	got, err := specCascade(out, BF16, len(src))
	require.NoError(t, err)
	require.Equal(t, src, got)
}

// TestSpec: a decoder written from TILES.md alone reads what the encoder
// writes.
func TestSpec(t *testing.T) {
	e := NewEncoder()
	cascades := 0
	for _, c := range cases(t) {
		out, id := e.Encode(nil, c.src, c.elem, Fast)
		if id != Cascade {
			continue
		}
		cascades++
		got, err := specCascade(out, c.elem, len(c.src))
		require.NoError(t, err, c.name)
		require.True(t, bytes.Equal(c.src, got), c.name)
	}
	require.Greater(t, cascades, 50)
}
