package format_test

// A second reader, written from SPEC.md and TILES.md alone. It uses nothing of
// the package and serves also to take files apart and seal them again.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/tensor"
)

type miniTensor struct {
	name    string
	code    byte
	dims    []uint64
	size    uint64
	offset  uint64
	foreign string
	geo     [3]uint64
	hash    []byte
	data    []byte
}

type miniSection struct {
	name   string
	flags  byte
	length uint64
	stored []byte
}

type miniFile struct {
	index    uint64
	align    uint32
	features []string
	sections []miniSection
	tensors  []miniTensor
}

var errMini = errors.New("refused")

// A take reads fields from the front and panics at the end of them.
type take struct{ p []byte }

func (t *take) n(n uint64) []byte {
	if n > uint64(len(t.p)) {
		panic(errMini)
	}
	b := t.p[:n]
	t.p = t.p[n:]
	return b
}
func (t *take) u8() byte     { return t.n(1)[0] }
func (t *take) u16() uint16  { return binary.LittleEndian.Uint16(t.n(2)) }
func (t *take) u32() uint32  { return binary.LittleEndian.Uint32(t.n(4)) }
func (t *take) u64() uint64  { return binary.LittleEndian.Uint64(t.n(8)) }
func (t *take) str() string  { return string(t.n(uint64(t.u32()))) }
func must(ok bool)           { must1(ok, nil) }
func up(n, to uint64) uint64 { return (n + to - 1) / to * to }
func crc32c(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }
func must1(ok bool, e error) {
	if !ok || e != nil {
		panic(errMini)
	}
}

func readMini(p []byte) (f *miniFile, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	must(len(p) >= 128)
	head, foot := p[:64], p[len(p)-64:]
	must(string(head[:10]) == "\x89Demi\r\n\x1a\n\x00" && binary.LittleEndian.Uint16(head[10:]) == 1)
	must(crc32c(head[:60]) == binary.LittleEndian.Uint32(head[60:]))
	must(string(foot[56:]) == "\r\n\x1a\nimeD" && crc32c(foot[:52]) == binary.LittleEndian.Uint32(foot[52:]))
	t := &take{foot}
	f = &miniFile{index: t.u64()}
	length := t.u64()
	must(f.index%64 == 0 && f.index+length == uint64(len(p)-64))
	index := p[f.index : len(p)-64]
	sum := blake3.Sum256(index)
	must(bytes.Equal(sum[:], t.n(32)) && t.u16() == 1)
	f.readIndex(index)
	f.readTensors(p)
	return f, nil
}

func (f *miniFile) readIndex(index []byte) {
	t := &take{index}
	f.align = t.u32()
	for n := t.u32(); n > 0; n-- {
		must(t.u8() == 0)
		f.features = append(f.features, t.str())
	}
	for n := t.u32(); n > 0; n-- {
		s := miniSection{name: t.str(), flags: t.u8()}
		stored := t.u64()
		s.length = t.u64()
		s.stored = t.n(stored)
		f.sections = append(f.sections, s)
	}
	must(len(t.p) == 0)
}

// section returns the bytes of a section, decompressed.
func (f *miniFile) section(name string) *take {
	for _, s := range f.sections {
		if s.name != name {
			continue
		}
		if s.flags&2 != 0 {
			return &take{unzstd(s.stored, s.length)}
		}
		return &take{s.stored}
	}
	return nil
}

func unzstd(p []byte, n uint64) []byte {
	r, err := zstd.NewReader(nil)
	must1(true, err)
	defer r.Close()
	out, err := r.DecodeAll(p, nil)
	must1(uint64(len(out)) == n, err)
	return out
}

var miniBits = map[byte]uint64{1: 64, 2: 32, 3: 16, 4: 16, 5: 8, 6: 8, 7: 8, 8: 8, 9: 8, 10: 6, 11: 6, 12: 4,
	13: 64, 14: 32, 15: 16, 16: 8, 17: 64, 18: 32, 19: 16, 20: 8, 21: 8, 22: 64, 255: 0}

