//go:build !purego

#include "textflag.h"

// The kernels look symbols up in a table of codes, inverted: all ones, which
// many symbols have, are 0, and the bits of the others stand apart, at 7, 5, 3 and 1, at 7
// and 3 for width 2. V0 to V3 have every fourth symbol, from the first, second,
// third and fourth on.

// Near kernels have 64 codes from symbol base on, in V16 to V19. Symbols become
// codes.
#define SETUPNEAR \
	MOVD table+40(FP), R9 \
	MOVD base+48(FP), R10 \
	VLD1 (R9), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VDUP R10, V15.B16

#define NEAR1(V) \
	VSUB V15.B16, V.B16, V.B16 \
	VTBL V.B16, [V16.B16, V17.B16, V18.B16, V19.B16], V.B16
#define NEAR \
	NEAR1(V0) \
	NEAR1(V1) \
	NEAR1(V2) \
	NEAR1(V3)

// Far kernels have 256 codes, in V16 to V31. An index that is too large leaves
// what was there.
#define SETUPFAR \
	MOVD table+40(FP), R9 \
	VLD1.P 64(R9), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VLD1.P 64(R9), [V20.B16, V21.B16, V22.B16, V23.B16] \
	VLD1.P 64(R9), [V24.B16, V25.B16, V26.B16, V27.B16] \
	VLD1 (R9), [V28.B16, V29.B16, V30.B16, V31.B16] \
	VMOVI $64, V15.B16

#define FAR1(V, T) \
	VTBL V.B16, [V16.B16, V17.B16, V18.B16, V19.B16], T.B16 \
	VSUB V15.B16, V.B16, V.B16 \
	VTBX V.B16, [V20.B16, V21.B16, V22.B16, V23.B16], T.B16 \
	VSUB V15.B16, V.B16, V.B16 \
	VTBX V.B16, [V24.B16, V25.B16, V26.B16, V27.B16], T.B16 \
	VSUB V15.B16, V.B16, V.B16 \
	VTBX V.B16, [V28.B16, V29.B16, V30.B16, V31.B16], T.B16 \
	VMOV T.B16, V.B16
#define FAR \
	FAR1(V0, V4) \
	FAR1(V1, V5) \
	FAR1(V2, V6) \
	FAR1(V3, V7)

// PACK1 to PACK4 write the words of codes in V0 to V3 and make V4 the codes that
// are all ones. First bytes get bits of 4 codes that follow one another: their
// upper halves have those of one word, their lower halves those of another. Then
// PAIRS puts two such halves together, of bytes of A and B: V6 has the words of the
// upper halves, V7 those of the lower ones, no longer inverted.
#define PAIRS(A, B) \
	VUZP1 B.B16, A.B16, V5.B16 \
	VUZP2 B.B16, A.B16, V6.B16 \
	VMOV V5.B16, V7.B16 \
	VSLI $4, V6.B16, V7.B16 \
	VSRI $4, V5.B16, V6.B16 \
	VEOR V14.B16, V6.B16, V6.B16 \
	VEOR V14.B16, V7.B16, V7.B16

#define PACK2BITS \
	VUSRA $1, V0.B16, V1.B16 \
	VUSRA $1, V2.B16, V3.B16 \
	VUSRA $2, V1.B16, V3.B16 \
	PAIRS(V3, V3)

#define PACK1 \
	PACK2BITS \
	VMOV V6.B8, V4.B8 \
	FMOVD.P F6, 8(R0)

#define PACK2 \
	PACK2BITS \
	VAND V6.B8, V7.B8, V4.B8 \
	FSTPD (F6, F7), (R0) \
	ADD $16, R0, R0

// PACK4BITS makes V6 words 0 and 1, V7 words 2 and 3. On the way, V1 has bits of
// codes 0 and 1 of every 4, V3 those of codes 2 and 3; then V4 has the ones for
// words 0 and 2, V0 the ones for words 1 and 3.
#define PACK4BITS \
	VUSRA $1, V0.B16, V1.B16 \
	VUSRA $1, V2.B16, V3.B16 \
	VUSHR $2, V1.B16, V4.B16 \
	VSHL $2, V3.B16, V0.B16 \
	VBIT V13.B16, V3.B16, V4.B16 \
	VBIF V13.B16, V1.B16, V0.B16 \
	PAIRS(V4, V0)

#define PACK3 \
	PACK4BITS \
	VEXT $8, V6.B16, V6.B16, V4.B16 \
	VAND V6.B8, V7.B8, V5.B8 \
	VAND V5.B8, V4.B8, V4.B8 \
	FMOVQ.P F6, 16(R0) \
	FMOVD.P F7, 8(R0)

