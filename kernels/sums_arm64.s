//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

// The sums: V0-V7 err2, V8-V15 ref2, V16-V23 refEr, of two lanes each. V24 are
// 8 halves of y, V25 and V26 x.

// SUMS4 adds four pairs to 3 times 2 registers from e on: x and y in registers
// of those numbers, V28 and V29 scratch.
#define SUMS4(x, y, e) \
	OP3(FSUB_4S, x, y, y); \
	OP2(FCVTL_2D, y, 28); \
	OP2(FCVTL_2D, x, 29); \
	OP2(FCVTL2_2D, y, y); \
	OP2(FCVTL2_2D, x, x); \
	OP3(FMLA_2D, 28, 28, e); \
	OP3(FMLA_2D, y, y, (e)+1); \
	OP3(FMLA_2D, 29, 29, (e)+8); \
	OP3(FMLA_2D, x, x, (e)+9); \
	OP3(FMLA_2D, 28, 29, (e)+16); \
	OP3(FMLA_2D, x, y, (e)+17)

// SUMS8 widens V24 and adds 8 pairs.
#define SUMS8F16(e) \
	OP2(FCVTL_4S, 24, 27); \
	OP2(FCVTL2_4S, 24, 30); \
	SUMS4(25, 27, e); \
	SUMS4(26, 30, (e)+2)
#define SUMS8BF16(e) \
	OP3(ZIP1_8H, 24, 31, 27); \
	OP3(ZIP2_8H, 24, 31, 30); \
	SUMS4(25, 27, e); \
	SUMS4(26, 30, (e)+2)

#define LOADSUMS \
	MOVD err2+0(FP), R0; \
	VLD1.P 64(R0), [V0.D2, V1.D2, V2.D2, V3.D2]; \
	VLD1 (R0), [V4.D2, V5.D2, V6.D2, V7.D2]; \
	MOVD ref2+8(FP), R0; \
	VLD1.P 64(R0), [V8.D2, V9.D2, V10.D2, V11.D2]; \
	VLD1 (R0), [V12.D2, V13.D2, V14.D2, V15.D2]; \
	MOVD refEr+16(FP), R0; \
	VLD1.P 64(R0), [V16.D2, V17.D2, V18.D2, V19.D2]; \
	VLD1 (R0), [V20.D2, V21.D2, V22.D2, V23.D2]; \
	MOVD ref+24(FP), R1; \
	MOVD got+32(FP), R2; \
	MOVD n+40(FP), R3

#define STORESUMS \
	MOVD err2+0(FP), R0; \
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0); \
	VST1 [V4.D2, V5.D2, V6.D2, V7.D2], (R0); \
	MOVD ref2+8(FP), R0; \
	VST1.P [V8.D2, V9.D2, V10.D2, V11.D2], 64(R0); \
	VST1 [V12.D2, V13.D2, V14.D2, V15.D2], (R0); \
	MOVD refEr+16(FP), R0; \
	VST1.P [V16.D2, V17.D2, V18.D2, V19.D2], 64(R0); \
	VST1 [V20.D2, V21.D2, V22.D2, V23.D2], (R0)

#define LOAD8 \
	VLD1.P 32(R1), [V25.S4, V26.S4]; \
	VLD1.P 16(R2), [V24.H8]

// func f16Sums(err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int)
TEXT ·f16Sums(SB), NOSPLIT, $0-48
	LOADSUMS

loop:
	LOAD8
	SUMS8F16(0)
	LOAD8
	SUMS8F16(4)
	SUBS $16, R3, R3
	BNE  loop
	STORESUMS
	RET

// func bf16Sums(err2, ref2, refEr *[16]float64, ref *float32, got *uint16, n int)
TEXT ·bf16Sums(SB), NOSPLIT, $0-48
	LOADSUMS
	VEOR V31.B16, V31.B16, V31.B16

loop:
	LOAD8
	SUMS8BF16(0)
	LOAD8
	SUMS8BF16(4)
	SUBS $16, R3, R3
	BNE  loop
	STORESUMS
	RET
