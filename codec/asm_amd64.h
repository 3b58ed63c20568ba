// Macros that decode and encode groups of 64 codes, for AVX2. All of them stand
// before the first TEXT of a file, because go vet reads a file without
// expanding them.
//
// Register use: SI points to the words of a group, or its symbols if it is
// encoded, R8 is open, R10 points to the next escape, R11 to the table expand,
// CX to the table compress. AX, BX and Y4 to Y7, or Y15, are scratch. SETUP
// sets Y12 to Y15.

// VEC declares a constant of 32 bytes by its 64-bit elements.
#define VEC(NAME, A, B, C, D) \
	DATA NAME<>+0(SB)/8, $A \
	DATA NAME<>+8(SB)/8, $B \
	DATA NAME<>+16(SB)/8, $C \
	DATA NAME<>+24(SB)/8, $D \
	GLOBL NAME<>(SB), RODATA|NOPTR, $32

#define CONSTANTS \
	VEC(ones, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101) \
	VEC(bits, 0x8040201008040201, 0x8040201008040201, 0x8040201008040201, 0x8040201008040201) \
	VEC(inOrder, 0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303) \
	VEC(crossed, 0, 0x0202020202020202, 0x0101010101010101, 0x0303030303030303)

// SETUP loads the constants, and the table of symbols from (DX). ORDER is the
// order of the eighths of a group, as bytes: inOrder, or crossed, as VPUNPCKLBW
// and VPUNPCKHBW need them to give 32 words in order.
#define SETUP(ORDER) \
	LEAQ ·expand(SB), R11 \
	VMOVDQU ones<>(SB), Y12 \
	VMOVDQU bits<>(SB), Y13 \
	VMOVDQU ORDER<>(SB), Y14 \
	VBROADCASTI128 (DX), Y15

// BIT makes byte i of Y bit i of the 32 bits at OFF: every byte gets the byte
// that has its bit, keeps that bit only, and becomes 1 if it is not 0.
#define BIT(OFF, Y) \
	VPBROADCASTD OFF(SI), Y \
	VPSHUFB Y14, Y, Y \
	VPAND Y13, Y, Y \
	VPMINUB Y12, Y, Y

// CODES1 to CODES4 make Y the symbols of 32 codes of that width, whose first
// word is at OFF; escapes are 0.
#define CODES1(OFF, Y) \
	BIT(OFF, Y) \
	VPSHUFB Y, Y15, Y

#define CODES2(OFF, Y) \
	BIT(OFF, Y) \
	BIT(OFF+8, Y4) \
	VPADDB Y4, Y4, Y4 \
	VPOR Y4, Y, Y \
	VPSHUFB Y, Y15, Y

#define CODES3(OFF, Y) \
	BIT(OFF, Y) \
	BIT(OFF+8, Y4) \
	BIT(OFF+16, Y5) \
	VPADDB Y5, Y5, Y5 \
	VPOR Y5, Y4, Y4 \
	VPADDB Y4, Y4, Y4 \
	VPOR Y4, Y, Y \
	VPSHUFB Y, Y15, Y

#define CODES4(OFF, Y) \
	BIT(OFF, Y) \
	BIT(OFF+8, Y4) \
	BIT(OFF+16, Y5) \
	BIT(OFF+24, Y6) \
	VPADDB Y4, Y4, Y4 \
	VPADDB Y6, Y6, Y6 \
	VPOR Y4, Y, Y \
	VPOR Y6, Y5, Y5 \
	VPSLLW $2, Y5, Y5 \
	VPOR Y5, Y, Y \
	VPSHUFB Y, Y15, Y

// MASK1 to MASK4 make AX the escapes of a group: the codes of all ones.
#define MASK1 \
	MOVQ (SI), AX \
	ANDQ R8, AX

#define MASK2 \
	MASK1 \
	ANDQ 8(SI), AX

#define MASK3 \
	MASK2 \
	ANDQ 16(SI), AX

#define MASK4 \
	MASK3 \
	ANDQ 24(SI), AX

// EXPAND8 makes the low half of X the next escapes where the byte M of AX has
// bits, 0 elsewhere, and goes on behind them. The 8 bytes behind an entry of
// the table do not matter.
#define EXPAND8(M, X) \
	MOVBLZX M, BX \
	VMOVQ (R10), X \
	VPSHUFB (R11)(BX*8), X, X \
	POPCNTL BX, BX \
	ADDQ BX, R10

// EXPAND puts the next escapes into Y, where the low half of AX has bits, and
// moves the high half down. XA to XD are X4 to X7 in the order of the eighths.
#define EXPAND(Y, XA, XB, XC, XD) \
	EXPAND8(AL, XA) \
	EXPAND8(AH, XB) \
	SHRQ $16, AX \
	EXPAND8(AL, XC) \
	EXPAND8(AH, XD) \
	SHRQ $16, AX \
	VPUNPCKLQDQ X5, X4, X4 \
	VPUNPCKLQDQ X7, X6, X6 \
	VINSERTI128 $1, X6, Y4, Y4 \
	VPOR Y4, Y, Y

#define INORDER(Y) EXPAND(Y, X4, X5, X6, X7)
#define CROSSED(Y) EXPAND(Y, X4, X6, X5, X7)

// COMPRESS8 writes the symbols at OFF for which the byte M of AX has bits to
// the escapes, and goes on behind them. It writes 8 bytes.
#define COMPRESS8(M, OFF) \
	MOVBLZX M, BX \
	VMOVQ OFF(SI), X15 \
	VPSHUFB (CX)(BX*8), X15, X15 \
	VMOVQ X15, (R10) \
	POPCNTL BX, BX \
	ADDQ BX, R10

// COMPRESS16 is that for the low 16 bits of AX; it moves the others down.
#define COMPRESS16(OFF) \
	COMPRESS8(AL, OFF) \
	COMPRESS8(AH, OFF+8) \
	SHRQ $16, AX