#define PACK4 \
	PACK4BITS \
	VAND V6.B16, V7.B16, V5.B16 \
	VEXT $8, V5.B16, V5.B16, V4.B16 \
	VAND V5.B8, V4.B8, V4.B8 \
	VST1.P [V6.B16, V7.B16], 32(R0)

// TAKE8 writes the symbols at OFF from R11 on for which the byte FROM of R7 has
// bits. It writes 8 bytes.
#define TAKE8(OFF, FROM) \
	UBFX $FROM, R7, $8, R9 \
	FMOVD OFF(R2), F0 \
	FMOVD (R5)(R9<<3), F1 \
	VTBL V1.B8, [V0.B16], V0.B8 \
	FMOVD F0, (R1)(R11)

// COUNT makes R11 the number of escapes before the byte FROM of R7.
#define COUNT(FROM) UBFX $(FROM-8), R8, $8, R11

#define TAKE \
	MOVD $0, R11 \
	TAKE8(0, 0) \
	COUNT(8) \
	TAKE8(8, 8) \
	COUNT(16) \
	TAKE8(16, 16) \
	COUNT(24) \
	TAKE8(24, 24) \
	COUNT(32) \
	TAKE8(32, 32) \
	COUNT(40) \
	TAKE8(40, 40) \
	COUNT(48) \
	TAKE8(48, 48) \
	COUNT(56) \
	TAKE8(56, 56) \
	ADD R8>>56, R1, R1

// ENCODE is encodeLevel for n symbols, a multiple of 64 and not 0.
#define ENCODE(SETUP, LOOKUP, PACK) \
	MOVD words+0(FP), R0 \
	MOVD escapes+8(FP), R1 \
	MOVD src+16(FP), R2 \
	MOVD n+24(FP), R3 \
	MOVD open+32(FP), R4 \
	SETUP \
	MOVD R1, R14 \
	MOVD $·compress(SB), R5 \
	MOVD $0x0101010101010101, R6 \
	VMOVI $0xcc, V13.B16 \
	VMOVI $0xff, V14.B16 \
loop: \
	VLD4 (R2), [V0.B16, V1.B16, V2.B16, V3.B16] \
	LOOKUP \
	PACK \
	VMOV V4.D[0], R7 \
	ANDS R4, R7, R7 \
	BEQ next \
	VCNT V4.B8, V4.B8 \
	VMOV V4.D[0], R8 \
	MUL R6, R8, R8 \
	TAKE \
next: \
	ADD $64, R2, R2 \
	SUBS $64, R3, R3 \
	BNE loop \
	SUB R14, R1, R9

// func encodeNear1x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)
TEXT ·encodeNear1x128(SB), NOSPLIT, $0-64
	ENCODE(SETUPNEAR, NEAR, PACK1)
	MOVD R9, used+56(FP)
	RET

// func encodeNear2x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)
TEXT ·encodeNear2x128(SB), NOSPLIT, $0-64
	ENCODE(SETUPNEAR, NEAR, PACK2)
	MOVD R9, used+56(FP)
	RET

// func encodeNear3x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)
TEXT ·encodeNear3x128(SB), NOSPLIT, $0-64
	ENCODE(SETUPNEAR, NEAR, PACK3)
	MOVD R9, used+56(FP)
	RET

// func encodeNear4x128(words, escapes, src *byte, n int, open uint64, table *byte, base int) (used int)
TEXT ·encodeNear4x128(SB), NOSPLIT, $0-64
	ENCODE(SETUPNEAR, NEAR, PACK4)
	MOVD R9, used+56(FP)
	RET

// func encodeFar1x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)
TEXT ·encodeFar1x128(SB), NOSPLIT, $0-56
	ENCODE(SETUPFAR, FAR, PACK1)
	MOVD R9, used+48(FP)
	RET

// func encodeFar2x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)
TEXT ·encodeFar2x128(SB), NOSPLIT, $0-56
	ENCODE(SETUPFAR, FAR, PACK2)
	MOVD R9, used+48(FP)
	RET

// func encodeFar3x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)
TEXT ·encodeFar3x128(SB), NOSPLIT, $0-56
	ENCODE(SETUPFAR, FAR, PACK3)
	MOVD R9, used+48(FP)
	RET

// func encodeFar4x128(words, escapes, src *byte, n int, open uint64, table *byte) (used int)
TEXT ·encodeFar4x128(SB), NOSPLIT, $0-56
	ENCODE(SETUPFAR, FAR, PACK4)
	MOVD R9, used+48(FP)
	RET
