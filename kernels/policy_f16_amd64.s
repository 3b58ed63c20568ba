//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// FP16 with saturation, flushing of subnormal results, and nearest-away, by
// parameters:
//
// limit: finite magnitudes above it become the largest FP16 before they are
// rounded; 0x477fe000 (65504), or Inf for none. That is saturation in every
// mode, as what rounds to 65504 anyway may as well be it. (Instructions for
// minima would lose NaNs.)
//
// ties: 1 for nearest-away, else 0. It is or-ed to the bits of all but Inf: a
// tie of FP16 has low bits 0, so that makes it more than a tie, and nothing
// else crosses a value or a tie; NaNs lose their low bits anyway.
//
// Both concern few values, and Inf has to be left alone, which bit 30 of the
// bits tells most cheaply: it is 0 below 2. A block that has it anywhere is
// treated with care.

// Constants of AVX-512: Z10 bit 30, Z11 ties, Z12 limit, Z13 Inf, Z14 65504,
// Z15 sign, Z16 magnitude, Y17 exponent of FP16, Y18 sign of FP16.
#define ENTER512 \
	ARGS \
	PARAM(limit+24(FP), Z12) \
	PARAM(ties+28(FP), Z11) \
	BCAST(0x40000000, Z10) \
	BCAST(0x7f800000, Z13) \
	BCAST(0x477fe000, Z14) \
	BCAST(0x80000000, Z15) \
	BCAST(0x7fffffff, Z16) \
	BCAST(0x7c007c00, Z17) \
	BCAST(0x80008000, Z18)

// CARE saturates X and ors ties to it.
#define CARE(X) \
	VPANDD Z16, X, Z4 \
	VPCMPUD $6, Z12, Z4, K1 \
	VPCMPUD $1, Z13, Z4, K1, K1 \
	VPCMPUD $4, Z13, Z4, K2 \
	VPTERNLOGD $0xea, Z14, Z15, K1, X \
	VPORD Z11, X, K2, X

// FLUSH leaves the sign of subnormals; KEEP does nothing.
#define FLUSH(Y) \
	VPTESTMW Y17, Y, K1 \
	VPANDD Y18, Y, Y4 \
	VMOVDQU16 Y, K1, Y4 \
	VMOVDQA64 Y4, Y

#define KEEP(Y)

#define POLICY512(IMM, LAST) \
	ENTER512 \
	SUBQ $64, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	FAR64 \
	AHEAD64 \
	LOAD64 \
	VPORD Z0, Z1, Z4 \
	VPTERNLOGD $0xfe, Z2, Z3, Z4 \
	VPTESTMD Z10, Z4, K1 \
	KORTESTW K1, K1 \
	JNZ care \
	VPORD Z11, Z0, Z0 \
	VPORD Z11, Z1, Z1 \
	VPORD Z11, Z2, Z2 \
	VPORD Z11, Z3, Z3 \
convert: \
	VCVTPS2PH $IMM, Z0, Y0 \
	VCVTPS2PH $IMM, Z1, Y1 \
	VCVTPS2PH $IMM, Z2, Y2 \
	VCVTPS2PH $IMM, Z3, Y3 \
	LAST(Y0) \
	LAST(Y1) \
	LAST(Y2) \
	LAST(Y3) \
	VMOVDQU Y0, (DI) \
	VMOVDQU Y1, 32(DI) \
	VMOVDQU Y2, 64(DI) \
	VMOVDQU Y3, 96(DI) \
	ADDQ $256, SI \
	ADDQ $128, DI \
	SUBQ $64, CX \
	JAE loop \
tail: \
	ADDQ $64, CX \
	JZ done \
tail16: \
	LANES(K3) \
	VMOVUPS.Z (SI), K3, Z0 \
	CARE(Z0) \
	VCVTPS2PH $IMM, Z0, Y0 \
	LAST(Y0) \
	VMOVDQU16 Y0, K3, (DI) \
	ADDQ $64, SI \
	ADDQ $32, DI \
	SUBQ $16, CX \
	JA tail16 \
	JMP done \
care: \
	CARE(Z0) \
	CARE(Z1) \
	CARE(Z2) \
	CARE(Z3) \
	JMP convert \
done:

// Constants of AVX2: Y8 zero, Y10 bit 30, Y11 ties, Y12 limit, Y13 Inf, Y14
// 65504, Y15 magnitude, X9 exponent of FP16; magnitude of FP16 is in X15 too.
#define ENTER256 \
	ARGS \
	PARAM2(limit+24(FP), X12, Y12) \
	PARAM2(ties+28(FP), X11, Y11) \
	BCAST2(0x40000000, X10, Y10) \
	BCAST2(0x7f800000, X13, Y13) \
	BCAST2(0x477fe000, X14, Y14) \
	BCAST2(0x7fffffff, X15, Y15) \
	BCAST2(0x7c007c00, X9, Y9) \
	BCAST2(0x7fff7fff, X7, Y7) \
	VPXOR Y8, Y8, Y8

