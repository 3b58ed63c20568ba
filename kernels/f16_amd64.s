//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// VCVTPS2PH rounds as its immediate says (0 nearest-even, 1 down, 2 up,
// 3 toward zero) and keeps subnormal results; of MXCSR it heeds only DAZ,
// which would take float32 subnormals for zero. Go programs run without DAZ;
// with it, Up and Down would miss the step from zero to the least subnormal.

// PLAIN256 serves both tiers: it is as fast as 512-bit code on Zen 4 and faster
// on Intel, where that leaves one port idle.

// NT512 converts 64 elements a turn to whole cache lines, which non-temporal
// stores want.
#define NT512(IMM) \
	ARGS \
	PCALIGN $32 \
loop: \
	FAR64 \
	LOAD64 \
	VCVTPS2PH $IMM, Z0, Y0 \
	VCVTPS2PH $IMM, Z1, Y1 \
	VCVTPS2PH $IMM, Z2, Y2 \
	VCVTPS2PH $IMM, Z3, Y3 \
	VINSERTI64X4 $1, Y1, Z0, Z0 \
	VINSERTI64X4 $1, Y3, Z2, Z2 \
	VMOVNTDQ Z0, (DI) \
	VMOVNTDQ Z2, 64(DI) \
	ADDQ $256, SI \
	ADDQ $128, DI \
	SUBQ $64, CX \
	JNZ loop

#define NOTHING

// PLAIN256 converts 32 elements a turn, then 8; n is a multiple of 8. ST stores
// whole turns, PRE comes before each.
#define PLAIN256(IMM, ST, PRE) \
	ARGS \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	LOAD32 \
	VCVTPS2PH $IMM, Y0, X0 \
	VCVTPS2PH $IMM, Y1, X1 \
	VCVTPS2PH $IMM, Y2, X2 \
	VCVTPS2PH $IMM, Y3, X3 \
	ST X0, (DI) \
	ST X1, 16(DI) \
	ST X2, 32(DI) \
	ST X3, 48(DI) \
	ADDQ $128, SI \
	ADDQ $64, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	ADDQ $32, CX \
	JZ done \
tail8: \
	VMOVUPS (SI), Y0 \
	VCVTPS2PH $IMM, Y0, X0 \
	VMOVDQU X0, (DI) \
	ADDQ $32, SI \
	ADDQ $16, DI \
	SUBQ $8, CX \
	JA tail8 \
done:

// With non-temporal stores; dst on 64 bytes, n a multiple of 64.

// func f16Nearest512NT(dst *uint16, src *float32, n int)
TEXT ·f16Nearest512NT(SB), NOSPLIT, $0-24
	NT512(0)
	SFENCE
	VZEROUPPER
	RET

// func f16Down512NT(dst *uint16, src *float32, n int)
TEXT ·f16Down512NT(SB), NOSPLIT, $0-24
	NT512(1)
	SFENCE
	VZEROUPPER
	RET

// func f16Up512NT(dst *uint16, src *float32, n int)
TEXT ·f16Up512NT(SB), NOSPLIT, $0-24
	NT512(2)
	SFENCE
	VZEROUPPER
	RET

// func f16Zero512NT(dst *uint16, src *float32, n int)
TEXT ·f16Zero512NT(SB), NOSPLIT, $0-24
	NT512(3)
	SFENCE
	VZEROUPPER
	RET

// func f16Nearest256(dst *uint16, src *float32, n int)
TEXT ·f16Nearest256(SB), NOSPLIT, $0-24
	PLAIN256(0, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func f16Down256(dst *uint16, src *float32, n int)
TEXT ·f16Down256(SB), NOSPLIT, $0-24
	PLAIN256(1, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func f16Up256(dst *uint16, src *float32, n int)
TEXT ·f16Up256(SB), NOSPLIT, $0-24
	PLAIN256(2, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// func f16Zero256(dst *uint16, src *float32, n int)
TEXT ·f16Zero256(SB), NOSPLIT, $0-24
	PLAIN256(3, VMOVDQU, AHEAD32)
	VZEROUPPER
	RET

// With non-temporal stores; dst on 16 bytes, n a multiple of 32.

// func f16Nearest256NT(dst *uint16, src *float32, n int)
TEXT ·f16Nearest256NT(SB), NOSPLIT, $0-24
	PLAIN256(0, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func f16Down256NT(dst *uint16, src *float32, n int)
TEXT ·f16Down256NT(SB), NOSPLIT, $0-24
	PLAIN256(1, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func f16Up256NT(dst *uint16, src *float32, n int)
TEXT ·f16Up256NT(SB), NOSPLIT, $0-24
	PLAIN256(2, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func f16Zero256NT(dst *uint16, src *float32, n int)
TEXT ·f16Zero256NT(SB), NOSPLIT, $0-24
	PLAIN256(3, VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET
