package codec

import (
	"encoding/binary"
	"math"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
)

// split takes n elements apart into e.planes.
func (e *Encoder) split(src []byte, elem Elem, n int) {
	p := &e.planes
	switch elem {
	case BF16:
		i := splitBF16Arch(p[0][:n], p[1][:n], src)
		e.splitHalves(src, i, n, func(half []uint16, i, j int) { kernels.SplitBF16(p[1][i:j], p[0][i:j], half) })
	case F16:
		i := splitF16Arch(p[0][:n], p[1][:n], p[2][:n], src)
		e.splitHalves(src, i, n, func(half []uint16, i, j int) { kernels.SplitF16(p[2][i:j], p[0][i:j], p[1][i:j], half) })
	case F32:
		i := splitF32Arch(p[0][:n], p[1][:n], p[2][:n], p[3][:n], src)
		splitF32Generic(p[0][i:n], p[1][i:n], p[2][i:n], p[3][i:n], src[4*i:])
	}
}

// splitHalves calls f for the elements from i to below n, in pieces, as
// numbers.
func (e *Encoder) splitHalves(src []byte, i, n int, f func(half []uint16, i, j int)) {
	for ; i < n; i += chunk {
		j := min(i+chunk, n)
		half := e.half[:2*(j-i)]
		copy(half, src[2*i:])
		tile.Swap(half, 16)
		f(tile.Uint16s(half), i, j)
	}
}

func splitF32Generic(high, mid, low, exp, src []byte) {
	n := len(src) / 4
	high, mid, low, exp = high[:n], mid[:n], low[:n], exp[:n]
	for i := range n {
		x := binary.LittleEndian.Uint32(src[4*i:])
		high[i] = byte(x>>24&0x80 | x>>16&0x7f)
		mid[i] = byte(x >> 8)
		low[i] = byte(x)
		exp[i] = byte(x >> 23)
	}
}

// A joiner puts planes together, a chunk at a time.
type joiner struct {
	exp   [chunk + slack]byte
	zeros [chunk]byte
	half  []byte // a chunk of values of 16 bits, aligned
}

// join writes the elements of all planes to dst.
func (s *joiner) join(dst []byte, parts *[maxPlanes][]byte, e *stream, elem Elem) {
	switch elem {
	case BF16:
		for i := joinBF16Arch(dst, parts[0], e); i < len(parts[0]); i += chunk {
			copy(dst[2*i:], s.swapped(s.joinBF16(parts, e, i)))
		}
	case F16:
		for i := joinF16Arch(dst, parts[0], parts[1], e); i < len(parts[0]); i += chunk {
			copy(dst[2*i:], s.swapped(s.joinF16(parts, e, i)))
		}
	case F32:
		for i := joinF32Arch(dst, parts[0], parts[1], parts[2], e); i < len(parts[0]); i += chunk {
			high, mid, low, exp := s.quarters(parts, e, i)
			joinF32Generic(dst[4*i:4*(i+len(exp))], high, mid, low, exp)
		}
	}
}

// joinWide writes the values of all planes to dst.
func (s *joiner) joinWide(dst []float32, parts *[maxPlanes][]byte, e *stream, elem Elem) {
	switch elem {
	case BF16:
		for i := widenBF16Arch(dst, parts[0], e); i < len(dst); i += chunk {
			half := s.joinBF16(parts, e, i)
			kernels.BF16ToF32(dst[i:i+len(half)], half)
		}
	case F16:
		for i := widenF16Arch(dst, parts[0], parts[1], e); i < len(dst); i += chunk {
			half := s.joinF16(parts, e, i)
			kernels.F16ToF32(dst[i:i+len(half)], half)
		}
	case F32:
		for i := widenF32Arch(dst, parts[0], parts[1], parts[2], e); i < len(dst); i += chunk {
			high, mid, low, exp := s.quarters(parts, e, i)
			widenF32Generic(dst[i:i+len(exp)], high, mid, low, exp)
		}
	}
}

// joinBF16 returns a chunk of values from element i on, in s.half.
func (s *joiner) joinBF16(parts *[maxPlanes][]byte, e *stream, i int) []uint16 {
	low := s.piece(parts, 0, i)
	half := tile.Uint16s(s.half[:2*len(low)])
	kernels.JoinBF16(half, e.next(s.exp[:], len(low)), low)
	return half
}

// joinF16 is the same for F16.
func (s *joiner) joinF16(parts *[maxPlanes][]byte, e *stream, i int) []uint16 {
	low, high := s.piece(parts, 0, i), s.piece(parts, 1, i)
	half := tile.Uint16s(s.half[:2*len(low)])
	kernels.JoinF16(half, e.next(s.exp[:], len(low)), low, high)
	return half
}

// quarters returns a chunk of the planes of F32 from element i on.
func (s *joiner) quarters(parts *[maxPlanes][]byte, e *stream, i int) (high, mid, low, exp []byte) {
	high, mid, low = s.piece(parts, 0, i), s.piece(parts, 1, i), s.piece(parts, 2, i)
	return high, mid, low, e.next(s.exp[:], len(high))
}

// piece returns a chunk of a plane from element i on. A plane of zeros is nil,
// but for the first.
func (s *joiner) piece(parts *[maxPlanes][]byte, plane, i int) []byte {
	j := min(i+chunk, len(parts[0]))
	if parts[plane] == nil {
		return s.zeros[:j-i]
	}
	return parts[plane][i:j]
}

// swapped returns the stored bytes of half, which is the start of s.half.
func (s *joiner) swapped(half []uint16) []byte {
	b := s.half[:2*len(half)]
	tile.Swap(b, 16)
	return b
}

// widen writes the values of stored bytes to dst.
func (s *joiner) widen(dst []float32, src []byte, elem Elem) {
	if elem == F32 {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
		return
	}
	for i := 0; i < len(dst); i += chunk {
		n := min(chunk, len(dst)-i)
		b := s.half[:2*n]
		copy(b, src[2*i:])
		tile.Swap(b, 16)
		if elem == BF16 {
			kernels.BF16ToF32(dst[i:i+n], tile.Uint16s(b))
		} else {
			kernels.F16ToF32(dst[i:i+n], tile.Uint16s(b))
		}
	}
}

func joinF32Generic(dst, high, mid, low, exp []byte) {
	n := len(dst) / 4
	high, mid, low, exp = high[:n], mid[:n], low[:n], exp[:n]
	for i := range n {
		binary.LittleEndian.PutUint32(dst[4*i:], bitsF32(high[i], mid[i], low[i], exp[i]))
	}
}

func widenF32Generic(dst []float32, high, mid, low, exp []byte) {
	n := len(dst)
	high, mid, low, exp = high[:n], mid[:n], low[:n], exp[:n]
	for i := range n {
		dst[i] = math.Float32frombits(bitsF32(high[i], mid[i], low[i], exp[i]))
	}
}

func bitsF32(high, mid, low, exp byte) uint32 {
	h := uint32(high)
	return h&0x80<<24 | uint32(exp)<<23 | h&0x7f<<16 | uint32(mid)<<8 | uint32(low)
}
