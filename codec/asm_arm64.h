// Macros that decode groups of 64 codes, for NEON. All of them stand before the
// first TEXT of a file, because go vet reads a file without expanding them.
//
// Register use: R1 points to the words of a group, R2 counts symbols down, R3
// points to the next escape, R4 and R5 to the tables expand[0] and expand[1], R6
// is a byte of 1 eight times, R7 has the escapes of the group as bits, R8 the
// number of them up to and with each of its bytes. R9 to R12 and V8 to V23 are
// scratch. V30 and V31 are symbols by code, see symbolTables, and V0 to V3 the
// symbols of a group. Masks are V24 to V29, by width.

// SETUP loads symbols and tables from the arguments that all kernels have.
#define SETUP(words, n, table, escapes) \
	MOVD words, R1 \
	MOVD n, R2 \
	MOVD table, R9 \
	MOVD escapes, R3 \
	MOVD R3, R14 \
	VLD1 (R9), [V30.B16, V31.B16] \
	MOVD $·expand(SB), R4 \
	ADD $2048, R4, R5 \
	MOVD $0x0101010101010101, R6

#define SETUP1 \
	VMOVQ $0x0000000000000000, $0x0101010101010101, V24 \
	VMOVI $2, V28.B16 \
	VADD V28.B16, V24.B16, V25.B16 \
	VADD V28.B16, V25.B16, V26.B16 \
	VADD V28.B16, V26.B16, V27.B16 \
	VMOVQ $0x8040201008040201, $0x8040201008040201, V29

#define SETUP2 \
	VMOVI $0x33, V24.B16 \
	VMOVI $0x0f, V25.B16

#define SETUP3 \
	SETUP2 \
	VMOVI $0x55, V26.B16

#define SETUP4 SETUP3

// WORDS1 to WORDS4 load the words of a group: two of them side by side in a
// vector, but for width 2, and zeros for a fourth one that is not there.
#define WORDS1 FMOVD.P 8(R1), F8
#define WORDS2 \
	FLDPD (R1), (F8, F9) \
	ADD $16, R1, R1
#define WORDS3 \
	FMOVQ.P 16(R1), F8 \
	FMOVD.P 8(R1), F9
#define WORDS4 VLD1.P 32(R1), [V8.B16, V9.B16]

// MASK1 to MASK4 make R7 the escapes, the codes of all ones, and R8 their
// numbers.
#define MASK(V) \
	VMOV V.D[0], R7 \
	VCNT V.B8, V12.B8 \
	VMOV V12.D[0], R8 \
	MUL R6, R8, R8

#define MASK1 MASK(V8)
#define MASK2 \
	VAND V8.B8, V9.B8, V12.B8 \
	MASK(V12)
#define MASK3 \
	VEXT $8, V8.B16, V8.B16, V12.B16 \
	VAND V8.B8, V9.B8, V13.B8 \
	VAND V12.B8, V13.B8, V12.B8 \
	MASK(V12)
#define MASK4 \
	VAND V8.B16, V9.B16, V13.B16 \
	VEXT $8, V13.B16, V13.B16, V12.B16 \
	VAND V12.B8, V13.B8, V12.B8 \
	MASK(V12)

// OPEN1 makes symbols of a level that has one, and escapes.
#define OPEN1 \
	VMOV V30.B16, V0.B16 \
	VMOV V30.B16, V1.B16 \
	VMOV V30.B16, V2.B16 \
	VMOV V30.B16, V3.B16

// CLOSED1 makes symbols of two. Every byte gets the byte that has its bit and
// becomes all ones if that bit is set.
#define BIT(ORDER, V) \
	VTBL ORDER.B16, [V8.B16], V.B16 \
	VCMTST V29.B16, V.B16, V.B16 \
	VBSL V30.B16, V31.B16, V.B16
#define CLOSED1 \
	BIT(V24, V0) \
	BIT(V25, V1) \
	BIT(V26, V2) \
	BIT(V27, V3)

// SYMBOLS2 puts the codes of two neighbours into 4 bits, which are the index of
// both symbols: bytes of V10 have pairs 0 and 2 of their 8 codes, of V11 pairs 1
// and 3.
#define PAIRS(N, A, B) \
	VTBL N.B16, [V30.B16], V10.B16 \
	VTBL N.B16, [V31.B16], V11.B16 \
	VZIP1 V11.B16, V10.B16, A.B16 \
	VZIP2 V11.B16, V10.B16, B.B16
#define SYMBOLS2 \
	VSHL $2, V9.B16, V10.B16 \
	VUSHR $2, V8.B16, V11.B16 \
	VBIT V24.B16, V8.B16, V10.B16 \
	VBIF V24.B16, V9.B16, V11.B16 \
	VZIP1 V11.B16, V10.B16, V8.B16 \
	VAND V25.B16, V8.B16, V9.B16 \
	VUSHR $4, V8.B16, V10.B16 \
	VZIP1 V10.H8, V9.H8, V8.H8 \
	VZIP2 V10.H8, V9.H8, V9.H8 \
	PAIRS(V8, V0, V1) \
	PAIRS(V9, V2, V3)

// SYMBOLS4 turns 8 bytes of each of 4 words into 64 indices of 4 bits. First
// fields of 2 bits: of bits 0 and 2 of the codes in the lower half of a vector,
// of bits 1 and 3 in the upper one; V10 has those with an even number, V11 the
// odd ones. Then fields of 4 bits: V10 has codes 0 and 4 of every 8 in the lower
// half, 1 and 5 in the upper one, V11 has 2 and 6, and 3 and 7.
#define NIBBLES(V, A, B) \
	VAND V25.B16, V.B16, V8.B16 \
	VUSHR $4, V.B16, V9.B16 \
	VZIP1 V9.S4, V8.S4, A.S4 \
	VZIP2 V9.S4, V8.S4, B.S4
#define SYMBOLS4 \
	VSHL $1, V9.B16, V10.B16 \
	VUSHR $1, V8.B16, V11.B16 \
	VBIT V26.B16, V8.B16, V10.B16 \
	VBIF V26.B16, V9.B16, V11.B16 \
	VTRN1 V11.D2, V10.D2, V8.D2 \
	VTRN2 V11.D2, V10.D2, V9.D2 \
	VSHL $2, V9.B16, V10.B16 \
	VUSHR $2, V8.B16, V11.B16 \
	VBIT V24.B16, V8.B16, V10.B16 \
	VBIF V24.B16, V9.B16, V11.B16 \
	VZIP1 V11.B16, V10.B16, V8.B16 \
	VZIP2 V11.B16, V10.B16, V9.B16 \
	VZIP1 V9.B16, V8.B16, V10.B16 \
	VZIP2 V9.B16, V8.B16, V11.B16 \
	NIBBLES(V10, V0, V1) \
	NIBBLES(V11, V2, V3) \
	VTBL V0.B16, [V30.B16], V0.B16 \
	VTBL V1.B16, [V30.B16], V1.B16 \
	VTBL V2.B16, [V30.B16], V2.B16 \
	VTBL V3.B16, [V30.B16], V3.B16

#define SYMBOLS3 SYMBOLS4

// PUT puts the next escapes into the 16 symbols of V, whose bits begin at FROM.
// The lower 8 take theirs from V16, loaded from behind those of the bytes before,
// the upper 8 from V17.
#define PUT(FROM, V) \
	UBFX $FROM, R7, $8, R9 \
	UBFX $(FROM+8), R7, $8, R10 \
	UBFX $FROM, R8, $8, R12 \
	FMOVD (R4)(R9<<3), F18 \
	FMOVD (R5)(R10<<3), F19 \
	FMOVD (R3)(R12), F17 \
	VZIP1 V19.D2, V18.D2, V18.D2 \
	VTBX V18.B16, [V16.B16, V17.B16], V.B16

// NEXT16 loads V16 for PUT, but for the first time.
#define NEXT16(FROM) \
	UBFX $(FROM-8), R8, $8, R11 \
	FMOVD (R3)(R11), F16

// ESCAPES puts the escapes of a group into V0 to V3 and goes on behind them.
#define ESCAPES \
	FMOVD (R3), F16 \
	PUT(0, V0) \
	NEXT16(16) \
	PUT(16, V1) \
	NEXT16(32) \
	PUT(32, V2) \
	NEXT16(48) \
	PUT(48, V3) \
	ADD R8>>56, R3, R3

// DECODE decodes n symbols, a multiple of 64 and not 0, of an open level, or of
// a closed one if R13 is 0. OUT takes them from V0 to V3. R9 is the number of
// escapes.
#define DECODE(WORDS, MASKS, OPEN, CLOSED, OUT) \
	CBZ R13, closed \
open: \
	WORDS \
	MASKS \
	OPEN \
	ESCAPES \
	OUT \
	SUBS $64, R2, R2 \
	BNE open \
	B done \
closed: \
	WORDS \
	CLOSED \
	OUT \
	SUBS $64, R2, R2 \
	BNE closed \
done: \
	SUB R14, R3, R9
