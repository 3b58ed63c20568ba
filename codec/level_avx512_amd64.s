//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

#define WRITE \
	VMOVDQU64 Z0, (DI) \
	ADDQ $64, DI

// DECODE is decodeLevel for n symbols, a multiple of 64 and not 0.
#define DECODE(SETUP, SYMBOLS, MASK, SIZE) \
	MOVQ dst+0(FP), DI \
	MOVQ words+8(FP), SI \
	MOVQ n+16(FP), R9 \
	MOVQ open+24(FP), R8 \
	MOVQ table+32(FP), DX \
	MOVQ escapes+40(FP), R10 \
	SETUP \
	GROUPS(SYMBOLS, MASK, SIZE, WRITE) \
	SUBQ escapes+40(FP), R10 \
	MOVQ R10, used+48(FP) \
	RET

// func decode1x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode1x512(SB), NOSPLIT, $0-56
	DECODE(SETUP1, SYMBOLS1, MASK1, 8)

// func decode2x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode2x512(SB), NOSPLIT, $0-56
	DECODE(SETUP2, SYMBOLS2, MASK2, 16)

// func decode3x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode3x512(SB), NOSPLIT, $0-56
	DECODE(SETUP3, SYMBOLS3, MASK3, 24)

// func decode4x512(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode4x512(SB), NOSPLIT, $0-56
	DECODE(SETUP4, SYMBOLS4, MASK4, 32)
