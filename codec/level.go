package codec

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// decodeLevel writes to dst the symbols of whole groups: len(dst) is a multiple
// of 64, and words has 8*width bytes for every 64 of it. table has the symbols
// by code. Where a code is all ones and open has a bit, the next of escapes
// stands instead; decodeLevel returns how many it took, at most len(dst).
// escapes has len(dst)+slack bytes at least. The slack bytes behind dst may be
// overwritten. width is not 0.
func decodeLevel(dst, words []byte, width int, open uint64, table *[16]byte, escapes []byte, s *spread) int {
	n, used := decodeLevelArch(dst, words, width, open, table, escapes)
	return used + decodeLevelGeneric(dst[n:], words[wordBytes(n, width):], width, open, table, escapes[used:], s)
}

func decodeLevelGeneric(dst, words []byte, width int, open uint64, table *[16]byte, escapes []byte, s *spread) (used int) {
	var t terms
	t.set(table, width)
	n := len(dst)
	dst = dst[:n+slack]
	for ; n > 0; n -= group {
		var w [maxWidth]uint64
		mask := open
		for q := range width {
			w[q&3] = binary.LittleEndian.Uint64(words[8*q:])
			mask &= w[q&3]
		}
		t.symbols((*[group]byte)(dst), &w, width, s)
		used += putEscapes((*[group + slack]byte)(dst), mask, escapes[used:])
		dst, words = dst[group:], words[8*width:]
	}
	return used
}

// putEscapes puts the next of escapes where mask has a bit and returns how
// many there were. It works by fours, for a loop that ends after any number is
// one that the processor cannot predict; those that are too many go to the
// first byte after the group.
func putEscapes(dst *[group + slack]byte, mask uint64, escapes []byte) int {
	n := bits.OnesCount64(mask)
	for i := 0; i < n; i += 4 {
		e := (*[4]byte)(escapes[i:])
		mask1 := mask & (mask - 1)
		mask2 := mask1 & (mask1 - 1)
		mask3 := mask2 & (mask2 - 1)
		dst[lowest(mask)&127] = e[0]
		dst[lowest(mask1)&127] = e[1]
		dst[lowest(mask2)&127] = e[2]
		dst[lowest(mask3)&127] = e[3]
		mask = mask3 & (mask3 - 1)
	}
	return n
}

// lowest returns the number of the lowest bit of mask that is set, or 64. It
// is bits.TrailingZeros64, which is slow on amd64 without BMI.
func lowest(mask uint64) int { return bits.OnesCount64((mask - 1) &^ mask) }

// A spread has, for every byte, its bits in the lowest bits of 8 bytes.
type spread [256]uint64

func (s *spread) init() {
	for b := range s {
		for i := range 8 {
			s[b] |= uint64(b>>i&1) << (8 * i)
		}
	}
}

// terms make symbols from codes, 8 at a time: the symbol is the exclusive or
// of terms[m] over all sets m of bits that are set in the code.
type terms [16]uint64

// set computes the terms of a table (the Möbius transform over the subsets).
func (t *terms) set(table *[16]byte, width int) {
	for i, s := range table {
		t[i] = uint64(s)
	}
	for q := range width {
		for m := range t {
			if m>>q&1 != 0 {
				t[m] ^= t[m&^(1<<q)]
			}
		}
	}
	t[0] *= 0x0101010101010101
}

// symbols turns a group of codes, as words, into symbols. A byte of 0 or 1
// multiplied by a term is that term or 0.
func (t *terms) symbols(dst *[group]byte, w *[maxWidth]uint64, width int, s *spread) {
	switch width {
	case 1:
		t.symbols1(dst, w, s)
	case 2:
		t.symbols2(dst, w, s)
	case 3:
		t.symbols3(dst, w, s)
	case 4:
		t.symbols4(dst, w, s)
	}
}

func (t *terms) symbols1(dst *[group]byte, w *[maxWidth]uint64, s *spread) {
	a := w[0]
	for i := 0; i < group; i += 8 {
		binary.LittleEndian.PutUint64(dst[i:i+8], t[0]^s[byte(a)]*t[1])
		a >>= 8
	}
}

func (t *terms) symbols2(dst *[group]byte, w *[maxWidth]uint64, s *spread) {
	a, b := w[0], w[1]
	for i := 0; i < group; i += 8 {
		x := t[0] ^ s[byte(a)]*t[1] ^ s[byte(b)]*t[2] ^ s[byte(a&b)]*t[3]
		binary.LittleEndian.PutUint64(dst[i:i+8], x)
		a, b = a>>8, b>>8
	}
}

func (t *terms) symbols3(dst *[group]byte, w *[maxWidth]uint64, s *spread) {
	a, b, c := w[0], w[1], w[2]
	for i := 0; i < group; i += 8 {
		x := t[0] ^ s[byte(a)]*t[1] ^ s[byte(b)]*t[2] ^ s[byte(a&b)]*t[3]
		y := s[byte(c)]*t[4] ^ s[byte(a&c)]*t[5] ^ s[byte(b&c)]*t[6] ^ s[byte(a&b&c)]*t[7]
		binary.LittleEndian.PutUint64(dst[i:i+8], x^y)
		a, b, c = a>>8, b>>8, c>>8
	}
}

