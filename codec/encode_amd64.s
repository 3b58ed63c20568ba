//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// The kernels compare symbols with that of each code, of which 32 copies stand
// at DX, but for the last code, which is what is left. A word is clear where the
// symbol is one of those whose codes have its bit clear.

// EQ makes Y the symbols in X with code C: all ones where they are equal.
#define EQ(C, X, Y) VPCMPEQB 32*(C)(DX), X, Y

// ORS adds the symbols with code C to Y, by way of T.
#define ORS(C, X, Y, T) \
	EQ(C, X, T) \
	VPOR T, Y, Y

// CLEAR1 to CLEAR4 make Y0, Y1, Y2 and Y3 the symbols in X, of code 2^k - 2 at
// most, whose codes have that bit clear.
#define CLEAR1(X) EQ(0, X, Y0)

#define CLEAR2(X) \
	EQ(0, X, Y0) \
	EQ(1, X, Y1) \
	VPOR Y0, Y1, Y1 \
	ORS(2, X, Y0, Y4)

// Pairs of codes that differ in bit 0 are alike for the other bits.
#define CLEAR3(X) \
	EQ(0, X, Y0) \
	EQ(1, X, Y1) \
	VPOR Y0, Y1, Y1 \
	EQ(2, X, Y4) \
	EQ(3, X, Y2) \
	VPOR Y4, Y0, Y0 \
	VPOR Y4, Y2, Y2 \
	VPOR Y1, Y2, Y2 \
	EQ(4, X, Y4) \
	VPOR Y4, Y0, Y0 \
	VPOR Y4, Y1, Y1 \
	ORS(5, X, Y1, Y4) \
	ORS(6, X, Y0, Y4)

// PAIR makes Y5 the symbols with codes C and C+1 and adds those with C, an even
// code, to Y0.
#define PAIR(C, X) \
	EQ(C, X, Y4) \
	EQ(C+1, X, Y5) \
	VPOR Y4, Y0, Y0 \
	VPOR Y4, Y5, Y5

#define CLEAR4(X) \
	VPXOR Y0, Y0, Y0 \
	PAIR(0, X) \
	VMOVDQA Y5, Y1 \
	PAIR(2, X) \
	VPOR Y5, Y1, Y3 \
	PAIR(4, X) \
	VPOR Y5, Y1, Y1 \
	VPOR Y5, Y3, Y6 \
	PAIR(6, X) \
	VPOR Y5, Y6, Y6 \
	VMOVDQA Y3, Y2 \
	VMOVDQA Y6, Y3 \
	PAIR(8, X) \
	VPOR Y5, Y1, Y1 \
	VPOR Y5, Y2, Y2 \
	PAIR(10, X) \
	VPOR Y5, Y2, Y2 \
	PAIR(12, X) \
	VPOR Y5, Y1, Y1 \
	ORS(14, X, Y0, Y4)

// HALF packs Y, the lower half of the group; BOTH packs the upper half and
// writes the word Q, whose lower half is in R.
#define HALF(Y, R) VPMOVMSKB Y, R
#define BOTH(Q, Y, R) \
	VPMOVMSKB Y, BX \
	SHLQ $32, BX \
	ORQ BX, R \
	NOTQ R \
	MOVQ R, 8*Q(DI) \
	ANDQ R, AX

#define HALF1 HALF(Y0, R11)
#define HALF2 HALF1; HALF(Y1, R12)
#define HALF3 HALF2; HALF(Y2, R13)
#define HALF4 HALF3; HALF(Y3, R14)
#define BOTH1 BOTH(0, Y0, R11)
#define BOTH2 BOTH1; BOTH(1, Y1, R12)
#define BOTH3 BOTH2; BOTH(2, Y2, R13)
#define BOTH4 BOTH3; BOTH(3, Y3, R14)

// ENCODE is encodeLevel for n symbols, a multiple of 64 and not 0.
#define ENCODE(CLEAR, HALVES, WORDS, SIZE) \
	MOVQ words+0(FP), DI \
	MOVQ escapes+8(FP), R10 \
	MOVQ src+16(FP), SI \
	MOVQ n+24(FP), R9 \
	MOVQ open+32(FP), R8 \
	MOVQ symbols+40(FP), DX \
	LEAQ ·compress(SB), CX \
	PCALIGN $32 \
loop: \
	VMOVDQU (SI), Y7 \
	VMOVDQU 32(SI), Y8 \
	MOVQ R8, AX \
	CLEAR(Y7) \
	HALVES \
	CLEAR(Y8) \
	WORDS \
	TESTQ AX, AX \
	JZ next \
	COMPRESS16(0) \
	COMPRESS16(16) \
	COMPRESS16(32) \
	COMPRESS16(48) \
next: \
	ADDQ $64, SI \
	ADDQ $SIZE, DI \
	SUBQ $64, R9 \
	JA loop \
	SUBQ escapes+8(FP), R10 \
	MOVQ R10, used+48(FP) \
	VZEROUPPER \
	RET

// func encode1x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode1x256(SB), NOSPLIT, $0-56
	ENCODE(CLEAR1, HALF1, BOTH1, 8)

// func encode2x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode2x256(SB), NOSPLIT, $0-56
	ENCODE(CLEAR2, HALF2, BOTH2, 16)

// func encode3x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode3x256(SB), NOSPLIT, $0-56
	ENCODE(CLEAR3, HALF3, BOTH3, 24)

// func encode4x256(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode4x256(SB), NOSPLIT, $0-56
	ENCODE(CLEAR4, HALF4, BOTH4, 32)
