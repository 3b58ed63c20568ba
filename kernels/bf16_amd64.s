//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// BF16 is rounded with integers: a bias is added to the bits, and the high
// half of the sum is the result. The carry runs into the exponent as it
// should, up to Inf. VCVTNEPS2BF16 is not used: it takes subnormals for zero.
//
// NaNs must not carry, and become quiet: a block that has any is done again
// with care. One unordered compare of a pair of vectors finds both.
//
//	nearest even        0x7fff, and 1 more if the kept part is odd
//	nearest away        0x8000
//	toward zero         0
//	up, down            0xffff for one sign, 0 for the other

// Constants: Z10 0x10000, Z11 bias, Z12 bias of odd or negative x,
// Z13 quiet bit, Z14 index and Z15 mask of PACKHI.
#define CONSTS512 \
	BCAST(0x00010000, Z10) \
	BCAST(0x00400000, Z13) \
	BCAST(0xffff0000, Z15) \
	VMOVDQU64 hiwords<>(SB), Z14

#define NOTHING

// ROUND macros: R = X + bias. K is scratch.
#define NEAREST(X, R, K) \
	VPTESTMD Z10, X, K \
	VPADDD Z11, X, R \
	VPADDD Z12, X, K, R

#define BYSIGN(X, R, K) \
	VPMOVD2M X, K \
	VPADDD Z11, X, R \
	VPADDD Z12, X, K, R

#define SAMEBIAS(X, R, K) VPADDD Z11, X, R

// QUIET puts a quiet NaN into R where X is a NaN.
#define QUIET(X, R, K) \
	VCMPPS $3, X, X, K \
	VPORD Z13, X, K, R

#define STORE64 \
	FAR64 \
	AHEAD64 \
	VMOVDQU64 Z4, (DI) \
	VMOVDQU64 Z6, 64(DI)

#define STORENT \
	FAR64 \
	VMOVNTDQ Z4, (DI) \
	VMOVNTDQ Z6, 64(DI)

// BIAS512 converts 64 elements a turn, then up to 16 under a mask.
#define BIAS512(ROUND, STORE) \
	SUBQ $64, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	LOAD64 \
	VCMPPS $3, Z0, Z1, K5 \
	VCMPPS $3, Z2, Z3, K6 \
	ROUND(Z0, Z4, K1) \
	ROUND(Z1, Z5, K2) \
	ROUND(Z2, Z6, K3) \
	ROUND(Z3, Z7, K4) \
	KORTESTW K5, K6 \
	JNZ nan \
pack: \
	PACKHI(Z4, Z5, Z15, Z14) \
	PACKHI(Z6, Z7, Z15, Z14) \
	STORE \
	ADDQ $256, SI \
	ADDQ $128, DI \
	SUBQ $64, CX \
	JAE loop \
tail: \
	ADDQ $64, CX \
	JZ done \
tail16: \
	LANES(K1) \
	VMOVUPS.Z (SI), K1, Z0 \
	ROUND(Z0, Z4, K2) \
	QUIET(Z0, Z4, K2) \
	VPSRLD $16, Z4, Z4 \
	VPMOVDW Z4, Y4 \
	VMOVDQU16 Y4, K1, (DI) \
	ADDQ $64, SI \
	ADDQ $32, DI \
	SUBQ $16, CX \
	JA tail16 \
	JMP done \
nan: \
	QUIET(Z0, Z4, K1) \
	QUIET(Z1, Z5, K2) \
	QUIET(Z2, Z6, K3) \
	QUIET(Z3, Z7, K4) \
	JMP pack \
done:

// Constants of AVX2: Y12 1, Y13 zero, Y14 bias, Y15 quiet bit. The ROUND
// macros: R = (X + bias) >> 16; X is lost.
#define NEAREST2(X, R) \
	VPSRLD $16, X, R \
	VPADDD Y14, X, X \
	VPAND Y12, R, R \
	VPADDD X, R, R \
	VPSRLD $16, R, R

#define UP2(X, R) \
	VPADDD Y14, X, R \
	VBLENDVPS X, X, R, R \
	VPSRLD $16, R, R

#define DOWN2(X, R) \
	VPADDD Y14, X, R \
	VBLENDVPS X, R, X, R \
	VPSRLD $16, R, R

#define SAMEBIAS2(X, R) \
	VPADDD Y14, X, R \
	VPSRLD $16, R, R

// QUIET2 puts a quiet NaN into R where X, loaded anew, is a NaN.
#define QUIET2(M, X, R, T) \
	VMOVUPS M, X \
	VCMPPS $3, X, X, T \
	VPOR Y15, X, X \
	VPSRLD $16, X, X \
	VBLENDVPS T, X, R, R

// BIAS256 converts 32 elements a turn, then 8; n is a multiple of 8. ST stores
// whole turns, PRE comes before each.
#define BIAS256(ROUND, ST, PRE) \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	LOAD32 \
	VCMPPS $3, Y0, Y1, Y8 \
	VCMPPS $3, Y2, Y3, Y9 \
	ROUND(Y0, Y4) \
	ROUND(Y1, Y5) \
	ROUND(Y2, Y6) \
	ROUND(Y3, Y7) \
	VORPS Y8, Y9, Y8 \
	VMOVMSKPS Y8, AX \
	TESTL AX, AX \
	JNZ nan \
pack: \
	PACK2(Y4, Y5) \
	PACK2(Y6, Y7) \
	ST Y4, (DI) \
	ST Y6, 32(DI) \
	ADDQ $128, SI \
	ADDQ $64, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	ADDQ $32, CX \
	JZ done \
tail8: \
	VMOVUPS (SI), Y0 \
	ROUND(Y0, Y4) \
	QUIET2((SI), Y0, Y4, Y8) \
	PACK2(Y4, Y4) \
	VMOVDQU X4, (DI) \
	ADDQ $32, SI \
	ADDQ $16, DI \
	SUBQ $8, CX \
	JA tail8 \
	JMP done \
nan: \
	QUIET2((SI), Y0, Y4, Y8) \
	QUIET2(32(SI), Y1, Y5, Y8) \
	QUIET2(64(SI), Y2, Y6, Y8) \
	QUIET2(96(SI), Y3, Y7, Y8) \
	JMP pack \
done:

// NEAREST256 is BIAS256 for nearest-even. The bias is 0x8000, as for
// nearest-away, unless the block has a tie: then, and only then, the low half
// of a sum is zero. That is found by the minimum of all vectors as words, and
// costs less than to look at the bit that decides.
#define NEAREST256(ST, PRE) \
	ARGS \
	BCAST2(1, X12, Y12) \
	BCAST2(0x8000, X14, Y14) \
	BCAST2(0x00400000, X15, Y15) \
	VPXOR Y13, Y13, Y13 \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	LOAD32 \
	VPADDD Y14, Y0, Y4 \
	VPADDD Y14, Y1, Y5 \
	VPADDD Y14, Y2, Y6 \
	VPADDD Y14, Y3, Y7 \
	VCMPPS $3, Y0, Y1, Y8 \
	VCMPPS $3, Y2, Y3, Y9 \
	VPMINUW Y4, Y5, Y10 \
	VPMINUW Y6, Y7, Y11 \
	VPOR Y8, Y9, Y8 \
	VPMINUW Y10, Y11, Y10 \
	VPCMPEQW Y13, Y10, Y10 \
	VPOR Y8, Y10, Y8 \
	VPMOVMSKB Y8, AX \
	TESTL $0x33333333, AX \
	JNZ care \
	VPSRLD $16, Y4, Y4 \
	VPSRLD $16, Y5, Y5 \
	VPSRLD $16, Y6, Y6 \
	VPSRLD $16, Y7, Y7 \
pack: \
	PACK2(Y4, Y5) \
	PACK2(Y6, Y7) \
	ST Y4, (DI) \
	ST Y6, 32(DI) \
	ADDQ $128, SI \
	ADDQ $64, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	BCAST2(0x7fff, X14, Y14) \
	ADDQ $32, CX \
	JZ done \
tail8: \
	VMOVUPS (SI), Y0 \
	NEAREST2(Y0, Y4) \
	QUIET2((SI), Y0, Y4, Y8) \
	PACK2(Y4, Y4) \
	VMOVDQU X4, (DI) \
	ADDQ $32, SI \
	ADDQ $16, DI \
	SUBQ $8, CX \
	JA tail8 \
	JMP done \
care: \
	BCAST2(0x7fff, X14, Y14) \
	NEAREST2(Y0, Y4) \
	NEAREST2(Y1, Y5) \
	NEAREST2(Y2, Y6) \
	NEAREST2(Y3, Y7) \
	BCAST2(0x8000, X14, Y14) \
	QUIET2((SI), Y0, Y4, Y8) \
	QUIET2(32(SI), Y1, Y5, Y8) \
	QUIET2(64(SI), Y2, Y6, Y8) \
	QUIET2(96(SI), Y3, Y7, Y8) \
	JMP pack \
done:

HIWORDS

// func bf16Nearest512(dst *uint16, src *float32, n int)
TEXT ·bf16Nearest512(SB), NOSPLIT, $0-24
	ARGS
	CONSTS512
	BCAST(0x7fff, Z11)
	BCAST(0x8000, Z12)
	BIAS512(NEAREST, STORE64)
	VZEROUPPER
	RET

// func bf16Nearest512NT(dst *uint16, src *float32, n int)
// Non-temporal stores: dst on 64 bytes.
TEXT ·bf16Nearest512NT(SB), NOSPLIT, $0-24
	ARGS
	CONSTS512
	BCAST(0x7fff, Z11)
	BCAST(0x8000, Z12)
	BIAS512(NEAREST, STORENT)
	SFENCE
	VZEROUPPER
	RET

// func bf16BySign512(dst *uint16, src *float32, n int, pos, neg uint32)
TEXT ·bf16BySign512(SB), NOSPLIT, $0-32
	ARGS
	CONSTS512
	PARAM(pos+24(FP), Z11)
	PARAM(neg+28(FP), Z12)
	BIAS512(BYSIGN, STORE64)
	VZEROUPPER
	RET

// func bf16BySign512NT(dst *uint16, src *float32, n int, pos, neg uint32)
TEXT ·bf16BySign512NT(SB), NOSPLIT, $0-32
	ARGS
	CONSTS512
	PARAM(pos+24(FP), Z11)
	PARAM(neg+28(FP), Z12)
	BIAS512(BYSIGN, STORENT)
	SFENCE
	VZEROUPPER
	RET

// func bf16Bias512(dst *uint16, src *float32, n int, bias uint32)
TEXT ·bf16Bias512(SB), NOSPLIT, $0-28
	ARGS
	CONSTS512
	PARAM(bias+24(FP), Z11)
	BIAS512(SAMEBIAS, STORE64)
	VZEROUPPER
	RET

// func bf16Bias512NT(dst *uint16, src *float32, n int, bias uint32)
TEXT ·bf16Bias512NT(SB), NOSPLIT, $0-28
	ARGS
	CONSTS512
	PARAM(bias+24(FP), Z11)
	BIAS512(SAMEBIAS, STORENT)
	SFENCE
	VZEROUPPER
	RET

// The kernels of AVX2. n is a multiple of 8; with non-temporal stores, of 32,
// and dst is on 32 bytes.

// func bf16Nearest256(dst *uint16, src *float32, n int)
TEXT ·bf16Nearest256(SB), NOSPLIT, $0-24
	NEAREST256(VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func bf16Nearest256NT(dst *uint16, src *float32, n int)
TEXT ·bf16Nearest256NT(SB), NOSPLIT, $0-24
	NEAREST256(VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func bf16Up256(dst *uint16, src *float32, n int)
TEXT ·bf16Up256(SB), NOSPLIT, $0-24
	ARGS
	BCAST2(0xffff, X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(UP2, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func bf16Up256NT(dst *uint16, src *float32, n int)
TEXT ·bf16Up256NT(SB), NOSPLIT, $0-24
	ARGS
	BCAST2(0xffff, X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(UP2, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func bf16Down256(dst *uint16, src *float32, n int)
TEXT ·bf16Down256(SB), NOSPLIT, $0-24
	ARGS
	BCAST2(0xffff, X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(DOWN2, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func bf16Down256NT(dst *uint16, src *float32, n int)
TEXT ·bf16Down256NT(SB), NOSPLIT, $0-24
	ARGS
	BCAST2(0xffff, X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(DOWN2, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func bf16Bias256(dst *uint16, src *float32, n int, bias uint32)
TEXT ·bf16Bias256(SB), NOSPLIT, $0-28
	ARGS
	PARAM2(bias+24(FP), X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(SAMEBIAS2, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func bf16Bias256NT(dst *uint16, src *float32, n int, bias uint32)
TEXT ·bf16Bias256NT(SB), NOSPLIT, $0-28
	ARGS
	PARAM2(bias+24(FP), X14, Y14)
	BCAST2(0x00400000, X15, Y15)
	BIAS256(SAMEBIAS2, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET
