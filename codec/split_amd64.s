//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"
#include "planes_amd64.h"

// The kernels do 32 elements a turn; n is a multiple of 32 and not 0.

VEC(mantissa32, 0x007fffff007fffff, 0x007fffff007fffff, 0x007fffff007fffff, 0x007fffff007fffff)
VEC(sign32, 0x0080000000800000, 0x0080000000800000, 0x0080000000800000, 0x0080000000800000)
VEC(exponent32, 0xff000000ff000000, 0xff000000ff000000, 0xff000000ff000000, 0xff000000ff000000)
VEC(quarters, 0x0d0905010c080400, 0x0f0b07030e0a0602, 0x0d0905010c080400, 0x0f0b07030e0a0602)
PLANES

// BYTES makes Y0 the low and Y1 the high bytes of the next 32 words.
#define BYTES \
	VMOVDQU (SI), Y2 \
	VMOVDQU 32(SI), Y3 \
	VPAND Y8, Y2, Y0 \
	VPAND Y8, Y3, Y1 \
	VPSRLW $8, Y2, Y2 \
	VPSRLW $8, Y3, Y3 \
	VPACKUSWB Y1, Y0, Y0 \
	VPACKUSWB Y3, Y2, Y1 \
	VPERMQ $0xd8, Y0, Y0 \
	VPERMQ $0xd8, Y1, Y1

// func splitBF16x256(low, exp, src *byte, n int)
TEXT ·splitBF16x256(SB), NOSPLIT, $0-32
	MOVQ low+0(FP), DI
	MOVQ exp+8(FP), R9
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	VMOVDQU bytes<>(SB), Y8
	VMOVDQU bit0<>(SB), Y9
	VMOVDQU low7<>(SB), Y10
	VMOVDQU bit7<>(SB), Y11
	PCALIGN $32
loop:
	BYTES
	VPSRLW $7, Y0, Y2
	VPADDB Y1, Y1, Y3
	VPAND Y9, Y2, Y2
	VPAND Y10, Y0, Y0
	VPAND Y11, Y1, Y1
	VPOR Y2, Y3, Y3
	VPOR Y1, Y0, Y0
	VMOVDQU Y3, (R9)
	VMOVDQU Y0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	ADDQ $32, R9
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func splitF16x256(low, high, exp, src *byte, n int)
TEXT ·splitF16x256(SB), NOSPLIT, $0-40
	MOVQ low+0(FP), DI
	MOVQ high+8(FP), DX
	MOVQ exp+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	VMOVDQU bytes<>(SB), Y8
	VMOVDQU low2<>(SB), Y9
	VMOVDQU bit2<>(SB), Y10
	VMOVDQU low5<>(SB), Y11
	PCALIGN $32
loop:
	BYTES
	VPSRLW $5, Y1, Y2
	VPSRLW $2, Y1, Y3
	VPAND Y10, Y2, Y2
	VPAND Y9, Y1, Y1
	VPAND Y11, Y3, Y3
	VPOR Y2, Y1, Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DX)
	VMOVDQU Y3, (R9)
	ADDQ $64, SI
	ADDQ $32, DI
	ADDQ $32, DX
	ADDQ $32, R9
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// QUARTERS makes every 16 bytes of Y, of the 8 elements at OFF, 4 bytes of each
// plane: the low and middle bits of the mantissa, the sign with the high ones,
// and the exponent.
#define QUARTERS(OFF, Y) \
	VMOVDQU OFF(SI), Y \
	VPSRLD $8, Y, Y4 \
	VPSLLD $1, Y, Y5 \
	VPAND Y12, Y, Y \
	VPAND Y13, Y4, Y4 \
	VPAND Y14, Y5, Y5 \
	VPOR Y4, Y, Y \
	VPOR Y5, Y, Y \
	VPSHUFB Y15, Y, Y

// WRITE writes a plane whose 4 bytes from each of 8 pieces are in Y.
#define WRITE(Y, P) \
	VPERMD Y, Y11, Y \
	VMOVDQU Y, (P) \
	ADDQ $32, P

// func splitF32x256(high, mid, low, exp, src *byte, n int)
TEXT ·splitF32x256(SB), NOSPLIT, $0-48
	MOVQ high+0(FP), DI
	MOVQ mid+8(FP), DX
	MOVQ low+16(FP), R8
	MOVQ exp+24(FP), R9
	MOVQ src+32(FP), SI
	MOVQ n+40(FP), CX
	VMOVDQU backFours<>(SB), Y11
	VMOVDQU mantissa32<>(SB), Y12
	VMOVDQU sign32<>(SB), Y13
	VMOVDQU exponent32<>(SB), Y14
	VMOVDQU quarters<>(SB), Y15
	PCALIGN $32
loop:
	QUARTERS(0, Y0)
	QUARTERS(32, Y1)
	QUARTERS(64, Y2)
	QUARTERS(96, Y3)
	VPUNPCKLDQ Y1, Y0, Y4
	VPUNPCKHDQ Y1, Y0, Y5
	VPUNPCKLDQ Y3, Y2, Y6
	VPUNPCKHDQ Y3, Y2, Y7
	VPUNPCKLQDQ Y6, Y4, Y0
	VPUNPCKHQDQ Y6, Y4, Y1
	VPUNPCKLQDQ Y7, Y5, Y2
	VPUNPCKHQDQ Y7, Y5, Y3
	WRITE(Y0, R8)
	WRITE(Y1, DX)
	WRITE(Y2, DI)
	WRITE(Y3, R9)
	ADDQ $128, SI
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET
