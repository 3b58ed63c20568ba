//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// BF16 with saturation and flushing of subnormal results, in every mode, by
// parameters:
//
// limit: finite magnitudes above it become the largest BF16, and are so
// rounded; 0x7f7f0000, or Inf for none.
//
// bias and other: what is added to x, other if the bit is set that sel
// chooses: bit 16 for nearest-even, the sign for all else.
//
// mask: bits of BF16 of which a result has one, or becomes zero: the exponent
// to flush, all to keep.
//
// Saturation and NaNs concern values above 2, which bit 30 tells; a block that
// has it anywhere is treated with care.

// Constants of AVX-512: Z8 mask, Z9 sign of BF16, Z10 sel, Z11 bias, Z12
// other, Z13 quiet bit, Z14 and Z15 as for PACKHI, Z16 bit 30, Z17 limit, Z18
// Inf, Z19 largest, Z20 sign, Z21 magnitude.

#define ENTER512 \
	ARGS \
	PARAM(limit+24(FP), Z17) \
	PARAM(bias+28(FP), Z11) \
	PARAM(other+32(FP), Z12) \
	PARAM(sel+36(FP), Z10) \
	PARAM(mask+40(FP), Z8) \
	BCAST(0x80008000, Z9) \
	BCAST(0x00400000, Z13) \
	BCAST(0xffff0000, Z15) \
	BCAST(0x40000000, Z16) \
	BCAST(0x7f800000, Z18) \
	BCAST(0x7f7f0000, Z19) \
	BCAST(0x80000000, Z20) \
	BCAST(0x7fffffff, Z21) \
	VMOVDQU64 hiwords<>(SB), Z14

#define ROUND(X, R, K) \
	VPTESTMD Z10, X, K \
	VPADDD Z11, X, R \
	VPADDD Z12, X, K, R

// CARE rounds X, which may be anything.
#define CARE(X, R) \
	VPANDD Z21, X, R \
	VPCMPUD $6, Z17, R, K1 \
	VPCMPUD $1, Z18, R, K1, K1 \
	VCMPPS $3, X, X, K2 \
	VPTERNLOGD $0xea, Z19, Z20, K1, X \
	ROUND(X, R, K3) \
	VPORD Z13, X, K2, R

// FLUSH leaves the sign of what has no bit of the mask. T is scratch.
#define FLUSH(R, T) \
	VPTESTMW Z8, R, K1 \
	VPANDD Z9, R, T \
	VMOVDQU16 R, K1, T

// Constants of AVX2: Y7 zero, X8 shift, Y9 other minus bias, Y10 mask, Y11
// bias, Y12 limit, Y13 Inf, Y14 quiet bit, Y15 magnitude. Memory holds more.
#define ENTER256 \
	ARGS \
	PARAM2(limit+24(FP), X12, Y12) \
	PARAM2(bias+28(FP), X11, Y11) \
	PARAM2(other+32(FP), X9, Y9) \
	VPSUBD Y11, Y9, Y9 \
	MOVL sel+36(FP), AX \
	BSRL AX, AX \
	XORL $31, AX \
	VMOVD AX, X8 \
	PARAM2(mask+40(FP), X10, Y10) \
	BCAST2(0x7f800000, X13, Y13) \
	BCAST2(0x00400000, X14, Y14) \
	BCAST2(0x7fffffff, X15, Y15) \
	VPXOR Y7, Y7, Y7

// ROUND2: X = (X + bias) >> 16. The bit of sel is shifted to the sign, and
// from there over all bits.
#define ROUND2(X, T) \
	VPSLLD X8, X, T \
	VPADDD Y11, X, X \
	VPSRAD $31, T, T \
	VPAND Y9, T, T \
	VPADDD T, X, X \
	VPSRLD $16, X, X

