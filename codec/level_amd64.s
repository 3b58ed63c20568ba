//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

// DECODE is decodeLevel for n symbols, a multiple of 64 and not 0. The code of
// all ones is 0 in the table of an open level, so that escapes are added by or;
// a closed level has a loop of its own, without.
#define DECODE(CODES, MASK, SIZE) \
	MOVQ dst+0(FP), DI \
	MOVQ words+8(FP), SI \
	MOVQ n+16(FP), R9 \
	MOVQ open+24(FP), R8 \
	MOVQ table+32(FP), DX \
	MOVQ escapes+40(FP), R10 \
	SETUP(inOrder) \
	TESTQ R8, R8 \
	JZ closed \
	PCALIGN $32 \
loop: \
	MASK \
	CODES(0, Y0) \
	CODES(4, Y1) \
	INORDER(Y0) \
	INORDER(Y1) \
	VMOVDQU Y0, (DI) \
	VMOVDQU Y1, 32(DI) \
	ADDQ $SIZE, SI \
	ADDQ $64, DI \
	SUBQ $64, R9 \
	JA loop \
	JMP done \
	PCALIGN $32 \
closed: \
	CODES(0, Y0) \
	CODES(4, Y1) \
	VMOVDQU Y0, (DI) \
	VMOVDQU Y1, 32(DI) \
	ADDQ $SIZE, SI \
	ADDQ $64, DI \
	SUBQ $64, R9 \
	JA closed \
done: \
	SUBQ escapes+40(FP), R10 \
	MOVQ R10, used+48(FP) \
	VZEROUPPER \
	RET

CONSTANTS

// func decode1x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode1x256(SB), NOSPLIT, $0-56
	DECODE(CODES1, MASK1, 8)

// func decode2x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode2x256(SB), NOSPLIT, $0-56
	DECODE(CODES2, MASK2, 16)

// func decode3x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode3x256(SB), NOSPLIT, $0-56
	DECODE(CODES3, MASK3, 24)

// func decode4x256(dst, words *byte, n int, open uint64, table *[16]byte, escapes *byte) (used int)
TEXT ·decode4x256(SB), NOSPLIT, $0-56
	DECODE(CODES4, MASK4, 32)
