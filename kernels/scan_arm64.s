//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

// Registers: V0-V3 x, V4-V7 magnitudes, then scratch; V8-V11 scratch. R0 and
// R5-R7 are the histograms.

#define FITF16 20
#define NOTBF16 21
#define ZEROS 22
#define LARGEST 23
#define LEAST 24
#define INF 25
#define ONES 26 // -1
#define LOW 27 // 0x0000ffff

// Layout of type scanned.
#define HIST 2048 // bytes of a histogram; the lanes follow the fourth

// BINS counts the four values from OFF on by sign and exponent, in histograms
// of their own: an increment waits for the one before of the same address.
#define BINS(OFF) \
	LDP OFF(R1), (R10, R12); \
	LSR $55, R10, R11; \
	UBFX $23, R10, $9, R10; \
	LSR $55, R12, R13; \
	UBFX $23, R12, $9, R12; \
	BIN(R0, R10); \
	BIN(R5, R11); \
	BIN(R6, R12); \
	BIN(R7, R13)
#define BIN(HISTOGRAM, R) \
	MOVWU (HISTOGRAM)(R<<2), R14; \
	ADD $1, R14, R14; \
	MOVW R14, (HISTOGRAM)(R<<2)

// COUNT4 counts the masks V4-V7, which are -1 where true.
#define COUNT4(acc) \
	OP3(ADD_4S, 5, 4, 4); \
	OP3(ADD_4S, 7, 6, 6); \
	OP3(ADD_4S, 6, 4, 4); \
	OP3(SUB_4S, 4, acc, acc)

// func f32Scan(c *scanned, src *float32, n int) int
// A value fits FP16 if it comes back; a finite one fits BF16 if its lower half
// is zero. Zero less one is the largest integer.
TEXT ·f32Scan(SB), NOSPLIT, $0-32
	MOVD   c+0(FP), R0
	MOVD   src+8(FP), R1
	MOVD   n+16(FP), R2
	ADD    $HIST, R0, R5
	ADD    $HIST, R5, R6
	ADD    $HIST, R6, R7
	ADD    $HIST, R7, R8
	VLD1.P 64(R8), [V20.S4, V21.S4, V22.S4, V23.S4]
	VLD1   (R8), [V24.S4]
	SUB    $64, R8, R8
	CONST(0x7f800000, V25)
	CONST(0xffffffff, V26)
	CONST(0x0000ffff, V27)

loop:
	VLD1   (R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	QUAD2(FABS_4S, 0, 4)
	OP3(UMAX_4S, 5, 4, 8)
	OP3(UMAX_4S, 7, 6, 9)
	OP3(UMAX_4S, 9, 8, 8)
	OP3(CMHS_4S, INF, 8, 9)
	OP3(UMAXP_4S, 9, 9, 9)
	VMOV   V9.D[0], R4
	CBNZ   R4, done
	BINS(0)
	BINS(16)
	BINS(32)
	BINS(48)
	OP3(UMAX_4S, 8, LARGEST, LARGEST)
	EACH(ADD_4S, ONES, 4, 8)
	OP3(UMIN_4S, 9, 8, 8)
	OP3(UMIN_4S, 11, 10, 10)
	OP3(UMIN_4S, 8, LEAST, LEAST)
	OP3(UMIN_4S, 10, LEAST, LEAST)
	QUAD2(CMEQ0_4S, 4, 4)
	COUNT4(ZEROS)
	EACH(CMTST_4S, LOW, 0, 4)
	COUNT4(NOTBF16)
	OP2(FCVTN_4H, 0, 8)
	OP2(FCVTN2_8H, 1, 8)
	OP2(FCVTN_4H, 2, 9)
	OP2(FCVTN2_8H, 3, 9)
	OP2(FCVTL_4S, 8, 4)
	OP2(FCVTL2_4S, 8, 5)
	OP2(FCVTL_4S, 9, 6)
	OP2(FCVTL2_4S, 9, 7)
	QUAD3(CMEQ_4S, 0, 4, 4)
	COUNT4(FITF16)
	ADD    $64, R1, R1
	SUBS   $16, R2, R2
	BNE    loop

done:
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R8)
	VST1   [V24.S4], (R8)
	MOVD   n+16(FP), R4
	SUB    R2, R4, R4
	MOVD   R4, ret+24(FP)
	RET
