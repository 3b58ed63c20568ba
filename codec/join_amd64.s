//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"
#include "planes_amd64.h"

// The kernels do 32 elements a turn; n is a multiple of 32 and not 0. A step is
// 32, or 0 for a plane of zeros, of which there are 32 only.

PLANES

// HALVES makes Y3 the high and Y2 the low bytes of BF16, or of the upper halves
// of F32, from exponents in Y0, and signs and mantissas in Y1.
#define HALVES \
	VPSLLW $7, Y0, Y2 \
	VPSRLW $1, Y0, Y3 \
	VPAND Y11, Y2, Y2 \
	VPAND Y10, Y3, Y3 \
	VPAND Y10, Y1, Y4 \
	VPAND Y11, Y1, Y5 \
	VPOR Y4, Y2, Y2 \
	VPOR Y5, Y3, Y3

// DWORDS writes 16 dwords of the words A, lower, and B.
#define DWORDS(A, B, OFF) \
	VPUNPCKLWD B, A, Y6 \
	VPUNPCKHWD B, A, Y7 \
	VMOVDQU Y6, OFF(DI) \
	VMOVDQU Y7, OFF+32(DI)

// SETUPF16 loads the arguments and constants of JOINF16.
#define SETUPF16 \
	MOVQ dst+0(FP), DI \
	MOVQ low+8(FP), SI \
	MOVQ high+16(FP), DX \
	MOVQ exp+24(FP), R9 \
	MOVQ n+32(FP), CX \
	MOVQ highStep+40(FP), R10 \
	VMOVDQU low2<>(SB), Y10 \
	VMOVDQU bit7<>(SB), Y11 \
	VMOVDQU bits2to6<>(SB), Y12

// JOINF16 makes Y2 and Y3 the next 32 words: the high byte has the sign, the
// exponent and the higher 2 bits of the mantissa.
#define JOINF16 \
	VPERMQ $0xd8, (R9), Y0 \
	VPERMQ $0xd8, (DX), Y1 \
	VPERMQ $0xd8, (SI), Y4 \
	VPSLLW $2, Y0, Y0 \
	VPSLLW $5, Y1, Y2 \
	VPAND Y12, Y0, Y0 \
	VPAND Y10, Y1, Y1 \
	VPAND Y11, Y2, Y2 \
	VPOR Y1, Y0, Y0 \
	VPOR Y2, Y0, Y0 \
	VPUNPCKLBW Y0, Y4, Y2 \
	VPUNPCKHBW Y0, Y4, Y3 \
	ADDQ $32, SI \
	ADDQ R10, DX \
	ADDQ $32, R9

// func joinF32x256(dst, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·joinF32x256(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ high+8(FP), SI
	MOVQ mid+16(FP), DX
	MOVQ low+24(FP), R8
	MOVQ exp+32(FP), R9
	MOVQ n+40(FP), CX
	MOVQ midStep+48(FP), R10
	MOVQ lowStep+56(FP), R11
	VMOVDQU low7<>(SB), Y10
	VMOVDQU bit7<>(SB), Y11
	VMOVDQU fours<>(SB), Y12
	PCALIGN $32
loop:
	VPERMD (R9), Y12, Y0
	VPERMD (SI), Y12, Y1
	HALVES
	VPERMD (R8), Y12, Y0
	VPERMD (DX), Y12, Y1
	VPUNPCKLBW Y3, Y2, Y4
	VPUNPCKHBW Y3, Y2, Y5
	VPUNPCKLBW Y1, Y0, Y2
	VPUNPCKHBW Y1, Y0, Y3
	DWORDS(Y2, Y4, 0)
	DWORDS(Y3, Y5, 64)
	ADDQ $128, DI
	ADDQ $32, SI
	ADDQ R10, DX
	ADDQ R11, R8
	ADDQ $32, R9
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func widenF32x256(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·widenF32x256(SB), NOSPLIT, $0-64
	JMP ·joinF32x256(SB)

// func widenBF16x256(dst *float32, low, exp *byte, n int)
TEXT ·widenBF16x256(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ low+8(FP), SI
	MOVQ exp+16(FP), R9
	MOVQ n+24(FP), CX
	VMOVDQU bit6<>(SB), Y9
	VMOVDQU low7<>(SB), Y10
	VMOVDQU bit7<>(SB), Y11
	VMOVDQU fours<>(SB), Y12
	VPCMPEQB Y13, Y13, Y13
	VPXOR Y14, Y14, Y14
	PCALIGN $32
loop:
	VPERMD (R9), Y12, Y0
	VPERMD (SI), Y12, Y1
	VPAND Y10, Y1, Y2 // NaNs become quiet: all of the exponent, some of the mantissa
	VPCMPEQB Y13, Y0, Y3
	VPCMPEQB Y14, Y2, Y2
	VPAND Y9, Y3, Y3
	VPANDN Y3, Y2, Y2
	VPOR Y2, Y1, Y1
	HALVES
	VPUNPCKLBW Y3, Y2, Y4
	VPUNPCKHBW Y3, Y2, Y5
	DWORDS(Y14, Y4, 0)
	DWORDS(Y14, Y5, 64)
	ADDQ $128, DI
	ADDQ $32, SI
	ADDQ $32, R9
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func joinF16x256(dst, low, high, exp *byte, n, highStep int)
TEXT ·joinF16x256(SB), NOSPLIT, $0-48
	SETUPF16
	PCALIGN $32
loop:
	JOINF16
	VMOVDQU Y2, (DI)
	VMOVDQU Y3, 32(DI)
	ADDQ $64, DI
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func widenF16x256(dst *float32, low, high, exp *byte, n, highStep int)
TEXT ·widenF16x256(SB), NOSPLIT, $0-48
	SETUPF16
	PCALIGN $32
loop:
	JOINF16
	VCVTPH2PS X2, Y4
	VEXTRACTI128 $1, Y2, X5
	VCVTPH2PS X3, Y6
	VEXTRACTI128 $1, Y3, X7
	VCVTPH2PS X5, Y5
	VCVTPH2PS X7, Y7
	VMOVUPS Y4, (DI)
	VMOVUPS Y5, 32(DI)
	VMOVUPS Y6, 64(DI)
	VMOVUPS Y7, 96(DI)
	ADDQ $128, DI
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET
