// Macros that decode groups of 64 codes, for AVX-512, and constants. All of them
// stand before the first TEXT of a file, because go vet reads a file without
// expanding them.
//
// Register use: SI points to the words of a group, R10 to the next escape, R9
// counts symbols down. AX, Z0 to Z2 and K1 to K4 are scratch, K7 has the escapes
// of the group. Z16 to Z30 are symbols by code, for width 4 in Z16 for every
// lane, with the values of bits in Z17 to Z20. Z31 is the symbol of the last
// code.

// VEC64 declares a constant of 64 bytes by its 64-bit elements.
#define VEC64(NAME, A, B, C, D, E, F, G, H) \
	DATA NAME<>+0(SB)/8, $A \
	DATA NAME<>+8(SB)/8, $B \
	DATA NAME<>+16(SB)/8, $C \
	DATA NAME<>+24(SB)/8, $D \
	DATA NAME<>+32(SB)/8, $E \
	DATA NAME<>+40(SB)/8, $F \
	DATA NAME<>+48(SB)/8, $G \
	DATA NAME<>+56(SB)/8, $H \
	GLOBL NAME<>(SB), RODATA|NOPTR, $64

// FILL fills the bytes of Z with an immediate.
#define FILL(VAL, Z) \
	MOVL $VAL, AX \
	VPBROADCASTB AX, Z

// SELECT replaces the bits of A that the mask M has by those of B.
#define SELECT(M, B, A) VPTERNLOGQ $0xd8, M, B, A

// SETUP1 to SETUP4 load the table of symbols from (DX).
#define SETUP1 \
	VPBROADCASTB 0(DX), Z16 \
	VPBROADCASTB 1(DX), Z31

#define SETUP2 \
	VPBROADCASTB 0(DX), Z16 \
	VPBROADCASTB 1(DX), Z17 \
	VPBROADCASTB 2(DX), Z18 \
	VPBROADCASTB 3(DX), Z31

#define SETUP3 \
	VPBROADCASTB 0(DX), Z16 \
	VPBROADCASTB 1(DX), Z17 \
	VPBROADCASTB 2(DX), Z18 \
	VPBROADCASTB 3(DX), Z19 \
	VPBROADCASTB 4(DX), Z20 \
	VPBROADCASTB 5(DX), Z21 \
	VPBROADCASTB 6(DX), Z22 \
	VPBROADCASTB 7(DX), Z31

#define SETUP4 \
	VBROADCASTI32X4 (DX), Z16 \
	FILL(1, Z17) \
	FILL(2, Z18) \
	FILL(4, Z19) \
	FILL(8, Z20) \
	VPBROADCASTB 15(DX), Z31

// SYMBOLS1 to SYMBOLS4 make Z0 the symbols of a group, but for those of the last
// code, whose places are in K7.
#define SYMBOLS1 \
	KMOVQ (SI), K7 \
	VMOVDQA64 Z16, Z0

#define SYMBOLS2 \
	KMOVQ (SI), K1 \
	KMOVQ 8(SI), K2 \
	VPBLENDMB Z17, Z16, K1, Z0 \
	KANDQ K1, K2, K7 \
	VMOVDQU8 Z18, K2, Z0

#define SYMBOLS3 \
	KMOVQ (SI), K1 \
	KMOVQ 8(SI), K2 \
	KMOVQ 16(SI), K3 \
	VPBLENDMB Z17, Z16, K1, Z0 \
	VPBLENDMB Z19, Z18, K1, Z1 \
	VPBLENDMB Z21, Z20, K1, Z2 \
	KANDQ K1, K2, K7 \
	VMOVDQU8 Z1, K2, Z0 \
	VMOVDQU8 Z22, K2, Z2 \
	KANDQ K3, K7, K7 \
	VMOVDQU8 Z2, K3, Z0

#define SYMBOLS4 \
	KMOVQ (SI), K1 \
	KMOVQ 8(SI), K2 \
	KMOVQ 16(SI), K3 \
	KMOVQ 24(SI), K4 \
	VMOVDQU8.Z Z17, K1, Z0 \
	VPADDB Z18, Z0, K2, Z0 \
	KANDQ K1, K2, K7 \
	VPADDB Z19, Z0, K3, Z0 \
	KANDQ K3, K4, K1 \
	VPADDB Z20, Z0, K4, Z0 \
	KANDQ K1, K7, K7 \
	VPSHUFB Z0, Z16, Z0

// MASK1 to MASK4 make AX what K7 is, before SI goes on.
#define MASK1 MOVQ (SI), AX
#define MASK2 \
	MASK1 \
	ANDQ 8(SI), AX
#define MASK3 \
	MASK2 \
	ANDQ 16(SI), AX
#define MASK4 \
	MASK3 \
	ANDQ 24(SI), AX

// ESCAPES puts the next escapes into Z0 and goes on behind them. It loads 64
// bytes of them.
#define ESCAPES \
	VMOVDQU64 (R10), Z1 \
	POPCNTQ AX, AX \
	VPEXPANDB Z1, K7, Z0 \
	ADDQ AX, R10

// LAST puts the symbol of the last code into Z0.
#define LAST VMOVDQU8 Z31, K7, Z0

// GROUPS decodes n symbols, a multiple of 64 and not 0, of an open level, or of
// a closed one if R8 is 0. SIZE is that of the words of a group. OUT takes the
// symbols from Z0. R10 has moved by the number of escapes.
#define GROUPS(SYMBOLS, MASK, SIZE, OUT) \
	TESTQ R8, R8 \
	JZ closed \
	PCALIGN $32 \
open: \
	MASK \
	SYMBOLS \
	ESCAPES \
	OUT \
	ADDQ $SIZE, SI \
	SUBQ $64, R9 \
	JA open \
	JMP done \
	PCALIGN $32 \
closed: \
	SYMBOLS \
	LAST \
	OUT \
	ADDQ $SIZE, SI \
	SUBQ $64, R9 \
	JA closed \
done: \
	VZEROUPPER