// CARE2 rounds X, which may be anything.
#define CARE2(X) \
	VPAND Y15, X, Y4 \
	VPCMPGTD Y12, Y4, Y5 \
	VPCMPGTD Y4, Y13, Y6 \
	VPAND Y6, Y5, Y5 \
	VPANDN X, Y15, Y6 \
	VPOR largest<>(SB), Y6, Y6 \
	VBLENDVPS Y5, Y6, X, Y6 \
	VPCMPGTD Y13, Y4, Y4 \
	VPOR Y14, X, X \
	VPSRLD $16, X, X \
	ROUND2(Y6, Y5) \
	VBLENDVPS Y4, X, Y6, X

#define FLUSH2(R) \
	VPAND Y10, R, Y4 \
	VPCMPEQW Y7, Y4, Y4 \
	VPAND magnitude<>(SB), Y4, Y4 \
	VPANDN R, Y4, R

HIWORDS
VEC(largest, 0x7f7f00007f7f0000)
VEC(magnitude, 0x7fff7fff7fff7fff)
VEC(bit30, 0x4000000040000000)

// func bf16Policy512(dst *uint16, src *float32, n int, limit, bias, other, sel, mask uint32)
TEXT ·bf16Policy512(SB), NOSPLIT, $0-44
	ENTER512
	SUBQ $64, CX
	JB tail
	PCALIGN $32
loop:
	FAR64
	AHEAD64
	LOAD64
	VPORD Z0, Z1, Z4
	VPTERNLOGD $0xfe, Z2, Z3, Z4
	VPTESTMD Z16, Z4, K1
	KORTESTW K1, K1
	JNZ care
	ROUND(Z0, Z4, K1)
	ROUND(Z1, Z5, K2)
	ROUND(Z2, Z6, K3)
	ROUND(Z3, Z7, K4)
pack:
	PACKHI(Z4, Z5, Z15, Z14)
	PACKHI(Z6, Z7, Z15, Z14)
	FLUSH(Z4, Z5)
	FLUSH(Z6, Z7)
	VMOVDQU64 Z5, (DI)
	VMOVDQU64 Z7, 64(DI)
	ADDQ $256, SI
	ADDQ $128, DI
	SUBQ $64, CX
	JAE loop
tail:
	ADDQ $64, CX
	JZ done
tail16:
	LANES(K4)
	VMOVUPS.Z (SI), K4, Z0
	CARE(Z0, Z4)
	VPSRLD $16, Z4, Z4
	VPMOVDW Z4, Y4
	FLUSH(Z4, Z5)
	VMOVDQU16 Y5, K4, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $16, CX
	JA tail16
	JMP done
care:
	CARE(Z0, Z4)
	CARE(Z1, Z5)
	CARE(Z2, Z6)
	CARE(Z3, Z7)
	JMP pack
done:
	VZEROUPPER
	RET

// func bf16Policy256(dst *uint16, src *float32, n int, limit, bias, other, sel, mask uint32)
// n is a multiple of 8.
TEXT ·bf16Policy256(SB), NOSPLIT, $0-44
	ENTER256
	SUBQ $32, CX
	JB tail
	PCALIGN $32
loop:
	FAR32
	AHEAD32
	LOAD32
	VPOR Y0, Y1, Y4
	VPOR Y2, Y3, Y5
	VPOR Y4, Y5, Y4
	VPTEST bit30<>(SB), Y4
	JNZ care
	ROUND2(Y0, Y4)
	ROUND2(Y1, Y5)
	ROUND2(Y2, Y4)
	ROUND2(Y3, Y5)
pack:
	PACK2(Y0, Y1)
	PACK2(Y2, Y3)
	FLUSH2(Y0)
	FLUSH2(Y2)
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	SUBQ $32, CX
	JAE loop
tail:
	ADDQ $32, CX
	JZ done
tail8:
	VMOVUPS (SI), Y0
	CARE2(Y0)
	PACK2(Y0, Y0)
	FLUSH2(Y0)
	VMOVDQU X0, (DI)
	ADDQ $32, SI
	ADDQ $16, DI
	SUBQ $8, CX
	JA tail8
	JMP done
care:
	CARE2(Y0)
	CARE2(Y1)
	CARE2(Y2)
	CARE2(Y3)
	JMP pack
done:
	VZEROUPPER
	RET
