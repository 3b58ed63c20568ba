//go:build !purego

#include "textflag.h"
#include "asm_amd64.h"

#define AHEAD \
	AHEAD64 \
	PREFETCHT0 640(DI) \
	PREFETCHT0 704(DI)

#define NOTHING

// WIDEN512 converts 64 elements a turn with CONV(source, Z), then up to 16 a
// turn under a mask: no byte outside the slices is touched. ST is the store.
#define WIDEN512(CONV, TAIL, ST, PRE) \
	ARGS \
	SUBQ $64, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	CONV((SI), Z0) \
	CONV(32(SI), Z1) \
	CONV(64(SI), Z2) \
	CONV(96(SI), Z3) \
	ST Z0, (DI) \
	ST Z1, 64(DI) \
	ST Z2, 128(DI) \
	ST Z3, 192(DI) \
	ADDQ $128, SI \
	ADDQ $256, DI \
	SUBQ $64, CX \
	JAE loop \
tail: \
	ADDQ $64, CX \
	JZ done \
tail16: \
	LANES(K1) \
	VMOVDQU16.Z (SI), K1, Y0 \
	TAIL(Y0, Z0) \
	VMOVDQU32 Z0, K1, (DI) \
	ADDQ $32, SI \
	ADDQ $64, DI \
	SUBQ $16, CX \
	JA tail16 \
done:

// VCVTPH2PS makes NaNs quiet and keeps subnormals whatever MXCSR says.
#define F16UP(M, Z) VCVTPH2PS M, Z

// A BF16 is the high half of its float32.
#define BF16UP(M, Z) \
	VPMOVZXWD M, Z \
	VPSLLD $16, Z, Z

// BF16QUIET is BF16UP with the quiet bit set in NaNs.
#define BF16QUIET(M, Z) \
	BF16UP(M, Z) \
	VCMPPS $3, Z, Z, K2 \
	VPORD Z10, Z, K2, Z

// WIDENF16x256 converts 32 elements a turn, then 8; n is a multiple of 8. ST
// stores whole turns, PRE comes before each.
#define WIDENF16x256(ST, PRE) \
	ARGS \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	VCVTPH2PS (SI), Y0 \
	VCVTPH2PS 16(SI), Y1 \
	VCVTPH2PS 32(SI), Y2 \
	VCVTPH2PS 48(SI), Y3 \
	ST Y0, (DI) \
	ST Y1, 32(DI) \
	ST Y2, 64(DI) \
	ST Y3, 96(DI) \
	ADDQ $64, SI \
	ADDQ $128, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	ADDQ $32, CX \
	JZ done \
tail8: \
	VCVTPH2PS (SI), Y0 \
	VMOVUPS Y0, (DI) \
	ADDQ $16, SI \
	ADDQ $32, DI \
	SUBQ $8, CX \
	JA tail8 \
done:

// WIDENBF16x256 is the same for BF16. NaNs are looked for in pairs of vectors
// and made quiet in a block of their own.
#define WIDENBF16x256(ST, PRE) \
	ARGS \
	BCAST2(0x00400000, X15, Y15) \
	SUBQ $32, CX \
	JB tail \
	PCALIGN $32 \
loop: \
	PRE \
	BF16UP((SI), Y0) \
	BF16UP(16(SI), Y1) \
	BF16UP(32(SI), Y2) \
	BF16UP(48(SI), Y3) \
	VCMPPS $3, Y0, Y1, Y4 \
	VCMPPS $3, Y2, Y3, Y5 \
	VORPS Y4, Y5, Y4 \
	VMOVMSKPS Y4, AX \
	TESTL AX, AX \
	JNZ nan \
store: \
	ST Y0, (DI) \
	ST Y1, 32(DI) \
	ST Y2, 64(DI) \
	ST Y3, 96(DI) \
	ADDQ $64, SI \
	ADDQ $128, DI \
	SUBQ $32, CX \
	JAE loop \
tail: \
	ADDQ $32, CX \
	JZ done \
tail8: \
	BF16UP((SI), Y0) \
	VCMPPS $3, Y0, Y0, Y4 \
	VANDPS Y15, Y4, Y4 \
	VORPS Y4, Y0, Y0 \
	VMOVUPS Y0, (DI) \
	ADDQ $16, SI \
	ADDQ $32, DI \
	SUBQ $8, CX \
	JA tail8 \
	JMP done \
nan: \
	VCMPPS $3, Y0, Y0, Y4 \
	VCMPPS $3, Y1, Y1, Y5 \
	VCMPPS $3, Y2, Y2, Y6 \
	VCMPPS $3, Y3, Y3, Y7 \
	VANDPS Y15, Y4, Y4 \
	VANDPS Y15, Y5, Y5 \
	VANDPS Y15, Y6, Y6 \
	VANDPS Y15, Y7, Y7 \
	VORPS Y4, Y0, Y0 \
	VORPS Y5, Y1, Y1 \
	VORPS Y6, Y2, Y2 \
	VORPS Y7, Y3, Y3 \
	JMP store \
done:

// func widenF16x512(dst *float32, src *uint16, n int)
TEXT ·widenF16x512(SB), NOSPLIT, $0-24
	WIDEN512(F16UP, F16UP, VMOVUPS, AHEAD)
	VZEROUPPER
	RET

// func widenF16x512NT(dst *float32, src *uint16, n int)
// Non-temporal stores: dst on 64 bytes.
TEXT ·widenF16x512NT(SB), NOSPLIT, $0-24
	WIDEN512(F16UP, F16UP, VMOVNTPS, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func widenBF16x512(dst *float32, src *uint16, n int)
TEXT ·widenBF16x512(SB), NOSPLIT, $0-24
	BCAST(0x00400000, Z10)
	WIDEN512(BF16QUIET, BF16QUIET, VMOVUPS, AHEAD)
	VZEROUPPER
	RET

// func widenBF16x512NT(dst *float32, src *uint16, n int)
TEXT ·widenBF16x512NT(SB), NOSPLIT, $0-24
	BCAST(0x00400000, Z10)
	WIDEN512(BF16QUIET, BF16QUIET, VMOVNTPS, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// The kernels of AVX2. n is a multiple of 8; with non-temporal stores, of 32,
// and dst is on 32 bytes.

// func widenF16x256(dst *float32, src *uint16, n int)
TEXT ·widenF16x256(SB), NOSPLIT, $0-24
	WIDENF16x256(VMOVUPS, AHEAD64)
	VZEROUPPER
	RET

// func widenF16x256NT(dst *float32, src *uint16, n int)
TEXT ·widenF16x256NT(SB), NOSPLIT, $0-24
	WIDENF16x256(VMOVNTPS, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func widenBF16x256(dst *float32, src *uint16, n int)
TEXT ·widenBF16x256(SB), NOSPLIT, $0-24
	WIDENBF16x256(VMOVUPS, AHEAD64)
	VZEROUPPER
	RET

// func widenBF16x256NT(dst *float32, src *uint16, n int)
TEXT ·widenBF16x256NT(SB), NOSPLIT, $0-24
	WIDENBF16x256(VMOVNTPS, NOTHING)
	SFENCE
	VZEROUPPER
	RET
