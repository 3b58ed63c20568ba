//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// COUNT counts the symbols in Y0 that are symbol C in the bytes of ACC and adds
// them to those in Y1.
#define COUNT(C, ACC) \
	VPCMPEQB 32*C(DX), Y0, Y2 \
	VPSUBB Y2, ACC, ACC \
	VPOR Y2, Y1, Y1

// COUNTS does that for the 32 symbols at OFF and makes R those that are none of
// the 12.
#define COUNTS(OFF, R) \
	VMOVDQU OFF(SI), Y0 \
	VPCMPEQB (DX), Y0, Y1 \
	VPSUBB Y1, Y3, Y3 \
	COUNT(1, Y4) \
	COUNT(2, Y5) \
	COUNT(3, Y6) \
	COUNT(4, Y7) \
	COUNT(5, Y8) \
	COUNT(6, Y9) \
	COUNT(7, Y10) \
	COUNT(8, Y11) \
	COUNT(9, Y12) \
	COUNT(10, Y13) \
	COUNT(11, Y14) \
	VPMOVMSKB Y1, R \
	NOTL R

// SUM writes the sum of the bytes of ACC as 4 numbers.
#define SUM(C, ACC) \
	VPSADBW Y1, ACC, ACC \
	VMOVDQU ACC, 32*C(DI)

// func count12x256(sums *[12][4]uint64, rest, src *byte, n int, symbols *[12][32]byte) (used int)
TEXT ·count12x256(SB), NOSPLIT, $0-48
	MOVQ rest+8(FP), R10
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), R9
	MOVQ symbols+32(FP), DX
	LEAQ ·compress(SB), CX
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	VPXOR Y10, Y10, Y10
	VPXOR Y11, Y11, Y11
	VPXOR Y12, Y12, Y12
	VPXOR Y13, Y13, Y13
	VPXOR Y14, Y14, Y14
	PCALIGN $32
loop:
	COUNTS(0, AX)
	COUNTS(32, BX)
	SHLQ $32, BX
	ORQ BX, AX
	JZ next
	COMPRESS16(0)
	COMPRESS16(16)
	COMPRESS16(32)
	COMPRESS16(48)
next:
	ADDQ $64, SI
	SUBQ $64, R9
	JA loop
	MOVQ sums+0(FP), DI
	VPXOR Y1, Y1, Y1
	SUM(0, Y3)
	SUM(1, Y4)
	SUM(2, Y5)
	SUM(3, Y6)
	SUM(4, Y7)
	SUM(5, Y8)
	SUM(6, Y9)
	SUM(7, Y10)
	SUM(8, Y11)
	SUM(9, Y12)
	SUM(10, Y13)
	SUM(11, Y14)
	SUBQ rest+8(FP), R10
	MOVQ R10, used+40(FP)
	VZEROUPPER
	RET
