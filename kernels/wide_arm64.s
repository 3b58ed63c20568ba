//go:build !purego

#include "textflag.h"
#include "asm_arm64.h"

// func f16Widen(dst *float32, src *uint16, n int)
TEXT ·f16Widen(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1.P 32(R1), [V4.H8, V5.H8]
	OP2(FCVTL_4S, 4, 0)
	OP2(FCVTL2_4S, 4, 1)
	OP2(FCVTL_4S, 5, 2)
	OP2(FCVTL2_4S, 5, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func bf16Widen(dst *float32, src *uint16, n int)
TEXT ·bf16Widen(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	CONSTH(0xff00, V29)            // twice the bits of Inf
	CONSTH(0x0040, V30)            // the quiet bit
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VLD1.P 32(R1), [V4.H8, V5.H8]

	// NaN becomes quiet; doubling drops the sign.
	VSHL $1, V4.H8, V6.H8
	VSHL $1, V5.H8, V7.H8
	OP3(CMHI_8H, 29, 6, 6)
	OP3(CMHI_8H, 29, 7, 7)
	VAND V30.B16, V6.B16, V6.B16
	VAND V30.B16, V7.B16, V7.B16
	VORR V6.B16, V4.B16, V4.B16
	VORR V7.B16, V5.B16, V5.B16
	VZIP1 V4.H8, V31.H8, V0.H8
	VZIP2 V4.H8, V31.H8, V1.H8
	VZIP1 V5.H8, V31.H8, V2.H8
	VZIP2 V5.H8, V31.H8, V3.H8
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET
