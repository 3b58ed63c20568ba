//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// JOIN puts the exponents in Y, which are crossed, and the 32 bytes of low at
// OFF together: a value has bit 0 of the exponent and the mantissa in its low
// byte, the sign and the other 7 bits in its high byte.
#define JOIN(Y, OFF) \
	VPERMQ $0xd8, OFF(R12), Y2 \
	VPSLLW $7, Y, Y4 \
	VPSRLW $1, Y, Y5 \
	VPAND Y11, Y4, Y4 \
	VPAND Y10, Y5, Y5 \
	VPAND Y10, Y2, Y6 \
	VPAND Y11, Y2, Y7 \
	VPOR Y6, Y4, Y4 \
	VPOR Y7, Y5, Y5 \
	VPUNPCKLBW Y5, Y4, Y6 \
	VPUNPCKHBW Y5, Y4, Y7 \
	VMOVDQU Y6, 2*OFF(DI) \
	VMOVDQU Y7, 2*OFF+32(DI)

// DECODEJOIN decodes n exponents, a multiple of 64 and not 0, and joins them.
#define DECODEJOIN(CODES, MASK, SIZE) \
	MOVQ dst+0(FP), DI \
	MOVQ low+8(FP), R12 \
	MOVQ words+16(FP), SI \
	MOVQ n+24(FP), R9 \
	MOVQ open+32(FP), R8 \
	MOVQ table+40(FP), DX \
	MOVQ escapes+48(FP), R10 \
	SETUP(crossed) \
	VMOVDQU low7<>(SB), Y10 \
	VMOVDQU bit7<>(SB), Y11 \
	PCALIGN $32 \
loop: \
	MASK \
	CODES(0, Y0) \
	CODES(4, Y1) \
	CROSSED(Y0) \
	CROSSED(Y1) \
	JOIN(Y0, 0) \
	JOIN(Y1, 32) \
	ADDQ $SIZE, SI \
	ADDQ $64, R12 \
	ADDQ $128, DI \
	SUBQ $64, R9 \
	JA loop \
	SUBQ escapes+48(FP), R10 \
	MOVQ R10, used+56(FP) \
	VZEROUPPER \
	RET

CONSTANTS
VEC(low7, 0x7f7f7f7f7f7f7f7f, 0x7f7f7f7f7f7f7f7f, 0x7f7f7f7f7f7f7f7f, 0x7f7f7f7f7f7f7f7f)
VEC(bit7, 0x8080808080808080, 0x8080808080808080, 0x8080808080808080, 0x8080808080808080)

// func joinBF16w1x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w1x256(SB), NOSPLIT, $0-64
	DECODEJOIN(CODES1, MASK1, 8)

// func joinBF16w2x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w2x256(SB), NOSPLIT, $0-64
	DECODEJOIN(CODES2, MASK2, 16)

// func joinBF16w3x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w3x256(SB), NOSPLIT, $0-64
	DECODEJOIN(CODES3, MASK3, 24)

// func joinBF16w4x256(dst, low, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·joinBF16w4x256(SB), NOSPLIT, $0-64
	DECODEJOIN(CODES4, MASK4, 32)
