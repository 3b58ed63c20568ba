//go:build !purego

#include "textflag.h"

// The kernels do 32 elements a turn; n is a multiple of 32 and not 0. A step is
// 32, or 0 for a plane of zeros, of which there are 32 only.

// HALVES makes H the high and L the low bytes of BF16, or of the upper halves of
// F32, from exponents in E, and signs and mantissas in L.
#define HALVES(E, L, H) \
	VMOV L.B16, H.B16 \
	VSLI $7, E.B16, L.B16 \
	VSRI $1, E.B16, H.B16

// WORDS makes A and B 16 words of their low bytes L and high bytes H.
#define WORDS(L, H, A, B) \
	VZIP1 H.B16, L.B16, A.B16 \
	VZIP2 H.B16, L.B16, B.B16

// DWORDS writes 16 dwords: A and B have their lower words, C and D the others.
#define DWORDS(A, B, C, D) \
	VZIP1 C.H8, A.H8, V20.H8 \
	VZIP2 C.H8, A.H8, V21.H8 \
	VZIP1 D.H8, B.H8, V22.H8 \
	VZIP2 D.H8, B.H8, V23.H8 \
	VST1.P [V20.B16, V21.B16, V22.B16, V23.B16], 64(R0)

// SETUPF16 loads the arguments and constants of JOINF16.
#define SETUPF16 \
	MOVD dst+0(FP), R0 \
	MOVD low+8(FP), R1 \
	MOVD high+16(FP), R2 \
	MOVD exp+24(FP), R3 \
	MOVD n+32(FP), R4 \
	MOVD highStep+40(FP), R5 \
	VMOVI $0x80, V31.B16

// HIGH makes H the high bytes: the sign, the exponent in E and the higher 2 bits
// of the mantissa.
#define HIGH(E, H) \
	VSHL $5, H.B16, V6.B16 \
	VSLI $2, E.B16, H.B16 \
	VBIT V31.B16, V6.B16, H.B16

// JOINF16 makes V16 to V19 the next 32 words.
#define JOINF16 \
	VLD1.P 32(R1), [V0.B16, V1.B16] \
	VLD1.P (R2)(R5), [V2.B16, V3.B16] \
	VLD1.P 32(R3), [V4.B16, V5.B16] \
	HIGH(V4, V2) \
	HIGH(V5, V3) \
	WORDS(V0, V2, V16, V17) \
	WORDS(V1, V3, V18, V19)

// The assembler lacks these two: 4 float16 of the lower, or of the upper, half of
// vector n become float32 in vector d; NaN becomes quiet.
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// FLOATS writes the float32 of 16 float16 in vectors a and b.
#define FLOATS(a, b) \
	FCVTL(a, 20) \
	FCVTL2(a, 21) \
	FCVTL(b, 22) \
	FCVTL2(b, 23) \
	VST1.P [V20.B16, V21.B16, V22.B16, V23.B16], 64(R0)

// QUIET sets the highest bit of the mantissas in L that belong to NaN: the
// exponent in E is all ones, and the mantissa not 0.
#define QUIET(E, L) \
	VCMTST V29.B16, L.B16, V6.B16 \
	VAND E.B16, V6.B16, V6.B16 \
	VCMEQ V28.B16, V6.B16, V6.B16 \
	VAND V30.B16, V6.B16, V6.B16 \
	VORR V6.B16, L.B16, L.B16

// func joinF32x128(dst, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·joinF32x128(SB), NOSPLIT, $0-64
	MOVD dst+0(FP), R0
	MOVD high+8(FP), R1
	MOVD mid+16(FP), R2
	MOVD low+24(FP), R3
	MOVD exp+32(FP), R4
	MOVD n+40(FP), R5
	MOVD midStep+48(FP), R6
	MOVD lowStep+56(FP), R7

loop:
	VLD1.P 32(R4), [V0.B16, V1.B16]
	VLD1.P 32(R1), [V2.B16, V3.B16]
	VLD1.P (R2)(R6), [V4.B16, V5.B16]
	VLD1.P (R3)(R7), [V6.B16, V7.B16]
	HALVES(V0, V2, V24)
	HALVES(V1, V3, V25)
	WORDS(V6, V4, V16, V17)
	WORDS(V2, V24, V18, V19)
	DWORDS(V16, V17, V18, V19)
	WORDS(V7, V5, V16, V17)
	WORDS(V3, V25, V18, V19)
	DWORDS(V16, V17, V18, V19)
	SUBS   $32, R5, R5
	BNE    loop
	RET

// func widenF32x128(dst *float32, high, mid, low, exp *byte, n, midStep, lowStep int)
TEXT ·widenF32x128(SB), NOSPLIT, $0-64
	B ·joinF32x128(SB)

// func widenBF16x128(dst *float32, low, exp *byte, n int)
TEXT ·widenBF16x128(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	MOVD  low+8(FP), R1
	MOVD  exp+16(FP), R2
	MOVD  n+24(FP), R3
	VMOVI $0xff, V28.B16
	VMOVI $0x7f, V29.B16
	VMOVI $0x40, V30.B16
	VMOVI $0, V31.B16

loop:
	VLD1.P 32(R2), [V0.B16, V1.B16]
	VLD1.P 32(R1), [V2.B16, V3.B16]
	QUIET(V0, V2)
	QUIET(V1, V3)
	HALVES(V0, V2, V4)
	HALVES(V1, V3, V5)
	WORDS(V2, V4, V16, V17)
	WORDS(V3, V5, V18, V19)
	DWORDS(V31, V31, V16, V17)
	DWORDS(V31, V31, V18, V19)
	SUBS   $32, R3, R3
	BNE    loop
	RET

// func joinF16x128(dst, low, high, exp *byte, n, highStep int)
TEXT ·joinF16x128(SB), NOSPLIT, $0-48
	SETUPF16

loop:
	JOINF16
	VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R0)
	SUBS   $32, R4, R4
	BNE    loop
	RET

// func widenF16x128(dst *float32, low, high, exp *byte, n, highStep int)
TEXT ·widenF16x128(SB), NOSPLIT, $0-48
	SETUPF16

loop:
	JOINF16
	FLOATS(16, 17)
	FLOATS(18, 19)
	SUBS $32, R4, R4
	BNE  loop
	RET
