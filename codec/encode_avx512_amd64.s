//go:build !purego

#include "textflag.h"
#include "asm_avx512_amd64.h"

// Register use: SI points to the symbols of a group, DI to its words, R10 to the
// next escape, R9 counts symbols down, K6 is open.

// NE makes K the symbols among those of IN that are not the one in Z.
#define NE(Z, IN, K) VPCMPUB $4, Z, Z0, IN, K

// WORDS1 and WORDS2 compare: a symbol that is none of those whose codes have a
// bit clear has it set. They write the words of the symbols in Z0 and make K7
// those of the last code.
#define SETUP1C VPBROADCASTB (DX), Z16
#define WORDS1 \
	VPCMPUB $4, Z16, Z0, K7 \
	KMOVQ K7, (DI)

#define SETUP2C \
	VPBROADCASTB (DX), Z16 \
	VPBROADCASTB 32(DX), Z17 \
	VPBROADCASTB 64(DX), Z18

#define WORDS2 \
	VPCMPUB $4, Z16, Z0, K1 \
	NE(Z17, K1, K2) \
	NE(Z18, K1, K1) \
	KMOVQ K1, (DI) \
	KMOVQ K2, 8(DI) \
	KANDQ K1, K2, K7

// WORDS3 and WORDS4 look the codes up.
#define CODEBOOK \
	VMOVDQU64 (DX), Z16 \
	VMOVDQU64 64(DX), Z17 \
	VMOVDQU64 128(DX), Z18 \
	VMOVDQU64 192(DX), Z19 \
	FILL(1, Z20) \
	FILL(2, Z21) \
	FILL(4, Z22) \
	FILL(8, Z23)

#define WORDS3 \
	VMOVDQA64 Z0, Z1 \
	VMOVDQA64 Z0, Z2 \
	VPERMI2B Z17, Z16, Z1 \
	VPERMI2B Z19, Z18, Z2 \
	VPMOVB2M Z0, K1 \
	VMOVDQU8 Z2, K1, Z1 \
	VPTESTMB Z20, Z1, K1 \
	VPTESTMB Z21, Z1, K2 \
	VPTESTMB Z22, Z1, K3 \
	KMOVQ K1, (DI) \
	KMOVQ K2, 8(DI) \
	KMOVQ K3, 16(DI) \
	KANDQ K1, K2, K7 \
	KANDQ K3, K7, K7

#define WORDS4 \
	WORDS3 \
	VPTESTMB Z23, Z1, K4 \
	KMOVQ K4, 24(DI) \
	KANDQ K4, K7, K7

// ENCODE is encodeLevel for n symbols, a multiple of 64 and not 0. It writes 64
// bytes wherever escapes go.
#define ENCODE(SETUP, WORDS, SIZE) \
	MOVQ words+0(FP), DI \
	MOVQ escapes+8(FP), R10 \
	MOVQ src+16(FP), SI \
	MOVQ n+24(FP), R9 \
	KMOVQ open+32(FP), K6 \
	SETUP \
	PCALIGN $32 \
loop: \
	VMOVDQU64 (SI), Z0 \
	WORDS \
	KANDQ K6, K7, K7 \
	VPCOMPRESSB.Z Z0, K7, Z1 \
	KMOVQ K7, AX \
	VMOVDQU64 Z1, (R10) \
	POPCNTQ AX, AX \
	ADDQ $64, SI \
	ADDQ $SIZE, DI \
	ADDQ AX, R10 \
	SUBQ $64, R9 \
	JA loop \
	SUBQ escapes+8(FP), R10 \
	MOVQ R10, used+48(FP) \
	VZEROUPPER \
	RET

// func encode1x512(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode1x512(SB), NOSPLIT, $0-56
	MOVQ symbols+40(FP), DX
	ENCODE(SETUP1C, WORDS1, 8)

// func encode2x512(words, escapes, src *byte, n int, open uint64, symbols *[15][32]byte) (used int)
TEXT ·encode2x512(SB), NOSPLIT, $0-56
	MOVQ symbols+40(FP), DX
	ENCODE(SETUP2C, WORDS2, 16)

// func encode3x512(words, escapes, src *byte, n int, open uint64, codes *codebook) (used int)
TEXT ·encode3x512(SB), NOSPLIT, $0-56
	MOVQ codes+40(FP), DX
	ENCODE(CODEBOOK, WORDS3, 24)

// func encode4x512(words, escapes, src *byte, n int, open uint64, codes *codebook) (used int)
TEXT ·encode4x512(SB), NOSPLIT, $0-56
	MOVQ codes+40(FP), DX
	ENCODE(CODEBOOK, WORDS4, 32)
