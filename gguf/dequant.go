package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/demi-weights/demi/tensor"
)

// blockFuncs decode one block of a type: dst has the block's elements and src
// its bytes. The layouts are those of ggml (ggml-common.h, ggml-quants.c).
//
// A product that is added to something is converted to float32 first, also one
// that was kept in a variable: it keeps the compiler from fusing the two where
// the CPU could.
var blockFuncs = map[string]func(dst []float32, src []byte){
	"Q4_0": blockQ4_0, "Q4_1": blockQ4_1, "Q5_0": blockQ5_0, "Q5_1": blockQ5_1, "Q8_0": blockQ8_0,
	"Q2_K": blockQ2K, "Q3_K": blockQ3K, "Q4_K": blockQ4K, "Q5_K": blockQ5K, "Q6_K": blockQ6K,
	"IQ4_NL": blockIQ4NL, "IQ4_XS": blockIQ4XS, "MXFP4": blockMXFP4,
	"NVFP4": blockNVFP4, "TQ1_0": blockTQ1_0, "TQ2_0": blockTQ2_0,
}

// CanDequantize reports whether Dequantize knows the type with this ggml name.
func CanDequantize(name string) bool { return blockFuncs[name] != nil }

// Dequantize decodes whole blocks of a quantised type into float32, as ggml
// and its Python package do: every value is the same to the bit, but that a
// NaN, which only a damaged scale makes, is always 0x7FC00000. dst must have
// exactly the elements of the blocks in src, so that a tensor of any size can
// be decoded piece by piece: foreign.BlockBytes bytes make foreign.BlockElems
// elements. dst and src belong to the caller and may be used again at once;
// concurrent calls are safe.
//
// The types are Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS,
// MXFP4, NVFP4, TQ1_0 and TQ2_0. Others give tensor.ErrUnsupported, partial blocks and lengths that do
// not fit together tensor.ErrFormat.
func Dequantize(foreign tensor.Foreign, dst []float32, src []byte) error {
	decode := blockFuncs[foreign.Name]
	known, _ := TypeByName(foreign.Name)
	if decode == nil {
		return fmt.Errorf("%w: no values of type %q can be read", tensor.ErrUnsupported, foreign.Name)
	}
	elems, size := int(known.BlockElems), int(known.BlockBytes)
	blocks := len(src) / size
	if len(src)%size != 0 || len(dst) != blocks*elems {
		return fmt.Errorf("%w: %d bytes of %s are not the blocks (%d bytes each) of %d elements (%d each)",
			tensor.ErrFormat, len(src), foreign.Name, size, len(dst), elems)
	}
	for range blocks {
		decode(dst[:elems:elems], src[:size:size])
		dst, src = dst[elems:], src[size:]
	}
	return nil
}

// half decodes a binary16 at p.
func half(p []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(p))
	sign, exp, frac := h>>15<<31, h>>10&31, h&0x3FF
	switch exp {
	case 0: // zero and subnormals: frac times 2^-24, which is exact
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// tidy makes every NaN of a block the same one, where one of its scales is not
// finite: hardware differs in the NaN that it makes.
func tidy(dst []float32, scales ...float32) {
	for _, s := range scales {
		if s-s == 0 {
			continue
		}
		for i, v := range dst {
			if v != v {
				dst[i] = math.Float32frombits(0x7FC00000)
			}
		}
		return
	}
}

func blockQ4_0(dst []float32, src []byte) {
	d := half(src)
	lo, hi := dst[:16], dst[16:32]
	for i, q := range src[2:18] {
		lo[i] = float32(int32(q&15)-8) * d
		hi[i] = float32(int32(q>>4)-8) * d
	}
	tidy(dst, d)
}

func blockQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	lo, hi := dst[:16], dst[16:32]
	for i, q := range src[4:20] {
		lo[i] = float32(float32(q&15)*d) + m
		hi[i] = float32(float32(q>>4)*d) + m
	}
	tidy(dst, d, m)
}

func blockQ5_0(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint32(src[2:])
	lo, hi := dst[:16], dst[16:32]
	for i, q := range src[6:22] {
		lo[i] = float32(int32(uint32(q&15)|high>>i&1<<4)-16) * d
		hi[i] = float32(int32(uint32(q>>4)|high>>(i+16)&1<<4)-16) * d
	}
	tidy(dst, d)
}

func blockQ5_1(dst []float32, src []byte) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	lo, hi := dst[:16], dst[16:32]
	for i, q := range src[8:24] {
		lo[i] = float32(float32(uint32(q&15)|high>>i&1<<4)*d) + m
		hi[i] = float32(float32(uint32(q>>4)|high>>(i+16)&1<<4)*d) + m
	}
	tidy(dst, d, m)
}

func blockQ8_0(dst []float32, src []byte) {
	d := half(src)
	dst = dst[:32]
	for i, q := range src[2:34] {
		dst[i] = float32(int8(q)) * d
	}
	tidy(dst, d)
}

// blockQ2K: 16 scales and minima of 4 bits, 256 quants of 2 bits, d, dmin.
func blockQ2K(dst []float32, src []byte) {
	d, dmin := half(src[80:]), half(src[82:])
	for group := range 16 { // 16 elements each
		scale := d * float32(src[group]&15)
		least := float32(dmin * float32(src[group]>>4))
		at, shift := 16+group/8*32+group%2*16, group/2%4*2
		out := dst[group*16 : group*16+16]
		for i, q := range src[at : at+16] {
			out[i] = float32(scale*float32(q>>shift&3)) - least
		}
	}
	tidy(dst, d, dmin)
}

// blockQ3K: 256 high bits, 256 quants of 2 bits, 16 scales of 6 bits, d. A high
// bit that is not set takes 4 away.
func blockQ3K(dst []float32, src []byte) {
	d := half(src[108:])
	for group := range 16 {
		scale := d * float32(scaleQ3K(src[96:108], group))
		at, shift := 32+group/8*32+group%2*16, group/2%4*2
		high := src[group%2*16 : group%2*16+16]
		out := dst[group*16 : group*16+16]
		for i, q := range src[at : at+16] {
			v := int32(q>>shift&3) - 4 + int32(high[i]>>(group/2)&1)<<2
			out[i] = scale * float32(v)
		}
	}
	tidy(dst, d)
}

// scaleQ3K returns scale i of 16: low 4 bits in the first 8 bytes, high 2 bits
// in the last 4.
func scaleQ3K(packed []byte, i int) int32 {
	low := packed[i%8] >> (i / 8 * 4) & 15
	high := packed[8+i%4] >> (i / 4 * 2) & 3
	return int32(low|high<<4) - 32
}

// scaleK returns scale and minimum i of 8 of Q4_K and Q5_K, 6 bits each in 12
// bytes.
func scaleK(packed []byte, i int) (scale, least float32) {
	if i < 4 {
		return float32(packed[i] & 63), float32(packed[i+4] & 63)
	}
	low := packed[i+4]
	return float32(low&15 | packed[i-4]>>6<<4), float32(low>>4 | packed[i]>>6<<4)
}

// blockQ4K: d, dmin, 8 scales and minima, 256 quants of 4 bits.
func blockQ4K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	for group := range 8 { // 32 elements each
		scale, least := scaleK(src[4:16], group)
		scale, least = scale*d, float32(least*dmin)
		at, shift := 16+group/2*32, group%2*4
		out := dst[group*32 : group*32+32]
		for i, q := range src[at : at+32] {
			out[i] = float32(scale*float32(q>>shift&15)) - least
		}
	}
	tidy(dst, d, dmin)
}

// blockQ5K: as Q4_K, with 256 high bits before the quants.
func blockQ5K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	high := src[16:48]
	for group := range 8 {
		scale, least := scaleK(src[4:16], group)
		scale, least = scale*d, float32(least*dmin)
		at, shift := 48+group/2*32, group%2*4
		out := dst[group*32 : group*32+32]
		for i, q := range src[at : at+32] {
			v := q>>shift&15 | high[i]>>group&1<<4
			out[i] = float32(scale*float32(v)) - least
		}
	}
	tidy(dst, d, dmin)
}