#define CARE2(X) \
	VPAND Y15, X, Y4 \
	VPCMPGTD Y12, Y4, Y5 \
	VPCMPGTD Y4, Y13, Y6 \
	VPAND Y6, Y5, Y5 \
	VPANDN X, Y15, Y6 \
	VPOR Y14, Y6, Y6 \
	VBLENDVPS Y5, Y6, X, X \
	VPCMPEQD Y13, Y4, Y4 \
	VPANDN Y11, Y4, Y4 \
	VPOR Y4, X, X

#define FLUSH2(X) \
	VPAND X9, X, X4 \
	VPCMPEQW X8, X4, X4 \
	VPAND X7, X4, X4 \
	VPANDN X, X4, X

#define POLICY256(IMM, LAST) \
	ENTER256 \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	FAR32 \
	AHEAD32 \
	LOAD32 \
	VPOR Y0, Y1, Y4 \
	VPOR Y2, Y3, Y5 \
	VPOR Y4, Y5, Y4 \
	VPTEST Y10, Y4 \
	JNZ care \
	VPOR Y11, Y0, Y0 \
	VPOR Y11, Y1, Y1 \
	VPOR Y11, Y2, Y2 \
	VPOR Y11, Y3, Y3 \
convert: \
	VCVTPS2PH $IMM, Y0, X0 \
	VCVTPS2PH $IMM, Y1, X1 \
	VCVTPS2PH $IMM, Y2, X2 \
	VCVTPS2PH $IMM, Y3, X3 \
	LAST(X0) \
	LAST(X1) \
	LAST(X2) \
	LAST(X3) \
	VMOVDQU X0, (DI) \
	VMOVDQU X1, 16(DI) \
	VMOVDQU X2, 32(DI) \
	VMOVDQU X3, 48(DI) \
	ADDQ $128, SI \
	ADDQ $64, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	ADDQ $32, CX \
	JZ done \
tail8: \
	VMOVUPS (SI), Y0 \
	CARE2(Y0) \
	VCVTPS2PH $IMM, Y0, X0 \
	LAST(X0) \
	VMOVDQU X0, (DI) \
	ADDQ $32, SI \
	ADDQ $16, DI \
	SUBQ $8, CX \
	JA tail8 \
	JMP done \
care: \
	CARE2(Y0) \
	CARE2(Y1) \
	CARE2(Y2) \
	CARE2(Y3) \
	JMP convert \
done:

// func f16PolicyNearest512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyNearest512(SB), NOSPLIT, $0-32
	POLICY512(0, KEEP)
	VZEROUPPER
	RET

// func f16PolicyDown512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyDown512(SB), NOSPLIT, $0-32
	POLICY512(1, KEEP)
	VZEROUPPER
	RET

// func f16PolicyUp512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyUp512(SB), NOSPLIT, $0-32
	POLICY512(2, KEEP)
	VZEROUPPER
	RET

// func f16PolicyZero512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyZero512(SB), NOSPLIT, $0-32
	POLICY512(3, KEEP)
	VZEROUPPER
	RET

// func f16PolicyNearestFlush512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyNearestFlush512(SB), NOSPLIT, $0-32
	POLICY512(0, FLUSH)
	VZEROUPPER
	RET

// func f16PolicyDownFlush512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyDownFlush512(SB), NOSPLIT, $0-32
	POLICY512(1, FLUSH)
	VZEROUPPER
	RET

// func f16PolicyUpFlush512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyUpFlush512(SB), NOSPLIT, $0-32
	POLICY512(2, FLUSH)
	VZEROUPPER
	RET

// func f16PolicyZeroFlush512(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyZeroFlush512(SB), NOSPLIT, $0-32
	POLICY512(3, FLUSH)
	VZEROUPPER
	RET

// Of AVX2, n is a multiple of 8.

// func f16PolicyNearest256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyNearest256(SB), NOSPLIT, $0-32
	POLICY256(0, KEEP)
	VZEROUPPER
	RET

// func f16PolicyDown256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyDown256(SB), NOSPLIT, $0-32
	POLICY256(1, KEEP)
	VZEROUPPER
	RET

// func f16PolicyUp256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyUp256(SB), NOSPLIT, $0-32
	POLICY256(2, KEEP)
	VZEROUPPER
	RET

// func f16PolicyZero256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyZero256(SB), NOSPLIT, $0-32
	POLICY256(3, KEEP)
	VZEROUPPER
	RET

// func f16PolicyNearestFlush256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyNearestFlush256(SB), NOSPLIT, $0-32
	POLICY256(0, FLUSH2)
	VZEROUPPER
	RET

// func f16PolicyDownFlush256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyDownFlush256(SB), NOSPLIT, $0-32
	POLICY256(1, FLUSH2)
	VZEROUPPER
	RET

// func f16PolicyUpFlush256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyUpFlush256(SB), NOSPLIT, $0-32
	POLICY256(2, FLUSH2)
	VZEROUPPER
	RET

// func f16PolicyZeroFlush256(dst *uint16, src *float32, n int, limit, ties uint32)
TEXT ·f16PolicyZeroFlush256(SB), NOSPLIT, $0-32
	POLICY256(3, FLUSH2)
	VZEROUPPER
	RET