var miniNames = map[byte]string{1: "F64", 2: "F32", 3: "F16", 4: "BF16", 5: "F8_E4M3", 6: "F8_E5M2", 7: "F8_E4M3FNUZ", 8: "F8_E5M2FNUZ",
	9: "F8_E8M0", 10: "F6_E2M3", 11: "F6_E3M2", 12: "F4", 13: "I64", 14: "I32", 15: "I16", 16: "I8",
	17: "U64", 18: "U32", 19: "U16", 20: "U8", 21: "BOOL", 22: "C64"}

func (f *miniFile) readTensors(p []byte) {
	t, blocks := f.section("tensors"), f.section("blocks")
	end := uint64(64)
	for n := t.u32(); n > 0; n-- {
		x := miniTensor{name: t.str(), code: t.u8()}
		flags := t.u8()
		for rank := t.u16(); rank > 0; rank-- {
			x.dims = append(x.dims, t.u64())
		}
		x.size, x.offset = t.u64(), t.u64()
		if flags&1 != 0 {
			x.foreign, x.geo = t.str(), [3]uint64{uint64(t.u32()), t.u64(), t.u64()}
		}
		if flags&2 != 0 {
			x.hash = t.n(32)
		}
		must(x.offset == up(end, uint64(f.align)))
		end = x.offset
		whole := uint64(131072)
		if miniBits[x.code] > 16 {
			whole = 65536 * miniBits[x.code] / 8
		}
		for left := x.size; left > 0; left -= min(left, whole) {
			at := up(end, 64)
			v, crc := blocks.u32(), blocks.u32()
			id := byte(v >> 24)
			end = at + uint64(v&0xffffff)
			stored := p[at:end]
			must(crc32c(append(bytes.Clone(stored), id)) == crc)
			x.data = append(x.data, unblock(stored, int(min(left, whole)), id, x.code)...)
		}
		must(x.hash == nil || bytes.Equal(x.hash, x.valueHash()))
		f.tensors = append(f.tensors, x)
	}
	must(len(t.p) == 0 && len(blocks.p) == 0)
}

func (x *miniTensor) valueHash() []byte {
	name := miniNames[x.code]
	if x.code == 255 {
		if name = x.foreign; name == "" {
			name = "OPAQUE"
		}
	}
	var b []byte
	n := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	b = append(b, "demi value hash 1\n"...)
	n(uint64(len(name)))
	b = append(b, name...)
	n(uint64(len(x.dims)))
	for _, d := range x.dims {
		n(d)
	}
	n(x.size)
	for p := x.data; len(p) > 0; p = p[min(len(p), 131072):] {
		leaf := blake3.Sum256(p[:min(len(p), 131072)])
		b = append(b, leaf[:]...)
	}
	sum := blake3.Sum256(b)
	return sum[:]
}

func unblock(p []byte, size int, id, code byte) []byte {
	switch id {
	case 0:
		must(len(p) == size)
		return p
	case 1:
		return bytes.Repeat(p, size/len(p))
	case 2:
		return uncascade(p, size, code)
	case 3:
		return unzstd(p, uint64(size))
	}
	panic(errMini)
}

type miniLevel struct {
	width, escapes int
	table, words   []byte
}

func uncascade(p []byte, size int, code byte) []byte {
	planes := map[byte]int{4: 2, 3: 3, 2: 4}[code]
	width := map[byte]int{4: 2, 3: 2, 2: 4}[code]
	n := size / width
	t := &take{p}
	counts := t.n(4)
	levels := make([][]miniLevel, planes)
	for i := range levels {
		for range counts[i] {
			l := miniLevel{width: int(t.u8())}
			t.u8()
			l.escapes = int(t.u16())
			levels[i] = append(levels[i], l)
		}
	}
	each := func(do func(l *miniLevel, codes int)) {
		for i := range levels {
			codes := n
			for j := range levels[i] {
				do(&levels[i][j], codes)
				codes = levels[i][j].escapes
			}
		}
	}
	each(func(l *miniLevel, _ int) { l.table = t.n(uint64(1<<l.width - min(l.escapes, 1))) })
	t.n(uint64(-(len(p) - len(t.p)) & 7))
	each(func(l *miniLevel, codes int) { l.words = t.n(uint64((codes + 63) / 64 * 8 * l.width)) })
	parts := make([][]byte, planes)
	for i := range levels {
		left := n
		if k := len(levels[i]); k > 0 {
			left = levels[i][k-1].escapes
		}
		parts[i] = t.n(uint64(left))
	}
	must(len(t.p) == 0)
	for i, list := range levels {
		for j := len(list) - 1; j >= 0; j-- {
			codes := n
			if j > 0 {
				codes = list[j-1].escapes
			}
			parts[i] = list[j].symbols(codes, parts[i])
		}
	}
	return together(parts, n, code)
}

