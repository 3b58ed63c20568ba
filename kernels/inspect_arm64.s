//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

// Figures of a tile in two passes over short runs of it, for both together
// need more registers than there are. The inspection counts, block by block of
// 16, and stops at a block that is out of the ordinary; the sums need no tests.
//
// A block is ordinary if every |u| < 2^22 (64 ULP) and every y is below the
// largest binade of its type. Both together also bound x: a finite x beyond
// the largest finite value would be at least 2^23 (F16, x >= 2^16) or 2^22
// (the rest) from such a y, in units of u; and Inf and NaN in x make u Inf or
// NaN. So no count of NaN, Inf and overflow changes in an ordinary block, and
// all pairs are finite.
//
// Registers: V0-V3 x, V4-V7 y, then u; V8-V11 d = y-x; V12, V13 halves of y;
// V14 -(number of equal pairs); V15-V19 scratch.

#define EQUAL 20
#define UP 21 // sums of u
#define BELOW 22 // sums of u where x is negative
#define FLUSHED 23
#define SUBNORMAL 24
#define LARGEST 25 // |d|
#define SMALL 26 // halves: twice the bits of y below which y needs a look
#define BIG 27 // halves: twice the bits of the first y that is not ordinary
#define FAR 28 // 2^22
#define EXP 29 // 0x7f800000
#define EMIN 30 // the least exponent at which the step is taken
#define SCALE 31 // SCALE - exponent is the factor from d to u

// START loads the arguments and clears the counters.
#define START \
	MOVD c+0(FP), R0; \
	MOVD ref+8(FP), R1; \
	MOVD got+16(FP), R2; \
	MOVD n+24(FP), R3; \
	VEOR V20.B16, V20.B16, V20.B16; \
	VEOR V21.B16, V21.B16, V21.B16; \
	VEOR V22.B16, V22.B16, V22.B16; \
	VEOR V23.B16, V23.B16, V23.B16; \
	VEOR V24.B16, V24.B16, V24.B16; \
	VEOR V25.B16, V25.B16, V25.B16; \
	CONST(0x4a800000, V28); \
	CONST(0x7f800000, V29)

// STORE saves the counters and leaves the number of elements done in R4.
#define STORE \
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R0); \
	VST1 [V24.S4, V25.S4], (R0); \
	MOVD n+24(FP), R4; \
	SUB R3, R4, R4

// EXAMINE makes d and u of x and y, counts equal pairs, sets R4 if the block
// is not ordinary, and R5 if a y is small.
#define EXAMINE \
	QUAD3(FSUB_4S, 0, 4, 8); \
	QUAD3(CMEQ_4S, 0, 4, 14); \
	OP3(ADD_4S, 15, 14, 14); \
	OP3(ADD_4S, 17, 16, 16); \
	OP3(ADD_4S, 16, 14, 14); \
	EACH(AND_16B, EXP, 0, 4); \
	EACH(UMAX_4S, EMIN, 4, 4); \
	OP3(SUB_4S, 4, SCALE, 4); \
	OP3(SUB_4S, 5, SCALE, 5); \
	OP3(SUB_4S, 6, SCALE, 6); \
	OP3(SUB_4S, 7, SCALE, 7); \
	QUAD3(FMUL_4S, 8, 4, 4); \
	QUAD2(FABS_4S, 4, 15); \
	OP3(UMAX_4S, 16, 15, 15); \
	OP3(UMAX_4S, 18, 17, 17); \
	OP3(UMAX_4S, 17, 15, 15); \
	OP3(CMHS_4S, FAR, 15, 15); \
	OP3(SHL_8H, 16+1, 12, 16); \
	OP3(SHL_8H, 16+1, 13, 17); \
	OP3(UMAX_8H, 17, 16, 18); \
	OP3(UMIN_8H, 17, 16, 16); \
	OP3(CMHS_8H, BIG, 18, 18); \
	OP3(CMHI_8H, 16, SMALL, 16); \
	OP3(ORR_16B, 18, 15, 15); \
	OP3(UMAXP_4S, 16, 15, 15); \
	VMOV V15.D[0], R4; \
	VMOV V15.D[1], R5

// ADDUP adds the figures of an ordinary block.
#define ADDUP \
	OP3(SUB_4S, 14, EQUAL, EQUAL); \
	QUAD2(FABS_4S, 8, 8); \
	OP3(UMAX_4S, 9, 8, 8); \
	OP3(UMAX_4S, 11, 10, 10); \
	OP3(UMAX_4S, 8, LARGEST, LARGEST); \
	OP3(UMAX_4S, 10, LARGEST, LARGEST); \
	QUAD2(FCVTNS_4S, 4, 4); \
	QUAD2(CMLT0_4S, 0, 0); \
	QUAD3(AND_16B, 4, 0, 0); \
	SUM4(4, UP); \
	SUM4(0, BELOW)

