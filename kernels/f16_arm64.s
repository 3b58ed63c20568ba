//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"
#include "narrow_arm64.h"

// FCVTN rounds as FPCR.RMode says: 0 nearest even, 1 up, 2 down, 3 zero.
// Overflow and NaN come out as the package wants them.

// RMODE sets the rounding mode and keeps the old FPCR in R5.
#define RMODE(arg) \
	MOVWU arg, R4; \
	MRS FPCR, R5; \
	BIC $(3<<22), R5, R6; \
	ORR R4<<22, R6, R6; \
	MSR R6, FPCR

#define NARROW \
	OP2(FCVTN_4H, 0, 12); \
	OP2(FCVTN2_8H, 1, 12); \
	OP2(FCVTN_4H, 2, 13); \
	OP2(FCVTN2_8H, 3, 13)

// Constants of the kernels that round in integers.
#define TOP 21 // the bits of a float32 that a normal float16 keeps
#define NORMAL 22 // 2^-14, the smallest normal float16
#define UP24 23 // 2^24, which makes the step of subnormal float16 1
#define DOWN24 24 // 2^-24

#define GRID \
	CONST(0xffffe000, V21); \
	CONST(0x38800000, V22); \
	CONST(0x4b800000, V23); \
	CONST(0x33800000, V24)

// AWAY1 rounds magnitude a, ties away from zero: normal ones by half a step
// and truncation, smaller ones in units of 2^-24; Inf survives, NaN is kept.
#define AWAY1(a, t, u, v) \
	OP3(ADD_4S, 25, a, t); \
	OP3(AND_16B, TOP, t, t); \
	OP3(FMUL_4S, UP24, a, u); \
	OP2(FRINTA_4S, u, u); \
	OP3(FMUL_4S, DOWN24, u, u); \
	OP3(CMHI_4S, a, NORMAL, v); \
	OP3(BIT_16B, v, u, t); \
	OP3(CMHI_4S, INF, a, v); \
	OP3(BIF_16B, v, t, a)

// DITHER1 makes magnitude a the sum with its 13 random bits t, truncated; NaN
// stays. (Inf does so by the truncation.)
#define DITHER1(t, a) \
	OP3(ADD_4S, a, t, t); \
	OP3(AND_16B, TOP, t, t); \
	OP3(CMHI_4S, INF, a, 25); \
	OP3(BIF_16B, 25, t, a)

// SMALL1 makes magnitude a the rounded value of x if that is below 2^-14: in
// units of 2^-24, up if u < floor(fraction * 2^32). V25 is 1, V15 2^32.
#define SMALL1(x, u, a) \
	OP2(FABS_4S, x, 14); \
	OP3(FMUL_4S, UP24, 14, 12); \
	OP2(FRINTZ_4S, 12, 13); \
	OP3(FSUB_4S, 13, 12, 12); \
	OP3(FMUL_4S, 15, 12, 12); \
	OP2(FCVTZU_4S, 12, 12); \
	OP3(CMHI_4S, u, 12, 12); \
	OP3(AND_16B, 25, 12, 12); \
	OP3(FADD_4S, 12, 13, 13); \
	OP3(FMUL_4S, DOWN24, 13, 13); \
	OP3(CMHI_4S, 14, NORMAL, 14); \
	OP3(BIT_16B, 14, 13, a)

// func f16Plain(dst *uint16, src *float32, n int, rmode uint32)
TEXT ·f16Plain(SB), NOSPLIT, $0-28
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	RMODE(rmode+24(FP))

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	NARROW
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	MSR    R5, FPCR
	RET

// func f16Full(dst *uint16, src *float32, n int, limit, keep, rmode uint32)
TEXT ·f16Full(SB), NOSPLIT, $0-36
	START
	FULL(0x7c00)
	RMODE(rmode+32(FP))

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	CLAMP
	SIGNED
	NARROW
	FLUSH
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	MSR    R5, FPCR
	RET

// func f16Away(dst *uint16, src *float32, n int, limit, keep uint32)
TEXT ·f16Away(SB), NOSPLIT, $0-32
	START
	FULL(0x7c00)
	GRID
	CONST(0x1000, V25)

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	CLAMP
	AWAY1(8, 4, 5, 6)
	AWAY1(9, 12, 13, 14)
	AWAY1(10, 4, 5, 6)
	AWAY1(11, 12, 13, 14)
	SIGNED
	NARROW
	FLUSH
	VST1.P [V12.H8, V13.H8], 32(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func f16Stochastic(dst *uint16, src *float32, n int, limit, keep, k0, k1, j uint32)
TEXT ·f16Stochastic(SB), NOSPLIT, $0-44
	START
	FULL(0x7c00)
	GRID
	DRAWS

loop:
	LSR  $1, R8, R7
	DRAW(R7)
	MOVD $2, R10

half:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	CLAMP

	// Is any below 2^-14?
	OP3(UMIN_4S, 9, 8, 12)
	OP3(UMIN_4S, 11, 10, 13)
	OP3(UMIN_4S, 13, 12, 12)
	OP3(CMHI_4S, 12, NORMAL, 12)
	OP3(UMAXP_4S, 12, 12, 12)
	VMOV V12.D[0], R11

	// The lower half of the random bits, less three.
	EACH(SHL_4S, 32+16, 4, 12)
	EACH(USHR_4S, 64-19, 12, 12)
	DITHER1(12, 8)
	DITHER1(13, 9)
	DITHER1(14, 10)
	DITHER1(15, 11)
	CBNZ R11, small

store:
	SIGNED
	NARROW
	FLUSH
	VST1.P [V12.H8, V13.H8], 32(R0)
	EACH(USHR_4S, 64-16, 4, 4)
	ADD    $16, R8, R8
	SUBS   $1, R10, R10
	BNE    half
	SUBS   $32, R2, R2
	BNE    loop
	RET

small:
	ORR $0x80000000, R8, R11
	DRAW(R11)
	CONST(0x4f800000, V15)
	CONST(0x3f800000, V25)
	SMALL1(0, 4, 8)
	SMALL1(1, 5, 9)
	SMALL1(2, 6, 10)
	SMALL1(3, 7, 11)

	// The second half needs the first draws again.
	DRAW(R7)
	B store
