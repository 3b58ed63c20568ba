// Shared by the kernels that narrow float32. They keep 16 values in V0-V3,
// their magnitudes in V8-V11, and the constants named here; V12-V15 are
// scratch, by whose lower two the 16 results leave. V4-V7 hold what is added
// to round, if it takes longer to make.

#define INF 16
#define MAG 17 // 0x7fffffff
#define LIMIT 18 // float32 to which finite magnitudes are limited
#define KEEP 19 // halves: 0xffff, or 0x8000 to flush
#define EXP 20 // halves: the bits of the exponent of the target

// START loads what every kernel begins with, FULL what those need that
// saturate and flush.
#define START \
	MOVD dst+0(FP), R0; \
	MOVD src+8(FP), R1; \
	MOVD n+16(FP), R2; \
	CONST(0x7f800000, V16)
#define FULL(exp) \
	CONST(0x7fffffff, V17); \
	ARG(limit+24(FP), V18); \
	MOVWU keep+28(FP), R9; \
	VDUP R9, V19.H8; \
	CONSTH(exp, V20)

// CLAMP makes V8-V11 the magnitudes of V0-V3, and limits those that are
// finite: NaN and Inf are no overflow.
#define CLAMP1(a, t, u) \
	OP3(CMHS_4S, INF, a, t); \
	OP3(UMIN_4S, LIMIT, a, u); \
	OP3(BIF_16B, t, u, a)
#define CLAMP \
	QUAD2(FABS_4S, 0, 8); \
	CLAMP1(8, 12, 13); \
	CLAMP1(9, 14, 15); \
	CLAMP1(10, 12, 13); \
	CLAMP1(11, 14, 15)

// SIGNED puts the magnitudes V8-V11 into V0-V3, whose signs stay.
#define SIGNED \
	OP3(BIT_16B, MAG, 8, 0); \
	OP3(BIT_16B, MAG, 9, 1); \
	OP3(BIT_16B, MAG, 10, 2); \
	OP3(BIT_16B, MAG, 11, 3)

// FLUSH makes results that are subnormal zeros of their sign, if KEEP says so.
#define FLUSH \
	OP3(CMTST_8H, EXP, 12, 14); \
	OP3(CMTST_8H, EXP, 13, 15); \
	OP3(ORR_16B, KEEP, 14, 14); \
	OP3(ORR_16B, KEEP, 15, 15); \
	OP3(AND_16B, 14, 12, 12); \
	OP3(AND_16B, 15, 13, 13)

// Stochastic kernels take 32 elements a turn, of which each draw serves two.
// DRAWS loads their constants: the keys of the segment, the factors of
// lowbias32, and 0, 1, 2, 3 in V30 and 4 in V31 to count. R8 is the index of
// the element in the segment.
#define KEY0 26
#define KEY1 27
#define MUL1 28
#define MUL2 29
#define DRAWS \
	ARG(k0+32(FP), V26); \
	ARG(k1+36(FP), V27); \
	CONST(0x7feb352d, V28); \
	CONST(0x846ca68b, V29); \
	CONST(4, V31); \
	MOVD $0x0000000100000000, R9; \
	VMOV R9, V30.D[0]; \
	MOVD $0x0000000300000002, R9; \
	VMOV R9, V30.D[1]; \
	MOVWU j+40(FP), R8

// DRAW makes V4-V7 the random bits of the 16 counters from register R on: draw of
// stream.go.
#define DRAW(R) \
	VDUP R, V4.S4; \
	VADD V30.S4, V4.S4, V4.S4; \
	VADD V31.S4, V4.S4, V5.S4; \
	VADD V31.S4, V5.S4, V6.S4; \
	VADD V31.S4, V6.S4, V7.S4; \
	EACH(EOR_16B, KEY0, 4, 4); \
	EACH(USHR_4S, 64-16, 4, 12); \
	QUAD3(EOR_16B, 12, 4, 4); \
	EACH(MUL_4S, MUL1, 4, 4); \
	EACH(USHR_4S, 64-15, 4, 12); \
	QUAD3(EOR_16B, 12, 4, 4); \
	EACH(MUL_4S, MUL2, 4, 4); \
	EACH(USHR_4S, 64-16, 4, 12); \
	QUAD3(EOR_16B, 12, 4, 4); \
	EACH(EOR_16B, KEY1, 4, 4)
