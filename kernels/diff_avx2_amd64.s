//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"
#include "diff_amd64.h"

// With 16 registers the work is done in two passes. The first looks at the
// pairs as integers and leaves y-x in a buffer that stays in the L1 cache; the
// second is the sums of float64, of as many pairs as the first found ordinary.

// Registers of the first pass: R8 inspection, R10 buffer, DX end of ref; R9
// twice the pairs whose bits are equal; Y0, Y1 x; Y2, Y3 y; Y4, Y5 v; Y6, Y7
// y-x; Y8 twice the magnitudes of y as words; Y9 lanes out of the ordinary;
// Y11 sum of v, Y12 sum of v with the sign of x, Y13 largest |y-x|, Y14 mask
// of magnitudes, Y15 zero.

#define ENTER \
	MOVQ c+0(FP), R8 \
	MOVQ buf+8(FP), R10 \
	MOVQ ref+16(FP), SI \
	MOVQ got+24(FP), DI \
	MOVQ n+32(FP), DX \
	LEAQ (SI)(DX*4), DX \
	XORL R9, R9 \
	VMOVDQU AWAY(R8), Y11 \
	VMOVDQU BELOW(R8), Y12 \
	VPADDD Y12, Y12, Y12 \
	VPSUBD Y12, Y11, Y12 \
	VMOVUPS LARGEST(R8), Y13 \
	VMOVDQU magnitude<>(SB), Y14 \
	VPXOR Y15, Y15, Y15

// LEAVE leaves in SI the number of pairs that were done.
#define LEAVE \
	VMOVDQU Y11, AWAY(R8) \
	VPSUBD Y12, Y11, Y12 \
	VPSRAD $1, Y12, Y12 \
	VMOVDQU Y12, BELOW(R8) \
	VMOVUPS Y13, LARGEST(R8) \
	SUBQ ref+16(FP), SI \
	SHRQ $2, SI \
	SHRQ $1, R9 \
	MOVQ SI, AX \
	SUBQ R9, AX \
	ADDQ AX, CHANGED(R8) \
	VZEROUPPER

// DIFFER: v and y-x of both vectors, which goes to the buffer too.
#define DIFFER \
	VPSUBD Y0, Y2, Y4 \
	VPSUBD Y1, Y3, Y5 \
	VSUBPS Y0, Y2, Y6 \
	VSUBPS Y1, Y3, Y7 \
	VMOVUPS Y6, (R10) \
	VMOVUPS Y7, 32(R10)

// EQUALS counts pairs with v = 0, packed in Y10; two bytes each.
#define EQUALS \
	VPCMPEQW Y15, Y10, Y10 \
	VPMOVMSKB Y10, AX \
	POPCNTL AX, AX \
	ADDQ AX, R9

// ADDULPS adds V to the sums; VPSIGND gives it the sign of X.
#define ADDULPS(X, V) \
	VPADDD V, Y11, Y11 \
	VPSIGND X, V, V \
	VPADDD V, Y12, Y12

#define LARGER(D) \
	VPAND Y14, D, D \
	VMAXPS D, Y13, Y13

#define NEXT \
	ADDQ $64, SI \
	ADDQ $32, DI \
	ADDQ $64, R10 \
	CMPQ SI, DX

// SMALL finds the lanes of x below 2^-14 (S), takes them out of V and makes D
// their errors in 2^-40. It adds to Y9 the lanes out of the ordinary. The
// rounding is that of the instructions, not that of MXCSR.
#define SMALL(X, Y, V, D, S, T) \
	VPAND Y14, X, S \
	VPAND Y14, Y, T \
	VPCMPGTD S, Y10, S \
	VPCMPGTD T, Y10, T \
	VPANDN T, S, T \
	VPOR T, Y9, Y9 \
	VPANDN V, S, V \
	VMULPS two40<>(SB), D, D \
	VROUNDPS $0, D, D \
	VCVTTPS2DQ D, D \
	VPAND S, D, D \
	VPADDD ulp<>(SB), D, T \
	VPAND notUlps<>(SB), T, T \
	VPOR T, Y9, Y9

// COUNTSMALL counts lanes that are flushed or newly subnormal, and adds U.
// A and B are scratch, Y10 is 2^-14.
#define COUNTSMALL(X, Y, U, A, B) \
	VPADDD UPS(R8), U, A \
	VMOVDQU A, UPS(R8) \
	VPSRAD $31, X, A \
	VPAND U, A, A \
	VPADDD BELOWS(R8), A, A \
	VMOVDQU A, BELOWS(R8) \
	VPAND Y14, X, A \
	VPAND Y14, Y, B \
	VPCMPGTD A, Y10, U \
	VPCMPGTD B, Y10, Y9 \
	VPAND U, Y9, Y9 \
	VPCMPEQD Y15, B, B \
	VPANDN Y9, B, Y9 \
	VPAND U, B, B \
	VPCMPEQD Y15, A, U \
	VPANDN B, U, B \
	VMOVMSKPS B, AX \
	POPCNTL AX, AX \
	ADDQ AX, FLUSHED(R8) \
	VPCMPGTD subnormal<>(SB), A, A \
	VPAND A, Y9, Y9 \
	VMOVMSKPS Y9, AX \
	POPCNTL AX, AX \
	ADDQ AX, SUBNORMAL(R8)

// RANGE16: Y10 is v of both vectors packed with saturation, in no order; Y9
// has a bit where not -0x2000 < v <= 0x2000.
#define RANGE16 \
	VPACKSSDW Y5, Y4, Y10 \
	VPADDW range16<>(SB), Y10, Y9 \
	VPSUBUSW range16w<>(SB), Y9, Y9

#define LOADLANES(P, A, B, C, D) \
	VMOVUPD (P), A \
	VMOVUPD 32(P), B \
	VMOVUPD 64(P), C \
	VMOVUPD 96(P), D

#define STORELANES(P, A, B, C, D) \
	VMOVUPD A, (P) \
	VMOVUPD B, 32(P) \
	VMOVUPD C, 64(P) \
	VMOVUPD D, 96(P)

// SUM4 adds four pairs to four lanes of the three sums. Products of float32
// are exact in float64, so a fused add rounds as an add does.
#define SUM4(OFF, ERR2, REF2, REFER, X, D) \
	VCVTPS2PD OFF(SI), X \
	VCVTPS2PD OFF(BX), D \
	VFMADD231PD X, X, REF2 \
	VFMADD231PD D, D, ERR2 \
	VFMADD231PD X, D, REFER

#define WIDENF16 VCVTPH2PS (DI), Y2

#define WIDENBF16 \
	VPMOVZXWD (DI), Y2 \
	VPSLLD $16, Y2, Y2

// FIND leaves in AX the first element with |y - x| = abs; there is one.
#define FIND(WIDEN) \
	MOVQ ref+0(FP), SI \
	MOVQ got+8(FP), DI \
	PARAM2(abs+16(FP), X1, Y1) \
	VMOVDQU magnitude<>(SB), Y14 \
loop: \
	WIDEN \
	VSUBPS (SI), Y2, Y2 \
	VPAND Y14, Y2, Y2 \
	ADDQ $32, SI \
	ADDQ $16, DI \
	VPCMPEQD Y1, Y2, Y2 \
	VMOVMSKPS Y2, AX \
	TESTL AX, AX \
	JZ loop \
	BSFL AX, AX \
	SUBQ ref+0(FP), SI \
	SHRQ $2, SI \
	LEAQ -8(SI)(AX*1), AX

VEC(magnitude, 0x7fffffff7fffffff)
VEC(range16, 0x1fff1fff1fff1fff)
VEC(range16w, 0x3fff3fff3fff3fff)
VEC(low16, 0x0802080208020802)
VEC(span16, 0xeffaeffaeffaeffa)
VEC(huge16, 0xf7fdf7fdf7fdf7fd)
VEC(normal16, 0x3880000038800000)
VEC(two40, 0x5380000053800000)
VEC(ulp, 0x0001000000010000)
VEC(notUlps, 0xfffc0000fffc0000)
VEC(subnormal, 0x007fffff007fffff)
VEC(range, 0x0000ffff0000ffff)
VEC(notRange, 0xfffe0000fffe0000)
VEC(low, 0x0004000400040004)
VEC(span, 0xfef8fef8fef8fef8)
VEC(least, 0x0002000200020002)
VEC(huge, 0xfefdfefdfefdfefd)

// func diffF16x256(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int
// n is a multiple of 16.
TEXT ·diffF16x256(SB), NOSPLIT, $0-48
	ENTER
	CMPQ SI, DX
	JAE done
	PCALIGN $32
loop:
	PREFETCHT0 4096(SI)
	PREFETCHT0 2048(DI)
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVDQU (DI), Y8
	VCVTPH2PS (DI), Y2
	VCVTPH2PS 16(DI), Y3
	DIFFER
	RANGE16
	VPADDW Y8, Y8, Y8
	VPSUBW low16<>(SB), Y8, Y2
	VPSUBUSW span16<>(SB), Y2, Y2 // at most 2^-14, or at least 65504
	VPOR Y2, Y9, Y9
	VPTEST Y9, Y9
	JNZ rare
	EQUALS
ordinary:
	LARGER(Y6)
	LARGER(Y7)
	ADDULPS(Y0, Y4)
	ADDULPS(Y1, Y5)
	NEXT
	JB loop
done:
	LEAVE
	MOVQ SI, ret+40(FP)
	RET

