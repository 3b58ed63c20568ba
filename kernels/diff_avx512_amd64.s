//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"
#include "diff_amd64.h"

// Registers of both kernels: R8 inspection, DX end of ref; R9 pairs that
// differ, R10 flushed, R11 subnormal; Z16-Z17 err2, Z18-Z19 ref2, Z20-Z21
// refEr, Z22 sum of v, Z23 sum of v where x < 0, Z24 largest |d|; Z25, Z26
// like Z22, Z23 for subnormal FP16; Z27-Z31 constants; Z0, Z1 are x, Z2, Z3
// are y, Z4, Z5 are v, Z6, Z7 are d.

#define ENTER \
	MOVQ c+0(FP), R8 \
	MOVQ err2+8(FP), AX \
	MOVQ ref2+16(FP), BX \
	MOVQ refEr+24(FP), CX \
	VMOVUPD (AX), Z16 \
	VMOVUPD 64(AX), Z17 \
	VMOVUPD (BX), Z18 \
	VMOVUPD 64(BX), Z19 \
	VMOVUPD (CX), Z20 \
	VMOVUPD 64(CX), Z21 \
	VMOVDQU32 AWAY(R8), Z22 \
	VMOVDQU32 BELOW(R8), Z23 \
	VMOVDQU32 UPS(R8), Z25 \
	VMOVDQU32 BELOWS(R8), Z26 \
	VMOVUPS LARGEST(R8), Z24 \
	XORL R9, R9 \
	XORL R10, R10 \
	XORL R11, R11 \
	MOVQ ref+32(FP), SI \
	MOVQ got+40(FP), DI \
	MOVQ n+48(FP), DX \
	LEAQ (SI)(DX*4), DX

// LEAVE leaves in SI the number of pairs that were done.
#define LEAVE \
	MOVQ err2+8(FP), AX \
	MOVQ ref2+16(FP), BX \
	MOVQ refEr+24(FP), CX \
	VMOVUPD Z16, (AX) \
	VMOVUPD Z17, 64(AX) \
	VMOVUPD Z18, (BX) \
	VMOVUPD Z19, 64(BX) \
	VMOVUPD Z20, (CX) \
	VMOVUPD Z21, 64(CX) \
	VMOVDQU32 Z22, AWAY(R8) \
	VMOVDQU32 Z23, BELOW(R8) \
	VMOVDQU32 Z25, UPS(R8) \
	VMOVDQU32 Z26, BELOWS(R8) \
	VMOVUPS Z24, LARGEST(R8) \
	ADDQ R9, CHANGED(R8) \
	ADDQ R10, FLUSHED(R8) \
	ADDQ R11, SUBNORMAL(R8) \
	SUBQ ref+32(FP), SI \
	SHRQ $2, SI \
	VZEROUPPER

// COUNT adds the number of lanes of K to R. W is W, D or Q by the size of K.
#define COUNT(MOV, POP, K, R) \
	MOV K, AX \
	POP AX, AX \
	ADDQ AX, R

// ULPS adds v to the sums; the sign of x decides. VPMOVD2M and a masked add
// are two uops.
#define ULPS(X, V, K) \
	VPADDD V, Z22, Z22 \
	VPMOVD2M X, K \
	VPADDD V, Z23, K, Z23

// SUMS adds to the sums of float64. X is converted from memory, which saves
// Intel the shuffle of the form with registers; d goes through the stack for
// the same reason.
#define SUMS(D, OFF) \
	VMOVUPS D, OFF(BX) \
	VCVTPS2PD OFF(SI), Z8 \
	VCVTPS2PD (OFF+32)(SI), Z9 \
	VRANGEPS $0x0b, D, Z24, Z24 \
	VFMADD231PD Z8, Z8, Z18 \
	VFMADD231PD Z9, Z9, Z19 \
	VCVTPS2PD OFF(BX), Z10 \
	VCVTPS2PD (OFF+32)(BX), Z11 \
	VFMADD231PD Z10, Z10, Z16 \
	VFMADD231PD Z11, Z11, Z17 \
	VFMADD231PD Z8, Z10, Z20 \
	VFMADD231PD Z9, Z11, Z21

// SCRATCH makes BX point to 128 bytes of the frame, on a cache line.
#define SCRATCH \
	LEAQ 63(SP), BX \
	ANDQ $~63, BX

