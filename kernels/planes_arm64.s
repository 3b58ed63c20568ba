//go:build !purego

#include "textflag.h"

// VLD2 takes values apart into their lower bytes, V0, and their upper ones, V1;
// VST2 puts such bytes together. V29-V31 are masks.

// func splitBF16x128(exp, low *byte, src *uint16, n int)
TEXT ·splitBF16x128(SB), NOSPLIT, $0-32
	MOVD  exp+0(FP), R0
	MOVD  low+8(FP), R1
	MOVD  src+16(FP), R2
	MOVD  n+24(FP), R3
	VMOVI $0x80, V31.B16

loop:
	VLD2.P 32(R2), [V0.B16, V1.B16]
	VSHL   $1, V1.B16, V2.B16
	VUSRA  $7, V0.B16, V2.B16        // the exponent
	VBIT   V31.B16, V1.B16, V0.B16   // the sign above the mantissa
	VST1.P [V2.B16], 16(R0)
	VST1.P [V0.B16], 16(R1)
	SUBS   $16, R3, R3
	BNE    loop
	RET

// func joinBF16x128(dst *uint16, exp, low *byte, n int)
TEXT ·joinBF16x128(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	MOVD  exp+8(FP), R1
	MOVD  low+16(FP), R2
	MOVD  n+24(FP), R3
	VMOVI $0x80, V31.B16

loop:
	VLD1.P 16(R1), [V4.B16]
	VLD1.P 16(R2), [V5.B16]
	VSHL   $7, V4.B16, V0.B16
	VBIF   V31.B16, V5.B16, V0.B16
	VUSHR  $1, V4.B16, V1.B16
	VBIT   V31.B16, V5.B16, V1.B16
	VST2.P [V0.B16, V1.B16], 32(R0)
	SUBS   $16, R3, R3
	BNE    loop
	RET

// func splitF16x128(exp, low, high *byte, src *uint16, n int)
TEXT ·splitF16x128(SB), NOSPLIT, $0-40
	MOVD  exp+0(FP), R0
	MOVD  low+8(FP), R1
	MOVD  high+16(FP), R2
	MOVD  src+24(FP), R3
	MOVD  n+32(FP), R4
	VMOVI $0x1f, V29.B16
	VMOVI $3, V30.B16
	VMOVI $4, V31.B16

loop:
	VLD2.P 32(R3), [V0.B16, V1.B16]
	VUSHR  $2, V1.B16, V2.B16
	VAND   V29.B16, V2.B16, V2.B16   // the exponent
	VUSHR  $5, V1.B16, V3.B16
	VAND   V31.B16, V3.B16, V3.B16   // the sign
	VBIT   V30.B16, V1.B16, V3.B16   // and the mantissa
	VST1.P [V2.B16], 16(R0)
	VST1.P [V0.B16], 16(R1)
	VST1.P [V3.B16], 16(R2)
	SUBS   $16, R4, R4
	BNE    loop
	RET

// func joinF16x128(dst *uint16, exp, low, high *byte, n int)
TEXT ·joinF16x128(SB), NOSPLIT, $0-40
	MOVD  dst+0(FP), R0
	MOVD  exp+8(FP), R1
	MOVD  low+16(FP), R2
	MOVD  high+24(FP), R3
	MOVD  n+32(FP), R4
	VMOVI $3, V30.B16
	VMOVI $0x80, V31.B16

loop:
	VLD1.P 16(R1), [V4.B16]
	VLD1.P 16(R2), [V0.B16]
	VLD1.P 16(R3), [V5.B16]
	VSHL   $2, V4.B16, V1.B16
	VSHL   $5, V5.B16, V6.B16
	VBIT   V31.B16, V6.B16, V1.B16   // the sign, over what is not of the exponent
	VBIT   V30.B16, V5.B16, V1.B16
	VST2.P [V0.B16, V1.B16], 32(R0)
	SUBS   $16, R4, R4
	BNE    loop
	RET