// blockQ6K: 256 low nibbles, 256 high 2 bits, 16 scales of 8 bits, d.
func blockQ6K(dst []float32, src []byte) {
	d := half(src[208:])
	for group := range 16 {
		scale := d * float32(int8(src[192+group]))
		run, side := group/2%4, group%2*16 // of 32 elements in a half of 128
		low := src[group/8*64+run%2*32+side:][:16]
		high := src[128+group/8*32+side:][:16]
		out := dst[group*16 : group*16+16]
		for i := range out {
			v := int32(low[i]>>(run/2*4)&15|high[i]>>(run*2)&3<<4) - 32
			out[i] = scale * float32(v)
		}
	}
	tidy(dst, d)
}

// valuesIQ4 are the values of the nibbles of IQ4_NL and IQ4_XS.
var valuesIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// valuesMXFP4 are twice the values of the nibbles of MXFP4 (E2M1).
var valuesMXFP4 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// nibbles looks the nibbles of 16 bytes up: 16 low ones, then 16 high ones.
func nibbles(dst []float32, src []byte, values *[16]float32, scale float32) {
	lo, hi := dst[:16], dst[16:32]
	for i, q := range src[:16] {
		lo[i] = values[q&15] * scale
		hi[i] = values[q>>4] * scale
	}
}

func blockIQ4NL(dst []float32, src []byte) {
	d := half(src)
	nibbles(dst, src[2:], &valuesIQ4, d)
	tidy(dst, d)
}

// blockIQ4XS: d, 8 scales of 6 bits (2 bits each, then 4 bits each), quants.
func blockIQ4XS(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint16(src[2:])
	for group := range 8 {
		low := uint16(src[4+group/2] >> (group % 2 * 4) & 15)
		scale := d * float32(int32(low|high>>(2*group)&3<<4)-32)
		nibbles(dst[group*32:], src[8+group*16:], &valuesIQ4, scale)
	}
	tidy(dst, d)
}

// blockMXFP4: one power of two, biased by 127, and 32 nibbles. As in ggml 255
// is no NaN, and half the power is used for the doubled values.
func blockMXFP4(dst []float32, src []byte) {
	bits := uint32(src[0]-1) << 23
	if src[0] < 2 {
		bits = 0x00200000 << src[0]
	}
	nibbles(dst, src[1:], &valuesMXFP4, math.Float32frombits(bits))
}

// blockNVFP4: four scales, floats of 4 exponent and 3 mantissa bits without a
// sign, each of 16 nibbles. The code with all bits set, which is NaN elsewhere,
// is 0, and half the scale is used for the doubled values.
func blockNVFP4(dst []float32, src []byte) {
	for k, e := range src[:4] {
		bits := uint32(e>>3&15+119) << 23 // 2^(e-7), halved
		scale := math.Float32frombits(bits) * (1 + float32(e&7)/8)
		switch {
		case e == 0x7F:
			scale = 0
		case e>>3&15 == 0:
			scale = float32(e&7) * (1.0 / 1024)
		}
		for j, q := range src[4+8*k : 12+8*k] {
			dst[16*k+j] = scale * valuesMXFP4[q&15]
			dst[16*k+8+j] = scale * valuesMXFP4[q>>4]
		}
	}
}

// blockTQ1_0: values -1, 0 and 1, five of them in the 48 bytes of qs, four in
// the 4 that follow, as base-3 digits of a fraction of 256; then the scale.
func blockTQ1_0(dst []float32, src []byte) {
	d := half(src[52:])
	out := dst
	digits := func(p []byte, n int) {
		for range n {
			for j := range p {
				out[j] = float32(int(p[j])*3>>8-1) * d
			}
			out = out[len(p):]
			for j := range p {
				p[j] *= 3
			}
		}
	}
	var qs [52]byte
	copy(qs[:], src)
	digits(qs[:32], 5)
	digits(qs[32:48], 5)
	digits(qs[48:], 4)
	tidy(dst, d)
}

// blockTQ2_0: values -1, 0 and 1 in two bits each, then the scale.
func blockTQ2_0(dst []float32, src []byte) {
	d := half(src[64:])
	for i := range dst {
		q := src[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
		dst[i] = float32(int(q)-1) * d
	}
	tidy(dst, d)
}