// VERROR: V = bits(y) - bits(x) of both vectors.
#define VERROR \
	VPSUBD Z0, Z2, Z4 \
	VPSUBD Z1, Z3, Z5

#define WORDS(VAL, Z) \
	MOVL $VAL, AX \
	VPBROADCASTW AX, Z

// RANGE16: K = lanes of 32 words where not -step < v <= step for v in Z4, Z5,
// packed with saturation, in no order, into Z12. FP16: step is 0x2000.
#define RANGE16(K) \
	VPACKSSDW Z5, Z4, Z12 \
	VPADDW Z27, Z12, Z13 \
	VPCMPUW $6, Z28, Z13, K

// SMALL finds in K1 the lanes of x below 2^-14 and takes them out of V, and
// makes U their errors in 2^-40. K2: lanes that are out of the ordinary.
#define SMALL(X, Y, V, D, U) \
	VPANDD Z31, X, Z8 \
	VPANDD Z31, Y, Z9 \
	VPCMPUD $1, Z14, Z8, K1 \
	VPCMPUD $1, Z14, Z9, K2 \
	KANDNW K2, K1, K2 \
	VPXORD V, V, K1, V \
	VMULPS.Z Z15, D, K1, U \
	VCVTPS2DQ.RN_SAE U, U \
	VPABSD U, Z10 \
	VPCMPUD $6, Z11, Z10, K3 \
	KORW K2, K3, K2

// COUNTSMALL counts lanes that are flushed or newly subnormal, and adds U.
#define COUNTSMALL(X, Y, U) \
	VPANDD Z31, X, Z8 \
	VPANDD Z31, Y, Z9 \
	VPCMPUD $1, Z14, Z8, K1 \
	VPTESTMD Z8, Z8, K1, K2 \
	VPTESTNMD Z9, Z9, K2, K2 \
	COUNT(KMOVW, POPCNTL, K2, R10) \
	VPCMPUD $1, Z14, Z9, K1, K2 \
	VPTESTMD Z9, Z9, K2, K2 \
	VPCMPUD $5, Z10, Z8, K2, K2 \
	COUNT(KMOVW, POPCNTL, K2, R11) \
	VPADDD U, Z25, Z25 \
	VPMOVD2M X, K2 \
	VPADDD U, Z26, K2, Z26

#define WIDENF16 VCVTPH2PS (DI), Z2

#define WIDENBF16 \
	VPMOVZXWD (DI), Z2 \
	VPSLLD $16, Z2, Z2

// FIND leaves in AX the first element with |y - x| = abs; there is one.
#define FIND(WIDEN) \
	MOVQ ref+0(FP), SI \
	MOVQ got+8(FP), DI \
	MOVL abs+16(FP), AX \
	VPBROADCASTD AX, Z1 \
	BCAST(0x7fffffff, Z31) \
loop: \
	WIDEN \
	VSUBPS (SI), Z2, Z2 \
	VPANDD Z31, Z2, Z2 \
	ADDQ $64, SI \
	ADDQ $32, DI \
	VPCMPEQD Z1, Z2, K1 \
	KORTESTW K1, K1 \
	JZ loop \
	KMOVW K1, AX \
	BSFL AX, AX \
	SUBQ ref+0(FP), SI \
	SHRQ $2, SI \
	LEAQ -16(SI)(AX*1), AX

// func diffF16x512(c *inspection, err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int) int
// n is a multiple of 32.
TEXT ·diffF16x512(SB), NOSPLIT, $192-64
	ENTER
	SCRATCH
	WORDS(0x1fff, Z27)
	WORDS(0x3fff, Z28)
	WORDS(0x0802, Z29)
	WORDS(0xeffa, Z30)
	BCAST(0x7fffffff, Z31)
	CMPQ SI, DX
	JAE done
	PCALIGN $32
loop:
	FAR32
	PREFETCHT0 2048(DI)
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVDQU16 (DI), Z15
	VCVTPH2PS (DI), Z2
	VCVTPH2PS 32(DI), Z3
	VERROR
	VPADDW Z15, Z15, Z15 // twice the magnitude of y
	VPSUBW Z29, Z15, Z14
	VPCMPUW $6, Z30, Z14, K1 // at most 2^-14, or at least 65504
	VSUBPS Z0, Z2, Z6
	VSUBPS Z1, Z3, Z7
	RANGE16(K2)
	VPTESTMW Z12, Z12, K6
	KORTESTD K1, K2
	JNZ rare
