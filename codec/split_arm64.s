//go:build !purego

#include "textflag.h"

// The kernels do 32 elements a turn; n is a multiple of 32 and not 0.

// BYTES makes V4 and V5 the low and V6 and V7 the high bytes of the next 32
// words.
#define BYTES(SRC) \
	VLD1.P 64(SRC), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VUZP1 V1.B16, V0.B16, V4.B16 \
	VUZP1 V3.B16, V2.B16, V5.B16 \
	VUZP2 V1.B16, V0.B16, V6.B16 \
	VUZP2 V3.B16, V2.B16, V7.B16

// EXPONENT makes E the exponents, and L the signs and mantissas, of the low
// bytes L and the high bytes H of BF16, or of the upper halves of F32.
#define EXPONENT(L, H, E) \
	VSHL $1, H.B16, E.B16 \
	VSRI $7, L.B16, E.B16 \
	VBIT V31.B16, H.B16, L.B16

// func splitBF16x128(low, exp, src *byte, n int)
TEXT ·splitBF16x128(SB), NOSPLIT, $0-32
	MOVD  low+0(FP), R0
	MOVD  exp+8(FP), R1
	MOVD  src+16(FP), R2
	MOVD  n+24(FP), R3
	VMOVI $0x80, V31.B16

loop:
	BYTES(R2)
	EXPONENT(V4, V6, V16)
	EXPONENT(V5, V7, V17)
	VST1.P [V4.B16, V5.B16], 32(R0)
	VST1.P [V16.B16, V17.B16], 32(R1)
	SUBS   $32, R3, R3
	BNE    loop
	RET

// HIGH makes E the exponents, and H the signs and the higher bits of the
// mantissas, of the high bytes H of F16.
#define HIGH(H, E) \
	VUSHR $5, H.B16, V20.B16 \
	VUSHR $2, H.B16, E.B16 \
	VAND V29.B16, E.B16, E.B16 \
	VAND V31.B16, V20.B16, V20.B16 \
	VBIF V30.B16, V20.B16, H.B16

// func splitF16x128(low, high, exp, src *byte, n int)
TEXT ·splitF16x128(SB), NOSPLIT, $0-40
	MOVD  low+0(FP), R0
	MOVD  high+8(FP), R1
	MOVD  exp+16(FP), R2
	MOVD  src+24(FP), R3
	MOVD  n+32(FP), R4
	VMOVI $0x1f, V29.B16
	VMOVI $3, V30.B16
	VMOVI $4, V31.B16

loop:
	BYTES(R3)
	HIGH(V6, V16)
	HIGH(V7, V17)
	VST1.P [V4.B16, V5.B16], 32(R0)
	VST1.P [V6.B16, V7.B16], 32(R1)
	VST1.P [V16.B16, V17.B16], 32(R2)
	SUBS   $32, R4, R4
	BNE    loop
	RET

// QUARTERS takes the next 16 dwords apart: LOW, MID, HIGH and E are the planes.
#define QUARTERS(LOW, MID, HIGH, E) \
	VLD1.P 64(R4), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VUZP1 V1.H8, V0.H8, V4.H8 \
	VUZP1 V3.H8, V2.H8, V5.H8 \
	VUZP2 V1.H8, V0.H8, V6.H8 \
	VUZP2 V3.H8, V2.H8, V7.H8 \
	VUZP1 V5.B16, V4.B16, LOW.B16 \
	VUZP2 V5.B16, V4.B16, MID.B16 \
	VUZP1 V7.B16, V6.B16, HIGH.B16 \
	VUZP2 V7.B16, V6.B16, V4.B16 \
	EXPONENT(HIGH, V4, E)

// func splitF32x128(high, mid, low, exp, src *byte, n int)
TEXT ·splitF32x128(SB), NOSPLIT, $0-48
	MOVD  high+0(FP), R0
	MOVD  mid+8(FP), R1
	MOVD  low+16(FP), R2
	MOVD  exp+24(FP), R3
	MOVD  src+32(FP), R4
	MOVD  n+40(FP), R5
	VMOVI $0x80, V31.B16

loop:
	QUARTERS(V16, V18, V20, V22)
	QUARTERS(V17, V19, V21, V23)
	VST1.P [V20.B16, V21.B16], 32(R0)
	VST1.P [V18.B16, V19.B16], 32(R1)
	VST1.P [V16.B16, V17.B16], 32(R2)
	VST1.P [V22.B16, V23.B16], 32(R3)
	SUBS   $32, R5, R5
	BNE    loop
	RET
