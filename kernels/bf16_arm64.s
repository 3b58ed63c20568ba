//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"
#include "narrow_arm64.h"

// BF16 is the upper half of a float32, so rounding is the addition of a bias
// to the bits; its carry goes into the exponent, and from the largest finite
// value to Inf.

#define QUIET 21 // 0x00400000
#define POSITIVE 22 // the bias of positive values
#define NEGATIVE 23
#define LSB 24 // 1 to add the lowest bit that is kept: ties to even

// NARROW packs the upper halves of V12-V15, but quiet NaN where V0-V3 are NaN.
// V8-V11 are their magnitudes.
#define NARROW \
	EACH(CMHI_4S, INF, 8, 8); \
	EACH(ORR_16B, QUIET, 0, 0); \
	QUAD3(BIT_16B, 8, 0, 12); \
	OP3(UZP2_8H, 13, 12, 12); \
	OP3(UZP2_8H, 15, 14, 13)

// BIAS makes V4-V7 the bias by sign of V0-V3.
#define BIAS \
	QUAD2(CMLT0_4S, 0, 4); \
	OP3(BSL_16B, POSITIVE, NEGATIVE, 4); \
	OP3(BSL_16B, POSITIVE, NEGATIVE, 5); \
	OP3(BSL_16B, POSITIVE, NEGATIVE, 6); \
	OP3(BSL_16B, POSITIVE, NEGATIVE, 7)

// func bf16Nearest(dst *uint16, src *float32, n int)
TEXT ·bf16Nearest(SB), NOSPLIT, $0-24
	START
	CONST(0x00400000, V21)
	CONST(0x7fff, V22)

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	QUAD2(FABS_4S, 0, 8)
	EACH(ADD_4S, POSITIVE, 0, 12)
	EACH(SHL_4S, 32+15, 0, 4)      // the lowest bit that is kept
	EACH(USRA_4S, 64-31, 4, 12)
	NARROW
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func bf16Biased(dst *uint16, src *float32, n int, pos, neg uint32)
TEXT ·bf16Biased(SB), NOSPLIT, $0-32
	START
	CONST(0x00400000, V21)
	ARG(pos+24(FP), V22)
	ARG(neg+28(FP), V23)

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	QUAD2(FABS_4S, 0, 8)
	BIAS
	QUAD3(ADD_4S, 4, 0, 12)
	NARROW
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func bf16Full(dst *uint16, src *float32, n int, limit, keep, pos, neg, lsb uint32)
TEXT ·bf16Full(SB), NOSPLIT, $0-44
	START
	FULL(0x7f80)
	CONST(0x00400000, V21)
	ARG(pos+32(FP), V22)
	ARG(neg+36(FP), V23)
	ARG(lsb+40(FP), V24)

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	CLAMP
	SIGNED
	BIAS
	EACH(USHR_4S, 64-16, 0, 12)
	EACH(AND_16B, LSB, 12, 12)
	QUAD3(ADD_4S, 4, 12, 12)
	QUAD3(ADD_4S, 0, 12, 12)
	NARROW
	FLUSH
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func bf16Stochastic(dst *uint16, src *float32, n int, limit, keep, k0, k1, j uint32)
TEXT ·bf16Stochastic(SB), NOSPLIT, $0-44
	START
	FULL(0x7f80)
	CONST(0x00400000, V21)
	DRAWS

loop:
	LSR  $1, R8, R7
	DRAW(R7)
	MOVD $2, R10

half:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	CLAMP
	SIGNED
	EACH(SHL_4S, 32+16, 4, 12)
	EACH(USHR_4S, 64-16, 12, 12)
	QUAD3(ADD_4S, 0, 12, 12)
	NARROW
	FLUSH
	VST1.P [V12.H8, V13.H8], 32(R0)
	EACH(USHR_4S, 64-16, 4, 4)
	SUBS   $1, R10, R10
	BNE    half
	ADD    $32, R8, R8
	SUBS   $32, R2, R2
	BNE    loop
	RET