ordinary:
	COUNT(KMOVD, POPCNTL, K6, R9)
	ULPS(Z0, Z4, K4)
	ULPS(Z1, Z5, K5)
	SUMS(Z6, 0)
	SUMS(Z7, 64)
	ADDQ $128, SI
	ADDQ $64, DI
	CMPQ SI, DX
	JB loop
done:
	LEAVE
	MOVQ SI, ret+56(FP)
	RET

rare:
	WORDS(0xf7fd, Z8)
	VPCMPUW $6, Z8, Z15, K1
	KTESTD K1, K1
	JNZ done
	BCAST(0x38800000, Z14) // 2^-14
	BCAST(0x53800000, Z15) // 2^40
	BCAST(0x00010000, Z11)
	SMALL(Z0, Z2, Z4, Z6, Z12)
	KMOVW K2, CX
	SMALL(Z1, Z3, Z5, Z7, Z13)
	KMOVW K2, AX
	ORL AX, CX
	JNZ done
	VMOVDQA64 Z12, Z9
	VMOVDQA64 Z13, Z11
	RANGE16(K2)
	KTESTD K2, K2
	JNZ done
	BCAST(0x00800000, Z10)
	VMOVDQA64 Z9, Z12
	COUNTSMALL(Z0, Z2, Z12)
	COUNTSMALL(Z1, Z3, Z11)
	JMP ordinary


// func diffBF16x512(c *inspection, err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int) int
// n is a multiple of 32.
TEXT ·diffBF16x512(SB), NOSPLIT, $192-64
	ENTER
	SCRATCH
	BCAST(0x0000ffff, Z27)
	BCAST(0xfffe0000, Z28)
	WORDS(2, Z29)
	WORDS(0xfefa, Z30)
	BCAST(0x7fffffff, Z31)
	CMPQ SI, DX
	JAE done
	PCALIGN $32
loop:
	FAR32
	PREFETCHT0 2048(DI)
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVDQU16 (DI), Z15
	VPMOVZXWD (DI), Z2
	VPMOVZXWD 32(DI), Z3
	VPSLLD $16, Z2, Z2
	VPSLLD $16, Z3, Z3
	VERROR
	VPADDW Z15, Z15, Z15 // twice the magnitude of y
	VPSUBW Z29, Z15, Z14
	VPCMPUW $6, Z30, Z14, K1 // zero, or at least the largest number
	VSUBPS Z0, Z2, Z6
	VSUBPS Z1, Z3, Z7
	VPADDD Z27, Z4, Z8
	VPADDD Z27, Z5, Z9
	VPORD Z8, Z9, Z8
	VPTESTMD Z28, Z8, K2 // not -0x10000 < v <= 0x10000
	VPACKSSDW Z5, Z4, Z12
	VPTESTMW Z12, Z12, K6
	KORTESTD K1, K2
	JNZ rare
ordinary:
	COUNT(KMOVD, POPCNTL, K6, R9)
	ULPS(Z0, Z4, K4)
	ULPS(Z1, Z5, K5)
	SUMS(Z6, 0)
	SUMS(Z7, 64)
	ADDQ $128, SI
	ADDQ $64, DI
	CMPQ SI, DX
	JB loop
done:
	LEAVE
	MOVQ SI, ret+56(FP)
	RET

rare: // go on if the only matter is zeros that come from zeros
	WORDS(0xfefd, Z8)
	VPCMPUW $6, Z8, Z15, K1
	KORTESTD K1, K2
	JNZ done
	VPTESTNMD Z31, Z2, K1
	VPTESTNMD Z31, Z3, K2
	VPTESTMD Z31, Z0, K1, K1
	VPTESTMD Z31, Z1, K2, K2
	KORTESTW K1, K2
	JNZ done
	JMP ordinary

// func findF16x512(ref *float32, got *uint16, abs float32) int
TEXT ·findF16x512(SB), NOSPLIT, $0-32
	FIND(WIDENF16)
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func findBF16x512(ref *float32, got *uint16, abs float32) int
TEXT ·findBF16x512(SB), NOSPLIT, $0-32
	FIND(WIDENBF16)
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET
