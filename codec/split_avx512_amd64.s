//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

// The kernels do 64 elements a turn; n is a multiple of 64 and not 0.

// evens and odds pick bytes from 128; planes makes 4 lanes of those 0, 1, 2 and
// 3 of every 4 bytes.
VEC64(evens, 0x0e0c0a0806040200, 0x1e1c1a1816141210, 0x2e2c2a2826242220, 0x3e3c3a3836343230, 0x4e4c4a4846444240, 0x5e5c5a5856545250, 0x6e6c6a6866646260, 0x7e7c7a7876747270)
VEC64(odds, 0x0f0d0b0907050301, 0x1f1d1b1917151311, 0x2f2d2b2927252321, 0x3f3d3b3937353331, 0x4f4d4b4947454341, 0x5f5d5b5957555351, 0x6f6d6b6967656361, 0x7f7d7b7977757371)
VEC64(planes, 0x1c1814100c080400, 0x3c3834302c282420, 0x1d1915110d090501, 0x3d3935312d292521, 0x1e1a16120e0a0602, 0x3e3a36322e2a2622, 0x1f1b17130f0b0703, 0x3f3b37332f2b2723)

#define HALVES \
	VMOVDQU64 evens<>(SB), Z14 \
	VMOVDQU64 odds<>(SB), Z15

// BYTES makes Z0 the low and Z1 the high bytes of the next 64 words.
#define BYTES \
	VMOVDQU64 (SI), Z1 \
	VMOVDQU64 64(SI), Z2 \
	VMOVDQA64 Z14, Z0 \
	VPERMI2B Z2, Z1, Z0 \
	VPERMT2B Z2, Z15, Z1

// EXPONENT makes E the exponents and LOW the signs and mantissas, from bytes
// whose highest bit is the exponent's lowest, in LOW, and those with the other
// bits and the sign. Z10 is 01, Z11 is 80.
#define EXPONENT(LOW, HIGH, E) \
	VPSRLW $7, LOW, Z8 \
	VPADDB HIGH, HIGH, E \
	SELECT(Z11, HIGH, LOW) \
	SELECT(Z10, Z8, E)

// func splitBF16x512(low, exp, src *byte, n int)
TEXT ·splitBF16x512(SB), NOSPLIT, $0-32
	MOVQ low+0(FP), DI
	MOVQ exp+8(FP), R9
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	FILL(0x01, Z10)
	FILL(0x80, Z11)
	HALVES
	PCALIGN $32
loop:
	BYTES
	EXPONENT(Z0, Z1, Z2)
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z2, (R9)
	ADDQ $128, SI
	ADDQ $64, DI
	ADDQ $64, R9
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET

// func splitF16x512(low, high, exp, src *byte, n int)
TEXT ·splitF16x512(SB), NOSPLIT, $0-40
	MOVQ low+0(FP), DI
	MOVQ high+8(FP), DX
	MOVQ exp+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	FILL(0x04, Z10)
	FILL(0x07, Z11)
	FILL(0x1f, Z12)
	HALVES
	PCALIGN $32
loop:
	BYTES
	VPSRLW $5, Z1, Z2
	VPSRLW $2, Z1, Z3
	SELECT(Z10, Z2, Z1)
	VPANDQ Z12, Z3, Z3
	VPANDQ Z11, Z1, Z1
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, (DX)
	VMOVDQU64 Z3, (R9)
	ADDQ $128, SI
	ADDQ $64, DI
	ADDQ $64, DX
	ADDQ $64, R9
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET

// func splitF32x512(high, mid, low, exp, src *byte, n int)
TEXT ·splitF32x512(SB), NOSPLIT, $0-48
	MOVQ high+0(FP), DI
	MOVQ mid+8(FP), DX
	MOVQ low+16(FP), R8
	MOVQ exp+24(FP), R9
	MOVQ src+32(FP), SI
	MOVQ n+40(FP), CX
	FILL(0x01, Z10)
	FILL(0x80, Z11)
	VMOVDQU64 planes<>(SB), Z15
	PCALIGN $32
loop:
	VPERMB 0(SI), Z15, Z0
	VPERMB 64(SI), Z15, Z1
	VPERMB 128(SI), Z15, Z2
	VPERMB 192(SI), Z15, Z3
	VSHUFI64X2 $0x88, Z1, Z0, Z4 // lanes 0 and 2 of both
	VSHUFI64X2 $0xdd, Z1, Z0, Z5 // lanes 1 and 3
	VSHUFI64X2 $0x88, Z3, Z2, Z6
	VSHUFI64X2 $0xdd, Z3, Z2, Z7
	VSHUFI64X2 $0x88, Z6, Z4, Z0
	VSHUFI64X2 $0x88, Z7, Z5, Z1
	VSHUFI64X2 $0xdd, Z6, Z4, Z2
	VSHUFI64X2 $0xdd, Z7, Z5, Z3
	EXPONENT(Z2, Z3, Z4)
	VMOVDQU64 Z0, (R8)
	VMOVDQU64 Z1, (DX)
	VMOVDQU64 Z2, (DI)
	VMOVDQU64 Z4, (R9)
	ADDQ $256, SI
	ADDQ $64, DI
	ADDQ $64, DX
	ADDQ $64, R8
	ADDQ $64, R9
	SUBQ $64, CX
	JA loop
	VZEROUPPER
	RET