rare: // Y13 is needed
	VMOVUPS Y13, LARGEST(R8)
	VPSUBUSW huge16<>(SB), Y8, Y9
	VCVTPH2PS (DI), Y2
	VMOVDQU normal16<>(SB), Y10
	SMALL(Y0, Y2, Y4, Y6, Y8, Y13)
	SMALL(Y1, Y3, Y5, Y7, Y8, Y13)
	VMOVDQU Y9, Y8
	RANGE16
	VPOR Y8, Y9, Y9
	VPTEST Y9, Y9
	VMOVUPS LARGEST(R8), Y13
	JNZ done
	VPSUBD Y0, Y2, Y8 // v of all lanes again
	VPSUBD Y1, Y3, Y9
	VPACKSSDW Y9, Y8, Y10
	EQUALS
	VMOVDQU normal16<>(SB), Y10
	COUNTSMALL(Y0, Y2, Y6, Y8, Y13)
	COUNTSMALL(Y1, Y3, Y7, Y8, Y13)
	VMOVUPS LARGEST(R8), Y13
	VMOVUPS (R10), Y6
	VMOVUPS 32(R10), Y7
	JMP ordinary

// func diffBF16x256(c *inspection, buf *[inspectRun]float32, ref *float32, got *uint16, n int) int
// n is a multiple of 16.
TEXT ·diffBF16x256(SB), NOSPLIT, $0-48
	ENTER
	CMPQ SI, DX
	JAE done
	PCALIGN $32
loop:
	PREFETCHT0 4096(SI)
	PREFETCHT0 2048(DI)
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVDQU (DI), Y8
	VPMOVZXWD (DI), Y2
	VPMOVZXWD 16(DI), Y3
	VPSLLD $16, Y2, Y2
	VPSLLD $16, Y3, Y3
	DIFFER
	VPADDD range<>(SB), Y4, Y9
	VPADDD range<>(SB), Y5, Y10
	VPOR Y10, Y9, Y9
	VPAND notRange<>(SB), Y9, Y9 // not -0x10000 < v <= 0x10000
	VPACKSSDW Y5, Y4, Y10
	VPADDW Y8, Y8, Y8
	VPSUBW low<>(SB), Y8, Y2
	VPSUBUSW span<>(SB), Y2, Y2 // at most the least number, or at least the largest
	VPOR Y9, Y2, Y2
	VPTEST Y2, Y2
	JNZ rare
ordinary:
	EQUALS
	LARGER(Y6)
	LARGER(Y7)
	ADDULPS(Y0, Y4)
	ADDULPS(Y1, Y5)
	NEXT
	JB loop
done:
	LEAVE
	MOVQ SI, ret+40(FP)
	RET

rare: // go on if the only matter is zeros that come from zeros
	VPSUBUSW huge<>(SB), Y8, Y2
	VPOR Y9, Y2, Y2
	VPCMPEQW least<>(SB), Y8, Y3 // if x is zero, VPSIGND cannot tell its sign
	VPOR Y3, Y2, Y2
	VPTEST Y2, Y2
	JNZ done
	VPMOVZXWD (DI), Y2
	VPMOVZXWD 16(DI), Y3
	VPSLLD $17, Y2, Y2
	VPSLLD $17, Y3, Y3
	VPCMPEQD Y15, Y2, Y2
	VPCMPEQD Y15, Y3, Y3
	VPAND Y0, Y2, Y2
	VPAND Y1, Y3, Y3
	VPOR Y2, Y3, Y2
	VPTEST Y14, Y2
	JNZ done
	JMP ordinary

// func diffSumsx256(err2, ref2, refEr *[16]float64, ref *float32, buf *[inspectRun]float32, n int)
// n is a multiple of 16.
TEXT ·diffSumsx256(SB), NOSPLIT, $0-48
	MOVQ err2+0(FP), AX
	MOVQ ref2+8(FP), R8
	MOVQ refEr+16(FP), R9
	MOVQ ref+24(FP), SI
	MOVQ buf+32(FP), BX
	MOVQ n+40(FP), CX
	LOADLANES(AX, Y0, Y1, Y2, Y3)
	LOADLANES(R8, Y4, Y5, Y6, Y7)
	LOADLANES(R9, Y8, Y9, Y10, Y11)
	PCALIGN $32
loop:
	SUM4(0, Y0, Y4, Y8, Y12, Y13)
	SUM4(16, Y1, Y5, Y9, Y14, Y15)
	SUM4(32, Y2, Y6, Y10, Y12, Y13)
	SUM4(48, Y3, Y7, Y11, Y14, Y15)
	ADDQ $64, SI
	ADDQ $64, BX
	SUBQ $16, CX
	JA loop
	STORELANES(AX, Y0, Y1, Y2, Y3)
	STORELANES(R8, Y4, Y5, Y6, Y7)
	STORELANES(R9, Y8, Y9, Y10, Y11)
	VZEROUPPER
	RET

// func findF16x256(ref *float32, got *uint16, abs float32) int
TEXT ·findF16x256(SB), NOSPLIT, $0-32
	FIND(WIDENF16)
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func findBF16x256(ref *float32, got *uint16, abs float32) int
TEXT ·findBF16x256(SB), NOSPLIT, $0-32
	FIND(WIDENBF16)
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET
