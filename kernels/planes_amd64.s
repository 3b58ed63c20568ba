//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// The kernels of planes do 32 elements a turn; n is a multiple of 32.

// PACKB makes A the low bytes of the words of A and B, in order; the words
// must be below 0x100.
#define PACKB(A, B) \
	VPACKUSWB B, A, A \
	VPERMQ $0xd8, A, A

// UNPACKB makes A the first and T the last 16 words whose low bytes are in A
// and high bytes in B. Before that, A and B are in the order of VPERMQ $0xd8.
#define UNPACKB(A, B, T) \
	VPUNPCKHBW B, A, T \
	VPUNPCKLBW B, A, A

// FIELD makes T the bits MASK of X shifted right by N.
#define FIELD(N, MASK, X, T) \
	VPSRLW N, X, T \
	VPAND MASK, T, T

VEC(bytes, 0x00ff00ff00ff00ff)
VEC(mantissa, 0x007f007f007f007f)
VEC(sign, 0x0080008000800080)
VEC(exponent16, 0x001f001f001f001f)
VEC(upper16, 0x0003000300030003)
VEC(sign16, 0x0004000400040004)
VEC(low7, 0x7f7f7f7f7f7f7f7f)
VEC(bit7, 0x8080808080808080)
VEC(low2, 0x0303030303030303)
VEC(exponentBits, 0x7c7c7c7c7c7c7c7c)

// func splitBF16x256(exp, low *byte, src *uint16, n int)
TEXT ·splitBF16x256(SB), NOSPLIT, $0-32
	MOVQ exp+0(FP), DI
	MOVQ low+8(FP), DX
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	VMOVDQU bytes<>(SB), Y8
	VMOVDQU mantissa<>(SB), Y9
	VMOVDQU sign<>(SB), Y10
	PCALIGN $32
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	FIELD($7, Y8, Y0, Y2)
	FIELD($7, Y8, Y1, Y3)
	FIELD($8, Y10, Y0, Y4)
	FIELD($8, Y10, Y1, Y5)
	VPAND Y9, Y0, Y0
	VPAND Y9, Y1, Y1
	VPOR Y4, Y0, Y0
	VPOR Y5, Y1, Y1
	PACKB(Y2, Y3)
	PACKB(Y0, Y1)
	VMOVDQU Y2, (DI)
	VMOVDQU Y0, (DX)
	ADDQ $64, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func joinBF16x256(dst *uint16, exp, low *byte, n int)
TEXT ·joinBF16x256(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ exp+8(FP), SI
	MOVQ low+16(FP), DX
	MOVQ n+24(FP), CX
	VMOVDQU low7<>(SB), Y8
	VMOVDQU bit7<>(SB), Y9
	PCALIGN $32
loop:
	VPERMQ $0xd8, (SI), Y0
	VPERMQ $0xd8, (DX), Y1
	VPSLLW $7, Y0, Y2
	VPSRLW $1, Y0, Y3
	VPAND Y9, Y2, Y2
	VPAND Y8, Y3, Y3
	VPAND Y8, Y1, Y4
	VPAND Y9, Y1, Y5
	VPOR Y4, Y2, Y2
	VPOR Y5, Y3, Y3
	UNPACKB(Y2, Y3, Y0)
	VMOVDQU Y2, (DI)
	VMOVDQU Y0, 32(DI)
	ADDQ $64, DI
	ADDQ $32, SI
	ADDQ $32, DX
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func splitF16x256(exp, low, high *byte, src *uint16, n int)
TEXT ·splitF16x256(SB), NOSPLIT, $0-40
	MOVQ exp+0(FP), DI
	MOVQ low+8(FP), DX
	MOVQ high+16(FP), BX
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	VMOVDQU bytes<>(SB), Y8
	VMOVDQU exponent16<>(SB), Y9
	VMOVDQU upper16<>(SB), Y10
	VMOVDQU sign16<>(SB), Y11
	PCALIGN $32
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	FIELD($10, Y9, Y0, Y2)
	FIELD($10, Y9, Y1, Y3)
	FIELD($8, Y10, Y0, Y4)
	FIELD($8, Y10, Y1, Y5)
	FIELD($13, Y11, Y0, Y6)
	FIELD($13, Y11, Y1, Y7)
	VPAND Y8, Y0, Y0
	VPAND Y8, Y1, Y1
	VPOR Y6, Y4, Y4
	VPOR Y7, Y5, Y5
	PACKB(Y2, Y3)
	PACKB(Y0, Y1)
	PACKB(Y4, Y5)
	VMOVDQU Y2, (DI)
	VMOVDQU Y0, (DX)
	VMOVDQU Y4, (BX)
	ADDQ $64, SI
	ADDQ $32, DI
	ADDQ $32, DX
	ADDQ $32, BX
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET

// func joinF16x256(dst *uint16, exp, low, high *byte, n int)
TEXT ·joinF16x256(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ exp+8(FP), SI
	MOVQ low+16(FP), DX
	MOVQ high+24(FP), BX
	MOVQ n+32(FP), CX
	VMOVDQU low2<>(SB), Y8
	VMOVDQU bit7<>(SB), Y9
	VMOVDQU exponentBits<>(SB), Y10
	PCALIGN $32
loop:
	VPERMQ $0xd8, (SI), Y0
	VPERMQ $0xd8, (DX), Y1
	VPERMQ $0xd8, (BX), Y2
	VPSLLW $2, Y0, Y0 // bits 2 to 6 of the high byte
	VPSLLW $5, Y2, Y3 // bit 7
	VPAND Y10, Y0, Y0
	VPAND Y9, Y3, Y3
	VPAND Y8, Y2, Y2
	VPOR Y3, Y0, Y0
	VPOR Y2, Y0, Y0
	UNPACKB(Y1, Y0, Y2)
	VMOVDQU Y1, (DI)
	VMOVDQU Y2, 32(DI)
	ADDQ $64, DI
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, BX
	SUBQ $32, CX
	JA loop
	VZEROUPPER
	RET
