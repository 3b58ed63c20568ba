//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

// Z16 to Z27 are the symbols, Z4 to Z15 count them in bytes, Z28 is ones.

// FIRST and COUNT count the symbols in Z0 that are that in Z, and make K1 those
// that are one of the symbols so far.
#define FIRST(Z, ACC) \
	VPCMPEQB Z, Z0, K1 \
	VPADDB Z28, ACC, K1, ACC

#define COUNT(Z, ACC) \
	VPCMPEQB Z, Z0, K2 \
	VPADDB Z28, ACC, K2, ACC \
	KORQ K2, K1, K1

#define SYMBOL(C, Z, ACC) \
	VPBROADCASTB 32*C(DX), Z \
	VPXORQ ACC, ACC, ACC

// SUM writes the sum of the bytes of ACC as 4 numbers. Y is its lower half.
#define SUM(C, ACC, Y) \
	VPSADBW Z1, ACC, ACC \
	VEXTRACTI64X4 $1, ACC, Y2 \
	VPADDQ Y2, Y, Y2 \
	VMOVDQU Y2, 32*C(DI)

// func count12x512(sums *[12][4]uint64, rest, src *byte, n int, symbols *[12][32]byte) (used int)
TEXT ·count12x512(SB), NOSPLIT, $0-48
	MOVQ rest+8(FP), R10
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), R9
	MOVQ symbols+32(FP), DX
	SYMBOL(0, Z16, Z4)
	SYMBOL(1, Z17, Z5)
	SYMBOL(2, Z18, Z6)
	SYMBOL(3, Z19, Z7)
	SYMBOL(4, Z20, Z8)
	SYMBOL(5, Z21, Z9)
	SYMBOL(6, Z22, Z10)
	SYMBOL(7, Z23, Z11)
	SYMBOL(8, Z24, Z12)
	SYMBOL(9, Z25, Z13)
	SYMBOL(10, Z26, Z14)
	SYMBOL(11, Z27, Z15)
	FILL(1, Z28)
	PCALIGN $32
loop:
	VMOVDQU64 (SI), Z0
	FIRST(Z16, Z4)
	COUNT(Z17, Z5)
	COUNT(Z18, Z6)
	COUNT(Z19, Z7)
	COUNT(Z20, Z8)
	COUNT(Z21, Z9)
	COUNT(Z22, Z10)
	COUNT(Z23, Z11)
	COUNT(Z24, Z12)
	COUNT(Z25, Z13)
	COUNT(Z26, Z14)
	COUNT(Z27, Z15)
	KNOTQ K1, K1
	VPCOMPRESSB.Z Z0, K1, Z1
	KMOVQ K1, AX
	VMOVDQU64 Z1, (R10)
	POPCNTQ AX, AX
	ADDQ $64, SI
	ADDQ AX, R10
	SUBQ $64, R9
	JA loop
	MOVQ sums+0(FP), DI
	VPXORQ Z1, Z1, Z1
	SUM(0, Z4, Y4)
	SUM(1, Z5, Y5)
	SUM(2, Z6, Y6)
	SUM(3, Z7, Y7)
	SUM(4, Z8, Y8)
	SUM(5, Z9, Y9)
	SUM(6, Z10, Y10)
	SUM(7, Z11, Y11)
	SUM(8, Z12, Y12)
	SUM(9, Z13, Y13)
	SUM(10, Z14, Y14)
	SUM(11, Z15, Y15)
	SUBQ rest+8(FP), R10
	MOVQ R10, used+40(FP)
	VZEROUPPER
	RET