// SUM4 adds V(r) to V(r+3) to acc.
#define SUM4(r, acc) \
	OP3(ADD_4S, (r)+1, r, r); \
	OP3(ADD_4S, (r)+3, (r)+2, (r)+2); \
	OP3(ADD_4S, r, acc, acc); \
	OP3(ADD_4S, (r)+2, acc, acc)

// COUNT1 counts, of x and y in V15, what was flushed and what is subnormal. V19
// is 2^-14, the smallest normal value. Masks are -1, so counting subtracts.
#define COUNT1(x) \
	OP2(FABS_4S, 15, 15); \
	OP2(FABS_4S, x, 16); \
	OP3(CMTST_4S, 16, 16, 16); \
	OP2(CMEQ0_4S, 15, 17); \
	OP3(AND_16B, 17, 16, 16); \
	OP3(SUB_4S, 16, FLUSHED, FLUSHED); \
	OP3(CMHI_4S, 15, 19, 15); \
	OP3(BIC_16B, 17, 15, 15); \
	OP3(CMTST_4S, EXP, x, 16); \
	OP3(AND_16B, 16, 15, 15); \
	OP3(SUB_4S, 15, SUBNORMAL, SUBNORMAL)

// func f16Inspect(c *inspection, ref *float32, got *uint16, n int) int
// u = d * 2^(26-e), e >= -14.
TEXT ·f16Inspect(SB), NOSPLIT, $0-40
	START
	CONST(0x38800000, V30)
	CONST(0x8c000000, V31)       // (26+2*127)<<23
	CONSTH(0x0800, V26)          // 2 * 0x0400, the smallest normal y
	CONSTH(0xf600, V27)          // 2 * 0x7b00, 57344

loop:
	VLD1   (R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1   (R2), [V12.H8, V13.H8]
	OP2(FCVTL_4S, 12, 4)
	OP2(FCVTL2_4S, 12, 5)
	OP2(FCVTL_4S, 13, 6)
	OP2(FCVTL2_4S, 13, 7)
	EXAMINE
	CBNZ   R4, done
	CBNZ   R5, small

add:
	ADDUP
	ADD    $64, R1, R1
	ADD    $32, R2, R2
	SUBS   $16, R3, R3
	BNE    loop

done:
	STORE
	MOVD   R4, ret+32(FP)
	RET

small:
	CONST(0x38800000, V19)
	OP2(FCVTL_4S, 12, 15)
	COUNT1(0)
	OP2(FCVTL2_4S, 12, 15)
	COUNT1(1)
	OP2(FCVTL_4S, 13, 15)
	COUNT1(2)
	OP2(FCVTL2_4S, 13, 15)
	COUNT1(3)
	B      add

// func bf16Inspect(c *inspection, ref *float32, got *uint16, n int) int
// u = d * 2^(23-e), but the factor is a float32 only for e > -105. So where x is
// below 2^-104 and y differs, the block is not ordinary (such a y from 2^-103
// on makes u large enough). Nothing else can be flushed or become subnormal,
// for such a y would be too far from x.
TEXT ·bf16Inspect(SB), NOSPLIT, $0-40
	START
	CONST(0x0b800000, V30)       // 2^-104
	CONST(0x8a800000, V31)       // (23+2*127)<<23
	CONSTH(0x1800, V26)          // 2 * 0x0c00, 2^-103
	CONSTH(0xfe00, V27)          // 2 * 0x7f00, 2^127

loop:
	VLD1   (R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1   (R2), [V12.H8, V13.H8]
	VEOR   V15.B16, V15.B16, V15.B16
	OP3(ZIP1_8H, 12, 15, 4)
	OP3(ZIP2_8H, 12, 15, 5)
	OP3(ZIP1_8H, 13, 15, 6)
	OP3(ZIP2_8H, 13, 15, 7)
	EXAMINE
	CBNZ   R4, done
	CBNZ   R5, small

add:
	ADDUP
	ADD    $64, R1, R1
	ADD    $32, R2, R2
	SUBS   $16, R3, R3
	BNE    loop

done:
	STORE
	MOVD   R4, ret+32(FP)
	RET

small:
	QUAD2(FABS_4S, 0, 15)
	OP3(CMHI_4S, 15, EMIN, 15)
	OP3(CMHI_4S, 16, EMIN, 16)
	OP3(CMHI_4S, 17, EMIN, 17)
	OP3(CMHI_4S, 18, EMIN, 18)
	QUAD3(AND_16B, 8, 15, 15)      // not zero: below 2^-104, and d is not 0
	OP3(ORR_16B, 16, 15, 15)
	OP3(ORR_16B, 18, 17, 17)
	OP3(ORR_16B, 17, 15, 15)
	OP3(UMAXP_4S, 15, 15, 15)
	VMOV   V15.D[0], R4
	CBNZ   R4, done
	B      add
