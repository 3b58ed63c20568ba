//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// The method is that of the AVX-512 kernels, with the 16 draws of a group of
// 32 elements in Y4 and Y5. Unsigned compares are signed ones after a flip of
// the sign.

// Registers: R8 number of the element; Y0-Y3 results of 8 elements; Y10 zero,
// Y11 and Y12 multipliers, Y13 k1, Y14 key, Y15 counter; Y6-Y9 scratch.
#define ENTER \
	ARGS \
	MOVL j+40(FP), R8 \
	MOVL R8, BX \
	SHRL $1, BX \
	VMOVD BX, X15 \
	VPBROADCASTD X15, Y15 \
	VPADDD iota<>(SB), Y15, Y15 \
	SHRL $16, BX \
	MOVL k0+32(FP), AX \
	XORL AX, BX \
	SHRL $16, AX \
	XORL AX, BX \
	VMOVD BX, X14 \
	VPBROADCASTD X14, Y14 \
	PARAM2(k1+36(FP), X13, Y13) \
	BCAST2(0x7feb352d, X12, Y12) \
	BCAST2(0x846ca68b, X11, Y11) \
	VPXOR Y10, Y10, Y10

// MIX is lowbias32 without its first step, and the xor with k1.
#define MIX(H, T) \
	VPMULLD Y12, H, H \
	VPSRLD $15, H, T \
	VPXOR T, H, H \
	VPMULLD Y11, H, H \
	VPSRLD $16, H, T \
	VPXOR Y13, H, H \
	VPXOR T, H, H

// DRAW makes Y4 and Y5 the next 16 draws.
#define DRAW \
	VPXOR Y15, Y14, Y4 \
	VPADDD eight<>(SB), Y15, Y15 \
	VPXOR Y15, Y14, Y5 \
	VPADDD eight<>(SB), Y15, Y15 \
	MIX(Y4, Y6) \
	MIX(Y5, Y7)

// UNUSUAL clears the zero flag if a word of Y0 or Y2 has a magnitude below
// that in LOW, or in SPAN more or above, which are given as twice of it.
#define UNUSUAL(LOW, SPAN) \
	VPADDW Y0, Y0, Y6 \
	VPADDW Y2, Y2, Y7 \
	VPSUBW LOW<>(SB), Y6, Y6 \
	VPSUBW LOW<>(SB), Y7, Y7 \
	VPSUBUSW SPAN<>(SB), Y6, Y6 \
	VPSUBUSW SPAN<>(SB), Y7, Y7 \
	VPOR Y6, Y7, Y6 \
	VPTEST Y6, Y6

// SATURATE loads X, with its magnitude to A, and makes it the largest number
// if it is above the limit.
#define SATURATE(M, LARGEST, X, A, T, K) \
	VMOVUPS M, X \
	VPAND magnitude<>(SB), X, A \
	VPBROADCASTD limit+24(FP), K \
	VPCMPGTD K, A, K \
	VMOVDQU inf<>(SB), T \
	VPCMPGTD A, T, T \
	VPAND T, K, K \
	VPXOR A, X, T \
	VPOR LARGEST<>(SB), T, T \
	VBLENDVPS K, T, X, X

// FLUSH makes words of R zero that have no bit of the mask. T is scratch.
#define FLUSH(R, T) \
	VPBROADCASTD mask+28(FP), T \
	VPAND R, T, T \
	VPCMPEQW Y10, T, T \
	VPAND lowWord<>(SB), T, T \
	VPANDN R, T, R

#define BITSBF16 \
	VPBLENDW $0xaa, Y10, Y4, Y0 \
	VPBLENDW $0xaa, Y10, Y5, Y1 \
	VPSRLD $16, Y4, Y2 \
	VPSRLD $16, Y5, Y3

// CAREBF16 rounds 8 elements, which may be anything, by the bits in R.
#define CAREBF16(M, R) \
	SATURATE(M, largestBF16, Y6, Y7, Y8, Y9) \
	VPADDD Y6, R, R \
	VCMPPS $3, Y6, Y6, Y9 \
	VPOR quiet<>(SB), Y6, Y6 \
	VBLENDVPS Y9, Y6, R, R \
	VPSRLD $16, R, R

#define BITSF16 \
	VPSRLD $3, Y4, Y0 \
	VPSRLD $3, Y5, Y1 \
	VPSRLD $19, Y4, Y2 \
	VPSRLD $19, Y5, Y3 \
	VPAND low13<>(SB), Y0, Y0 \
	VPAND low13<>(SB), Y1, Y1

// DRAW32 makes R the 32 bits of the 8 elements from R8 + OFF on.
#define DRAW32(OFF, XR, R, T) \
	LEAL OFF(R8), AX \
	ORL $0x80000000, AX \
	VMOVD AX, XR \
	VPBROADCASTD XR, R \
	VPADDD iota<>(SB), R, R \
	VPBROADCASTD k0+32(FP), T \
	VPXOR T, R, R \
	VPSRLD $16, R, T \
	VPXOR T, R, R \
	MIX(R, T)

// FRACTION makes F, 0 <= F < 1, the 32 bits floor(F * 2^32), by halves, for
// conversion is to signed integers.
#define FRACTION(F, T) \
	VCMPPS $0x0d, half<>(SB), F, T \
	VANDPS half<>(SB), T, Y9 \
	VSUBPS Y9, F, F \
	VMULPS two32<>(SB), F, F \
	VCVTTPS2DQ F, F \
	VPSLLD $31, T, T \
	VPXOR T, F, F

// CAREF16 rounds the 8 elements from OFF on, which may be anything, by the
// bits in R, and stores them: see the kernel of AVX-512.
#define CAREF16(OFF, R, XR) \
	SATURATE((OFF*4)(SI), largestF16, Y6, Y7, Y8, Y9) \
	VPADDD Y6, R, R \
	VPAND high19<>(SB), R, R \
	VPCMPGTD finite<>(SB), Y7, Y8 \
	VBLENDVPS Y8, Y6, R, R \
	VCVTPS2PH $0, R, XR \
	VPSRLD $16, Y6, Y6 \
	VPAND signWord<>(SB), Y6, Y6 \
	VMULPS two24<>(SB), Y7, Y4 \
	VROUNDPS $3, Y4, Y8 \
	VSUBPS Y8, Y4, Y4 \
	VCVTTPS2DQ Y8, Y8 \
	VPOR Y8, Y6, Y6 \
	FRACTION(Y4, Y8) \
	DRAW32(OFF, X8, Y8, Y9) \
	VPXOR sign<>(SB), Y8, Y8 \
	VPXOR sign<>(SB), Y4, Y4 \
	VPCMPGTD Y8, Y4, Y4 \
	VPSUBD Y4, Y6, Y6 \
	PACK2(Y6, Y6) \
	VMOVDQU normalF16<>(SB), Y8 \
	VPCMPGTD Y7, Y8, Y7 \
	VPACKSSDW Y7, Y7, Y7 \
	VPERMQ $0xd8, Y7, Y7 \
	VPBLENDVB X7, X6, XR, XR \
	FLUSH(R, Y8) \
	VMOVDQU XR, (OFF*2)(DI)

VEC(magnitude, 0x7fffffff7fffffff)
VEC(sign, 0x8000000080000000)
VEC(inf, 0x7f8000007f800000)
VEC(finite, 0x7f7fffff7f7fffff)
VEC(quiet, 0x0040000000400000)
VEC(eight, 0x0000000800000008)
VEC(largestBF16, 0x7f7f00007f7f0000)
VEC(largestF16, 0x477fe000477fe000)
VEC(normalF16, 0x3880000038800000)
VEC(lowBF16, 0x0100010001000100)
VEC(spanBF16, 0xfdfdfdfdfdfdfdfd)
VEC(lowF16, 0x0802080208020802)
VEC(spanF16, 0xeffbeffbeffbeffb)
VEC(low13, 0x00001fff00001fff)
VEC(high19, 0xffffe000ffffe000)
VEC(lowWord, 0x7fff7fff7fff7fff)
VEC(signWord, 0x0000800000008000)
VEC(half, 0x3f0000003f000000)
VEC(two24, 0x4b8000004b800000)
VEC(two32, 0x4f8000004f800000)

DATA iota<>+0(SB)/8, $0x0000000100000000
DATA iota<>+8(SB)/8, $0x0000000300000002
DATA iota<>+16(SB)/8, $0x0000000500000004
DATA iota<>+24(SB)/8, $0x0000000700000006
GLOBL iota<>(SB), RODATA|NOPTR, $32

// func bf16Stochastic256(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)
// n is a multiple of 32, not 0, and so is j.
TEXT ·bf16Stochastic256(SB), NOSPLIT, $0-44
	ENTER
	PCALIGN $32
loop:
	FAR32
	AHEAD32
	DRAW
	BITSBF16
	VPADDD (SI), Y0, Y0
	VPADDD 32(SI), Y1, Y1
	VPADDD 64(SI), Y2, Y2
	VPADDD 96(SI), Y3, Y3
	VPSRLD $16, Y0, Y0
	VPSRLD $16, Y1, Y1
	VPSRLD $16, Y2, Y2
	VPSRLD $16, Y3, Y3
	PACK2(Y0, Y1)
	PACK2(Y2, Y3)
	UNUSUAL(lowBF16, spanBF16)
	JNZ care
store:
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	SUBQ $32, CX
	JNZ loop
	VZEROUPPER
	RET
care:
	BITSBF16
	CAREBF16((SI), Y0)
	CAREBF16(32(SI), Y1)
	CAREBF16(64(SI), Y2)
	CAREBF16(96(SI), Y3)
	PACK2(Y0, Y1)
	PACK2(Y2, Y3)
	FLUSH(Y0, Y6)
	FLUSH(Y2, Y6)
	JMP store

// func f16Stochastic256(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)
// n is a multiple of 32, not 0, and so is j.
TEXT ·f16Stochastic256(SB), NOSPLIT, $0-44
	ENTER
	PCALIGN $32
loop:
	FAR32
	AHEAD32
	DRAW
	BITSF16
	VPADDD (SI), Y0, Y0
	VPADDD 32(SI), Y1, Y1
	VPADDD 64(SI), Y2, Y2
	VPADDD 96(SI), Y3, Y3
	VCVTPS2PH $3, Y0, X0
	VCVTPS2PH $3, Y1, X1
	VCVTPS2PH $3, Y2, X2
	VCVTPS2PH $3, Y3, X3
	VINSERTI128 $1, X1, Y0, Y0
	VINSERTI128 $1, X3, Y2, Y2
	UNUSUAL(lowF16, spanF16)
	JNZ care
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
next:
	ADDQ $128, SI
	ADDQ $64, DI
	ADDL $32, R8
	SUBQ $32, CX
	JNZ loop
	VZEROUPPER
	RET
care:
	BITSF16
	CAREF16(0, Y0, X0)
	CAREF16(8, Y1, X1)
	CAREF16(16, Y2, X2)
	CAREF16(24, Y3, X3)
	JMP next
