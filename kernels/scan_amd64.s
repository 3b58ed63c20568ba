//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// Layout of type scanned.
#define HIST 2048
#define FITF16 (8*HIST)
#define FITBF16 (FITF16+32)
#define ZEROS (FITF16+64)
#define LARGEST (FITF16+96)
#define LEAST (FITF16+128)

// BINS counts four values by sign and exponent, in the histograms from H on:
// each of eight values has its own, as an increment waits for the one before
// of the same address.
#define BINS(OFF, H) \
	MOVL OFF(SI), AX \
	MOVL (OFF+4)(SI), BX \
	MOVL (OFF+8)(SI), CX \
	MOVL (OFF+12)(SI), R9 \
	SHRL $23, AX \
	SHRL $23, BX \
	SHRL $23, CX \
	SHRL $23, R9 \
	INCL (H*HIST)(R8)(AX*4) \
	INCL ((H+1)*HIST)(R8)(BX*4) \
	INCL ((H+2)*HIST)(R8)(CX*4) \
	INCL ((H+3)*HIST)(R8)(R9*4)

// FIGURES takes eight values X of magnitudes A. A value fits FP16 if it comes
// back: toward zero, which leaves no Inf. Zero less one is the largest integer.
#define FIGURES(X, A) \
	VPADDD minusOne<>(SB), A, Y13 \
	VPMINUD Y13, Y12, Y12 \
	VPCMPEQD Y15, A, A \
	VPSUBD A, Y10, Y10 \
	VPSLLD $16, X, Y13 \
	VPCMPEQD Y15, Y13, Y13 \
	VPSUBD Y13, Y9, Y9 \
	VCVTPS2PH $3, X, X13 \
	VCVTPH2PS X13, Y13 \
	VPCMPEQD X, Y13, Y13 \
	VPSUBD Y13, Y8, Y8

VEC(magnitude, 0x7fffffff7fffffff)
VEC(largestFinite, 0x7f7fffff7f7fffff)
VEC(minusOne, 0xffffffffffffffff)

// func scanF32x256(c *scanned, src *float32, n int) int
// n is a multiple of 32.
TEXT ·scanF32x256(SB), NOSPLIT, $0-32
	MOVQ c+0(FP), R8
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	LEAQ (SI)(DX*4), DX
	VMOVDQU FITF16(R8), Y8
	VMOVDQU FITBF16(R8), Y9
	VMOVDQU ZEROS(R8), Y10
	VMOVDQU LARGEST(R8), Y11
	VMOVDQU LEAST(R8), Y12
	VPXOR Y15, Y15, Y15
	CMPQ SI, DX
	JAE done
	PCALIGN $32
loop:
	FAR32
	LOAD32
	VPAND magnitude<>(SB), Y0, Y4
	VPAND magnitude<>(SB), Y1, Y5
	VPAND magnitude<>(SB), Y2, Y6
	VPAND magnitude<>(SB), Y3, Y7
	VPMAXUD Y4, Y5, Y13
	VPMAXUD Y6, Y7, Y14
	VPMAXUD Y13, Y14, Y13
	VPCMPGTD largestFinite<>(SB), Y13, Y14
	VPTEST Y14, Y14
	JNZ done
	VPMAXUD Y13, Y11, Y11
	FIGURES(Y0, Y4)
	BINS(0, 0)
	BINS(16, 4)
	FIGURES(Y1, Y5)
	BINS(32, 0)
	BINS(48, 4)
	FIGURES(Y2, Y6)
	BINS(64, 0)
	BINS(80, 4)
	FIGURES(Y3, Y7)
	BINS(96, 0)
	BINS(112, 4)
	ADDQ $128, SI
	CMPQ SI, DX
	JB loop
done:
	VMOVDQU Y8, FITF16(R8)
	VMOVDQU Y9, FITBF16(R8)
	VMOVDQU Y10, ZEROS(R8)
	VMOVDQU Y11, LARGEST(R8)
	VMOVDQU Y12, LEAST(R8)
	SUBQ src+8(FP), SI
	SHRQ $2, SI
	MOVQ SI, ret+24(FP)
	VZEROUPPER
	RET
