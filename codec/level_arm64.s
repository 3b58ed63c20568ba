//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

#define STORE VST1.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)

// LEVEL is decodeLevel for n symbols, a multiple of 64 and not 0.
#define LEVEL(CONSTANTS, WORDS, MASKS, OPEN, CLOSED) \
	MOVD dst+0(FP), R0 \
	MOVD open+24(FP), R13 \
	SETUP(words+8(FP), n+16(FP), table+32(FP), escapes+40(FP)) \
	CONSTANTS \
	DECODE(WORDS, MASKS, OPEN, CLOSED, STORE) \
	MOVD R9, used+48(FP) \
	RET

// func decode1x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·decode1x128(SB), NOSPLIT, $0-56
	LEVEL(SETUP1, WORDS1, MASK1, OPEN1, CLOSED1)

// func decode2x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·decode2x128(SB), NOSPLIT, $0-56
	LEVEL(SETUP2, WORDS2, MASK2, SYMBOLS2, SYMBOLS2)

// func decode3x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·decode3x128(SB), NOSPLIT, $0-56
	LEVEL(SETUP3, WORDS3, MASK3, SYMBOLS3, SYMBOLS3)

// func decode4x128(dst, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·decode4x128(SB), NOSPLIT, $0-56
	LEVEL(SETUP4, WORDS4, MASK4, SYMBOLS4, SYMBOLS4)
