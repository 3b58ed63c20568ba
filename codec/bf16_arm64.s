//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

// JOIN16 puts the exponents in E and the signs and mantissas in L together: a
// value has bit 0 of the exponent and the mantissa in its low byte, the sign
// and the other 7 bits in its high byte. V8 and V9, or V10 and V11, take the
// values.
#define JOIN16(E, L, A, B) \
	VMOV L.B16, B.B16 \
	VSLI $7, E.B16, L.B16 \
	VSRI $1, E.B16, B.B16 \
	VZIP1 B.B16, L.B16, A.B16 \
	VZIP2 B.B16, L.B16, B.B16

#define JOIN \
	VLD1.P 64(R15), [V4.B16, V5.B16, V6.B16, V7.B16] \
	JOIN16(V0, V4, V8, V9) \
	JOIN16(V1, V5, V10, V11) \
	JOIN16(V2, V6, V12, V13) \
	JOIN16(V3, V7, V14, V15) \
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R0) \
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R0)

// DECODEJOIN decodes n exponents, a multiple of 64 and not 0, and joins them.
#define DECODEJOIN(CONSTANTS, WORDS, MASKS, OPEN, CLOSED) \
	MOVD dst+0(FP), R0 \
	MOVD low+8(FP), R15 \
	MOVD open+32(FP), R13 \
	SETUP(words+16(FP), n+24(FP), table+40(FP), escapes+48(FP)) \
	CONSTANTS \
	DECODE(WORDS, MASKS, OPEN, CLOSED, JOIN) \
	MOVD R9, used+56(FP) \
	RET

// func joinBF16w1x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·joinBF16w1x128(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP1, WORDS1, MASK1, OPEN1, CLOSED1)

// func joinBF16w2x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·joinBF16w2x128(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP2, WORDS2, MASK2, SYMBOLS2, SYMBOLS2)

// func joinBF16w3x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·joinBF16w3x128(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP3, WORDS3, MASK3, SYMBOLS3, SYMBOLS3)

// func joinBF16w4x128(dst, low, words *byte, n int, open uint64, table *[2][16]byte, escapes *byte) (used int)
TEXT ·joinBF16w4x128(SB), NOSPLIT, $0-64
	DECODEJOIN(SETUP4, WORDS4, MASK4, SYMBOLS4, SYMBOLS4)