func (l *miniLevel) symbols(codes int, escapes []byte) (out []byte) {
	for i := range codes {
		c := 0
		for q := range l.width {
			word := l.words[(i/64*l.width+q)*8:]
			c |= int(word[i%64/8]>>(i%8)&1) << q
		}
		if c < len(l.table) {
			out = append(out, l.table[c])
		} else {
			out = append(out, escapes[0])
			escapes = escapes[1:]
		}
	}
	return out
}

func together(parts [][]byte, n int, code byte) (out []byte) {
	for i := range n {
		a := uint32(parts[0][i])
		switch code {
		case 4:
			e := uint32(parts[1][i])
			out = binary.LittleEndian.AppendUint16(out, uint16(a&0x80<<8|e<<7|a&0x7f))
		case 3:
			b, e := uint32(parts[1][i]), uint32(parts[2][i])
			out = binary.LittleEndian.AppendUint16(out, uint16(b&4<<13|e&31<<10|b&3<<8|a))
		case 2:
			b, c, e := uint32(parts[1][i]), uint32(parts[2][i]), uint32(parts[3][i])
			out = binary.LittleEndian.AppendUint32(out, a&0x80<<24|e<<23|a&0x7f<<16|b<<8|c)
		}
	}
	return out
}

// seal makes a file of the bytes before an index and the index.
func seal(before, index []byte) []byte {
	var foot []byte
	sum := blake3.Sum256(index)
	foot = binary.LittleEndian.AppendUint64(foot, uint64(len(before)))
	foot = binary.LittleEndian.AppendUint64(foot, uint64(len(index)))
	foot = append(append(foot, sum[:]...), 1, 0, 0, 0)
	foot = binary.LittleEndian.AppendUint32(foot, crc32c(foot))
	return append(append(append(bytes.Clone(before), index...), foot...), "\r\n\x1a\nimeD"...)
}

// appendIndex is the index of f as it is, with the required features given.
func (f *miniFile) appendIndex(required ...string) (p []byte) {
	le := binary.LittleEndian
	p = le.AppendUint32(p, f.align)
	p = le.AppendUint32(p, uint32(len(f.features)+len(required)))
	for _, s := range f.features {
		p = append(le.AppendUint32(append(p, 0), uint32(len(s))), s...)
	}
	for _, s := range required {
		p = append(le.AppendUint32(append(p, 1), uint32(len(s))), s...)
	}
	p = le.AppendUint32(p, uint32(len(f.sections)))
	for _, s := range f.sections {
		p = append(append(le.AppendUint32(p, uint32(len(s.name))), s.name...), s.flags)
		p = le.AppendUint64(le.AppendUint64(p, uint64(len(s.stored))), s.length)
		p = append(p, s.stored...)
	}
	return p
}

// requireMini checks that the second reader sees what the model says.
func (m *model) requireMini(t testing.TB, p []byte) {
	t.Helper()
	f, err := readMini(p)
	require.NoError(t, err)
	require.Equal(t, len(m.infos), len(f.tensors))
	for i, in := range m.infos {
		x := &f.tensors[i]
		require.Equal(t, in.Name, x.name)
		require.Equal(t, in.Size, int64(x.size))
		require.True(t, bytes.Equal(m.data[i], x.data), in.Name)
		require.Equal(t, in.Foreign.Name, x.foreign)
		if in.DType != tensor.Opaque {
			require.Equal(t, in.DType.String(), miniNames[x.code])
		}
		require.Equal(t, len(in.Shape), len(x.dims))
		for k, dim := range in.Shape {
			require.Equal(t, uint64(dim), x.dims[k])
		}
	}
}

func TestIndependentReader(t *testing.T) {
	m := allTypes(tile.Elems + 24)
	for _, level := range levels {
		m.requireMini(t, m.bytes(t, &writeOptions{Level: level, Align: 256}))
	}
}
