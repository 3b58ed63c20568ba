//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

// twice0 and twice1 have every byte of the lower and the upper half of a vector
// twice.
VEC64(twice0, 0x0303020201010000, 0x0707060605050404, 0x0b0b0a0a09090808, 0x0f0f0e0e0d0d0c0c, 0x1313121211111010, 0x1717161615151414, 0x1b1b1a1a19191818, 0x1f1f1e1e1d1d1c1c)
VEC64(twice1, 0x2323222221212020, 0x2727262625252424, 0x2b2b2a2a29292828, 0x2f2f2e2e2d2d2c2c, 0x3333323231313030, 0x3737363635353434, 0x3b3b3a3a39393838, 0x3f3f3e3e3d3d3c3c)

// VALUES writes 32 values, whose exponents are in Z0, and signs and mantissas at
// (R12), both twice in a word by the order TWICE. Exponents, moved down by one
// bit, are in their place; what is left of them beside it gives way.
#define VALUES(TWICE, OFF) \
	VPERMB Z0, TWICE, Z1 \
	VPERMB (R12), TWICE, Z2 \
	VPSRLW $1, Z1, Z1 \
	SELECT(Z13, Z2, Z1) \
	VMOVDQU64 Z1, OFF(DI)

#define JOIN \
	VALUES(Z14, 0) \
	VALUES(Z15, 64) \
	ADDQ $64, R12 \
	ADDQ $128, DI

// DECODEJOIN decodes n exponents, a multiple of 64 and not 0, and joins them.
#define DECODEJOIN(SETUP, SYMBOLS, MASK, SIZE) \
	MOVQ dst+0(FP), DI \
	MOVQ low+8(FP), R12 \
	MOVQ words+16(FP), SI \
	MOVQ n+24(FP), R9 \
	MOVQ open+32(FP), R8 \
	MOVQ table+40(FP), DX \
	MOVQ escapes+48(FP), R10 \
	SETUP \
	MOVL $0x807f, AX \
	VPBROADCASTW AX, Z13 \
	VMOVDQU64 twice0<>(SB), Z14 \
	VMOVDQU64 twice1<>(SB), Z15 \
	GROUPS(SYMBOLS, MASK, SIZE, JOIN) \
	SUBQ escapes+48(FP), R10 \
	MOVQ R10, used+56(FP) \
	RET

// func joinBF16w1x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w1x512(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP1, SYMBOLS1, MASK1, 8)

// func joinBF16w2x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w2x512(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP2, SYMBOLS2, MASK2, 16)

// func joinBF16w3x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w3x512(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP3, SYMBOLS3, MASK3, 24)

// func joinBF16w4x512(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w4x512(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP4, SYMBOLS4, MASK4, 32)