func (t *terms) symbols4(dst *[group]byte, w *[maxWidth]uint64, s *spread) {
	w0, w1, w2, w3 := w[0], w[1], w[2], w[3]
	for i := 0; i < group; i += 8 {
		a, b, c, d := s[byte(w0)], s[byte(w1)], s[byte(w2)], s[byte(w3)]
		ab := a & b
		x := t[0] ^ a*t[1] ^ b*t[2] ^ ab*t[3]
		x ^= c*t[4] ^ a&c*t[5] ^ b&c*t[6] ^ ab&c*t[7]
		x ^= d*t[8] ^ a&d*t[9] ^ b&d*t[10] ^ ab&d*t[11]
		c &= d
		x ^= c*t[12] ^ a&c*t[13] ^ b&c*t[14] ^ ab&c*t[15]
		binary.LittleEndian.PutUint64(dst[i:i+8], x)
		w0, w1, w2, w3 = w0>>8, w1>>8, w2>>8, w3>>8
	}
}

// A codebook has the code of every symbol in a level, all ones if it has none.
// Codes without a symbol, in a closed level, stand as 0 in its table after the
// others: the first code of a symbol counts.
type codebook [256]byte

func (c *codebook) set(l *level) {
	escape := byte(1<<l.width - 1)
	for s := range c {
		c[s] = escape
	}
	for code := l.symbols() - 1; code >= 0; code-- {
		c[l.table[code]] = byte(code)
	}
}

// encodeLevel writes the codes of src, which it fills up with codes of 0, to
// words: 8*width bytes for every 64 symbols or part of them. It copies to
// escapes the symbols whose code is all ones, if open has bits, and returns
// their number. escapes has len(src)+slack bytes at least and may be written
// that far. width is not 0.
func encodeLevel(words, escapes, src []byte, width int, open uint64, codes *codebook) int {
	n, used := encodeLevelArch(words, escapes, src, width, open, codes)
	return used + encodeLevelGeneric(words[wordBytes(n, width):], escapes[used:], src[n:], width, open, codes)
}

func encodeLevelGeneric(words, escapes, src []byte, width int, open uint64, codes *codebook) (used int) {
	var c lanes
	c.set(codes)
	for ; len(src) >= group; src, words = src[group:], words[8*width:] {
		used += c.group(words, escapes[used:], (*[group]byte)(src), width, open)
	}
	if len(src) > 0 {
		var last [group]byte
		fill(last[copy(last[:], src):], byte(bytes.IndexByte(codes[:], 0)))
		used += c.group(words, escapes[used:], &last, width, open)
	}
	return used
}

// lanes has, for every symbol, bit q of its code in bit 16*q.
type lanes [256]uint64

func (c *lanes) set(codes *codebook) {
	for s, code := range codes {
		x := uint64(code)
		c[s] = x&1 | x&2<<15 | x&4<<30 | x&8<<45
	}
}

// group does the work of encodeLevel for 64 symbols.
func (c *lanes) group(words, escapes []byte, src *[group]byte, width int, open uint64) int {
	x0 := c.sixteen((*[16]byte)(src[:16]))
	x1 := c.sixteen((*[16]byte)(src[16:32]))
	x2 := c.sixteen((*[16]byte)(src[32:48]))
	x3 := c.sixteen((*[16]byte)(src[48:]))
	for q := range width {
		at := uint(16*q) & 63
		w := x0>>at&0xffff | x1>>at&0xffff<<16 | x2>>at&0xffff<<32 | x3>>at<<48
		binary.LittleEndian.PutUint64(words[8*q:], w)
		open &= w
	}
	return takeEscapes(escapes, src, open)
}

// sixteen returns four times 16 bits: those of each place in the codes of s.
func (c *lanes) sixteen(s *[16]byte) (x uint64) {
	for i := 12; i >= 0; i -= 4 {
		x = x<<1 | c[s[i+3]]
		x = x<<1 | c[s[i+2]]
		x = x<<1 | c[s[i+1]]
		x = x<<1 | c[s[i]]
	}
	return x
}

// takeEscapes copies the symbols where mask has a bit and returns how many
// there were. It works by fours as putEscapes does and writes up to 3 bytes
// more.
func takeEscapes(dst []byte, src *[group]byte, mask uint64) int {
	n := bits.OnesCount64(mask)
	for i := 0; i < n; i += 4 {
		e := (*[4]byte)(dst[i:])
		mask1 := mask & (mask - 1)
		mask2 := mask1 & (mask1 - 1)
		mask3 := mask2 & (mask2 - 1)
		e[0] = src[lowest(mask)&63]
		e[1] = src[lowest(mask1)&63]
		e[2] = src[lowest(mask2)&63]
		e[3] = src[lowest(mask3)&63]
		mask = mask3 & (mask3 - 1)
	}
	return n
}
