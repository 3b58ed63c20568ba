//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

// The kernels do 64 elements a turn; n is a multiple of 64 and not 0. A step is
// 64, or 0 for a plane of zeros, of which there are 64 only.

// fours is the order of 4 bytes, and eights of 8, in which unpacking gives
// elements in order: bytes to words and words to dwords, or bytes to words.
VEC64(fours, 0x0000000400000000, 0x0000000c00000008, 0x0000000500000001, 0x0000000d00000009, 0x0000000600000002, 0x0000000e0000000a, 0x0000000700000003, 0x0000000f0000000b)
VEC64(eights, 0, 4, 1, 5, 2, 6, 3, 7)

// HALVES makes Z3 the high and Z2 the low bytes of BF16, or of the upper halves
// of F32, from exponents in Z0, and signs and mantissas in Z1: Z13 is 7f and Z14
// 80. Shifts by words move bits into their bytes or to where others replace
// them.
#define HALVES \
	VPSLLW $7, Z0, Z2 \
	VPSRLW $1, Z0, Z3 \
	SELECT(Z13, Z1, Z2) \
	SELECT(Z14, Z1, Z3)

// DWORDS writes 32 dwords of the words A, lower, and B.
#define DWORDS(A, B, OFF) \
	VPUNPCKLWD B, A, Z6 \
	VPUNPCKHWD B, A, Z7 \
	VMOVDQU64 Z6, OFF(DI) \
	VMOVDQU64 Z7, OFF+64(DI)

// SETUPF16 loads the arguments and constants of JOINF16.
#define SETUPF16 \
	MOVQ dst+0(FP), DI \
	MOVQ low+8(FP), SI \
	MOVQ high+16(FP), DX \
	MOVQ exp+24(FP), R9 \
	MOVQ n+32(FP), CX \
	MOVQ highStep+40(FP), R10 \
	FILL(0x80, Z13) \
	FILL(0x7c, Z14) \
	VMOVDQU64 eights<>(SB), Z15

// JOINF16 makes Z2 and Z3 the next 64 words: the high byte has the sign, the
// exponent and the higher 2 bits of the mantissa.
#define JOINF16 \
	VMOVDQU64 (R9), Z0 \
	VMOVDQU64 (DX), Z1 \
	VPERMQ (SI), Z15, Z4 \
	VPSLLW $2, Z0, Z0 \
	VPSLLW $5, Z1, Z2 \
	SELECT(Z13, Z2, Z1) \
	SELECT(Z14, Z0, Z1) \
	VPERMQ Z1, Z15, Z1 \
	VPUNPCKLBW Z1, Z4, Z2 \
	VPUNPCKHBW Z1, Z4, Z3 \
	ADDQ $64, SI \
	ADDQ R10, DX \
	ADDQ $64, R9

// func joinF32x512(dst, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·joinF32x512(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ high+8(FP), SI
	MOVQ mid+16(FP), DX
	MOVQ low+24(FP), R8
	MOVQ exp+32(FP), R9
	MOVQ n+40(FP), CX
	MOVQ midStep+48(FP), R10
	MOVQ lowStep+56(FP), R11
	FILL(0x7f, Z13)
	FILL(0x80, Z14)
	VMOVDQU64 fours<>(SB), Z15
	PCALIGN $32
loop:
	VPERMD (R9), Z15, Z0
	VPERMD (SI), Z15, Z1
	HALVES
	VPERMD (R8), Z15, Z0
	VPERMD (DX), Z15, Z1
	VPUNPCKLBW Z3, Z2, Z4
	VPUNPCKHBW Z3, Z2, Z5
	VPUNPCKLBW Z1, Z0, Z2
	VPUNPCKHBW Z1, Z0, Z3
	DWORDS(Z2, Z4, 0)
	DWORDS(Z3, Z5, 128)
	ADDQ $256, DI
	ADDQ $64, SI
	ADDQ R10, DX
	ADDQ R11, R8
	ADDQ $64, R9
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET

// func widenF32x512(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·widenF32x512(SB), NOSPLIT, $0-64
	JMP ·joinF32x512(SB)

// func widenBF16x512(dst *float32, low, exp *byte, n int)
TEXT ·widenBF16x512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ low+8(FP), SI
	MOVQ exp+16(FP), R9
	MOVQ n+24(FP), CX
	VPXORQ Z10, Z10, Z10
	FILL(0xff, Z11)
	FILL(0x40, Z12)
	FILL(0x7f, Z13)
	FILL(0x80, Z14)
	VMOVDQU64 fours<>(SB), Z15
	PCALIGN $32
loop:
	VPERMD (R9), Z15, Z0
	VPERMD (SI), Z15, Z1
	VPCMPEQB Z11, Z0, K1 // NaNs become quiet: all of the exponent, some of the mantissa
	VPORQ Z12, Z1, Z2
	VPTESTMB Z13, Z1, K1, K1
	VMOVDQU8 Z2, K1, Z1
	HALVES
	VPUNPCKLBW Z3, Z2, Z4
	VPUNPCKHBW Z3, Z2, Z5
	DWORDS(Z10, Z4, 0)
	DWORDS(Z10, Z5, 128)
	ADDQ $256, DI
	ADDQ $64, SI
	ADDQ $64, R9
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET

// func joinF16x512(dst, low, high, exp *byte, n, highStep int)
TEXT ·joinF16x512(SB), NOSPLIT, $0-48
	SETUPF16
	PCALIGN $32
loop:
	JOINF16
	VMOVDQU64 Z2, (DI)
	VMOVDQU64 Z3, 64(DI)
	ADDQ $128, DI
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET

// func widenF16x512(dst *float32, low, high, exp *byte, n, highStep int)
TEXT ·widenF16x512(SB), NOSPLIT, $0-48
	SETUPF16
	PCALIGN $32
loop:
	JOINF16
	VCVTPH2PS Y2, Z4
	VEXTRACTI64X4 $1, Z2, Y5
	VCVTPH2PS Y3, Z6
	VEXTRACTI64X4 $1, Z3, Y7
	VCVTPH2PS Y5, Z5
	VCVTPH2PS Y7, Z7
	VMOVUPS Z4, (DI)
	VMOVUPS Z5, 64(DI)
	VMOVUPS Z6, 128(DI)
	VMOVUPS Z7, 192(DI)
	ADDQ $256, DI
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET
