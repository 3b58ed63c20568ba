//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// A vector of 16 draws (see Stream) has the bits for a group of 32 elements:
// the low halves for the first 16, the high halves for the others. Of the
// draw's first step, c ^= c>>16, nothing is left to do but the xor with a
// constant, because c>>16 is the same for a whole call.
//
// The kernels round as if all was normal and look at the results: a group in
// which one may be subnormal, zero, the largest number, Inf or NaN is done
// again with care.

// Constants: Z16 counter, Z17 its step, Z18 key, Z19 k1, Z20 and Z21
// multipliers, Z15 and Z14 as for PACKHI; Z22 draws, Z23 scratch.
#define ENTER \
	ARGS \
	MOVL j+40(FP), R8 \
	MOVL R8, BX \
	SHRL $1, BX \
	VPBROADCASTD BX, Z16 \
	VPADDD iota<>(SB), Z16, Z16 \
	SHRL $16, BX \
	MOVL k0+32(FP), AX \
	XORL AX, BX \
	SHRL $16, AX \
	XORL AX, BX \
	VPBROADCASTD BX, Z18 \
	PARAM(k1+36(FP), Z19) \
	BCAST(16, Z17) \
	BCAST(0x7feb352d, Z20) \
	BCAST(0x846ca68b, Z21) \
	BCAST(0xffff0000, Z15)

// DRAW makes Z22 the next 16 draws.
#define DRAW \
	VPXORD Z16, Z18, Z22 \
	VPADDD Z17, Z16, Z16 \
	VPMULLD Z20, Z22, Z22 \
	VPSRLD $15, Z22, Z23 \
	VPXORD Z23, Z22, Z22 \
	VPMULLD Z21, Z22, Z22 \
	VPSRLD $16, Z22, Z23 \
	VPTERNLOGD $0x96, Z19, Z23, Z22

// UNUSUAL: K1 = words of Z4 whose magnitude is below that in Z25 or is that in
// Z26 more, which are given as twice of it. Z6 is scratch.
#define UNUSUAL \
	VPADDW Z4, Z4, Z6 \
	VPSUBW Z25, Z6, Z6 \
	VPCMPUW $5, Z26, Z6, K1

// SATURATE makes magnitudes of X above the limit the largest number; A gets
// the magnitude before that. Z27 limit, Z28 largest, Z29 magnitude, Z30 Inf,
// Z31 sign.
#define SATURATE(X, A) \
	VPANDD Z29, X, A \
	VPCMPUD $6, Z27, A, K1 \
	VPCMPUD $1, Z30, A, K1, K1 \
	VPTERNLOGD $0xea, Z28, Z31, K1, X

#define SATURATION(LARGEST) \
	PARAM(limit+24(FP), Z27) \
	BCAST(LARGEST, Z28) \
	BCAST(0x7fffffff, Z29) \
	BCAST(0x7f800000, Z30) \
	BCAST(0x80000000, Z31)

#define WORDS(VAL, Z) \
	MOVL $VAL, AX \
	VPBROADCASTW AX, Z

// CAREBF16 rounds X, which may be anything, by the bits in R.
#define CAREBF16(X, R) \
	SATURATE(X, Z6) \
	VPADDD X, R, R \
	VCMPPS $3, X, X, K2 \
	VPORD Z24, X, K2, R

// CAREF16 rounds X, which may be anything, to words in Y, by the bits in R: 13
// of a normal X. Z5 has the 32 bits of a small one: n = floor(|X| * 2^24), up
// if they are less than the rest * 2^32. NaN and Inf are left to the
// conversion.
#define CAREF16(X, R, Y) \
	SATURATE(X, Z6) \
	VPCMPUD $1, Z10, Z6, K2 \
	VPCMPUD $5, Z30, Z6, K3 \
	VPADDD X, R, R \
	VPANDD Z11, R, R \
	VMOVDQA32 X, K3, R \
	VCVTPS2PH $0, R, Y \
	VMULPS.Z Z12, Z6, K2, Z6 \
	VRNDSCALEPS $0x0b, Z6, Z7 \
	VSUBPS Z7, Z6, Z6 \
	VMULPS Z13, Z6, Z6 \
	VCVTTPS2UDQ Z6, Z6 \
	VCVTTPS2DQ Z7, Z7 \
	VPCMPUD $1, Z6, Z5, K3 \
	VPSUBD Z9, Z7, K3, Z7 \
	VPSRLD $16, X, Z6 \
	VPANDD Z8, Z6, Z6 \
	VPORD Z6, Z7, Z7 \
	VPMOVDW Z7, Y7 \
	VMOVDQU16 Y7, K2, Y

// DRAW32 makes Z5 the 32 bits of the 16 elements from R8 + OFF on.
#define DRAW32(OFF) \
	LEAL OFF(R8), AX \
	ORL $0x80000000, AX \
	VPBROADCASTD AX, Z5 \
	VPADDD iota<>(SB), Z5, Z5 \
	PARAM(k0+32(FP), Z6) \
	VPXORD Z6, Z5, Z5 \
	VPSRLD $16, Z5, Z6 \
	VPXORD Z6, Z5, Z5 \
	VPMULLD Z20, Z5, Z5 \
	VPSRLD $15, Z5, Z6 \
	VPXORD Z6, Z5, Z5 \
	VPMULLD Z21, Z5, Z5 \
	VPSRLD $16, Z5, Z6 \
	VPTERNLOGD $0x96, Z19, Z6, Z5

HIWORDS

DATA iota<>+0(SB)/8, $0x0000000100000000
DATA iota<>+8(SB)/8, $0x0000000300000002
DATA iota<>+16(SB)/8, $0x0000000500000004
DATA iota<>+24(SB)/8, $0x0000000700000006
DATA iota<>+32(SB)/8, $0x0000000900000008
DATA iota<>+40(SB)/8, $0x0000000b0000000a
DATA iota<>+48(SB)/8, $0x0000000d0000000c
DATA iota<>+56(SB)/8, $0x0000000f0000000e
GLOBL iota<>(SB), RODATA|NOPTR, $64

// func bf16Stochastic512(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)
// n is a multiple of 32, not 0, and so is j.
TEXT ·bf16Stochastic512(SB), NOSPLIT, $0-44
	ENTER
	VMOVDQU64 hiwords<>(SB), Z14
	SATURATION(0x7f7f0000)
	BCAST(0x00400000, Z24)
	WORDS(0x0100, Z25)
	WORDS(0xfdfe, Z26)
	BCAST(0x0000ffff, Z13)
	PCALIGN $32
loop:
	FAR32
	AHEAD32
	DRAW
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VPANDD Z13, Z22, Z4
	VPSRLD $16, Z22, Z5
	VPADDD Z0, Z4, Z4
	VPADDD Z1, Z5, Z5
	PACKHI(Z4, Z5, Z15, Z14)
	UNUSUAL
	KORTESTD K1, K1
	JNZ care
store:
	VMOVDQU64 Z4, (DI)
	ADDQ $128, SI
	ADDQ $64, DI
	SUBQ $32, CX
	JNZ loop
	VZEROUPPER
	RET
care:
	VPANDD Z13, Z22, Z4
	VPSRLD $16, Z22, Z5
	CAREBF16(Z0, Z4)
	CAREBF16(Z1, Z5)
	PACKHI(Z4, Z5, Z15, Z14)
	PARAM(mask+28(FP), Z6) // results without a bit of it become zero
	VPTESTNMW Z6, Z4, K1
	WORDS(0x8000, Z6)
	VPANDD Z6, Z4, Z6
	VMOVDQU16 Z6, K1, Z4
	JMP store

// func f16Stochastic512(dst *uint16, src *float32, n int, limit, mask, k0, k1, j uint32)
// n is a multiple of 32, not 0, and so is j.
TEXT ·f16Stochastic512(SB), NOSPLIT, $0-44
	ENTER
	SATURATION(0x477fe000)
	WORDS(0x0802, Z25)
	WORDS(0xeffc, Z26)
	BCAST(0x00001fff, Z14)
	BCAST(0x00008000, Z8)
	VPTERNLOGD $0xff, Z9, Z9, Z9
	BCAST(0x38800000, Z10) // 2^-14
	BCAST(0xffffe000, Z11)
	BCAST(0x4b800000, Z12) // 2^24
	BCAST(0x4f800000, Z13) // 2^32
	PCALIGN $32
loop:
	FAR32
	AHEAD32
	DRAW
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VPSRLD $3, Z22, Z2
	VPSRLD $19, Z22, Z3
	VPANDD Z14, Z2, Z2
	VPADDD Z0, Z2, Z4
	VPADDD Z1, Z3, Z5
	VCVTPS2PH $3, Z4, Y4
	VCVTPS2PH $3, Z5, Y5
	VINSERTI64X4 $1, Y5, Z4, Z4
	UNUSUAL
	KORTESTD K1, K1
	JNZ care
store:
	VMOVDQU64 Z4, (DI)
	ADDQ $128, SI
	ADDQ $64, DI
	ADDL $32, R8
	SUBQ $32, CX
	JNZ loop
	VZEROUPPER
	RET
care:
	DRAW32(0)
	CAREF16(Z0, Z2, Y4)
	DRAW32(16)
	CAREF16(Z1, Z3, Y2)
	VINSERTI64X4 $1, Y2, Z4, Z4
	PARAM(mask+28(FP), Z6) // results without a bit of it become zero
	VPTESTNMW Z6, Z4, K1
	WORDS(0x8000, Z6)
	VPANDD Z6, Z4, Z6
	VMOVDQU16 Z6, K1, Z4
	JMP store
