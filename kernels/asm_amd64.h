// Macros that the amd64 kernels share. Names: Z/Y/X registers are arguments,
// AX and BX are scratch. All of them stand before the first TEXT of a file,
// because go vet reads a file without expanding them.

// ARGS loads the arguments that every kernel begins with:
// (dst *T in DI, src *U in SI, n int in CX).
#define ARGS \
	MOVQ dst+0(FP), DI \
	MOVQ src+8(FP), SI \
	MOVQ n+16(FP), CX

// BCAST fills every dword of Z with an immediate. AVX-512.
#define BCAST(VAL, Z) \
	MOVL $VAL, AX \
	VPBROADCASTD AX, Z

// BCAST2 is BCAST for AVX2, which broadcasts from X registers only.
// XY is the X register of the same number as Y.
#define BCAST2(VAL, XY, Y) \
	MOVL $VAL, AX \
	VMOVD AX, XY \
	VPBROADCASTD XY, Y

// PARAM fills every dword of Z from a parameter; PARAM2 is for AVX2.
#define PARAM(P, Z) \
	MOVL P, AX \
	VPBROADCASTD AX, Z

#define PARAM2(P, XY, Y) \
	MOVL P, AX \
	VMOVD AX, XY \
	VPBROADCASTD XY, Y

// LANES makes K the mask of the first min(CX, 16) lanes, for CX in 1..63.
#define LANES(K) \
	MOVL $-1, AX \
	BZHIL CX, AX, AX \
	KMOVW AX, K

// LOAD64 and LOAD32 load the next 64 (AVX-512) or 32 (AVX2) float32.
#define LOAD64 \
	VMOVUPS (SI), Z0 \
	VMOVUPS 64(SI), Z1 \
	VMOVUPS 128(SI), Z2 \
	VMOVUPS 192(SI), Z3

#define LOAD32 \
	VMOVUPS (SI), Y0 \
	VMOVUPS 32(SI), Y1 \
	VMOVUPS 64(SI), Y2 \
	VMOVUPS 96(SI), Y3

// AHEAD64 and AHEAD32 fetch the lines of dst that are written 512 bytes later.
// The prefetchers of Intel's cores do not see stores that miss L1 coming: from
// L2, this gains 8 % on Sapphire Rapids; any distance from 128 to 4096 does.
#define AHEAD64 \
	PREFETCHT0 512(DI) \
	PREFETCHT0 576(DI)

#define AHEAD32 PREFETCHT0 512(DI)

// FAR64 fetches 64 float32 of src that are read much later. With stores past
// the caches the input comes from memory, and the prefetchers stop at the end
// of every page of 4 KiB.
#define FAR64 \
	PREFETCHT0 8192(SI) \
	PREFETCHT0 8256(SI) \
	PREFETCHT0 8320(SI) \
	PREFETCHT0 8384(SI)

// FAR32 is the same for 32 elements, for kernels that compute so much that the
// two instructions cost nothing where src is in the cache.
#define FAR32 \
	PREFETCHT0 4096(SI) \
	PREFETCHT0 4160(SI)

// PACKHI makes A the 32 high halves of the dwords of A and B, in order.
// MASK is 0xffff0000 in every dword, IDX is hiwords<>. A shift, a merge and
// VPERMB are one uop each on Intel and on Zen 4; VPERMT2W would do it alone
// but is three uops on Intel, two of them on the port of the compares.
#define PACKHI(A, B, MASK, IDX) \
	VPSRLD $16, A, A \
	VPTERNLOGD $0xf8, MASK, B, A \
	VPERMB A, IDX, A

// HIWORDS declares the index of PACKHI: words 0, 2, 4 ... 1, 3, 5 ... as bytes.
#define HIWORDS \
	DATA hiwords<>+0(SB)/8, $0x0d0c090805040100 \
	DATA hiwords<>+8(SB)/8, $0x1d1c191815141110 \
	DATA hiwords<>+16(SB)/8, $0x2d2c292825242120 \
	DATA hiwords<>+24(SB)/8, $0x3d3c393835343130 \
	DATA hiwords<>+32(SB)/8, $0x0f0e0b0a07060302 \
	DATA hiwords<>+40(SB)/8, $0x1f1e1b1a17161312 \
	DATA hiwords<>+48(SB)/8, $0x2f2e2b2a27262322 \
	DATA hiwords<>+56(SB)/8, $0x3f3e3b3a37363332 \
	GLOBL hiwords<>(SB), RODATA|NOPTR, $64

// PACK2 makes A the 16 low words of the dwords of A and B, in order (AVX2);
// the dwords must be below 0x10000.
#define PACK2(A, B) \
	VPACKUSDW B, A, A \
	VPERMQ $0xd8, A, A

// VEC declares a constant of 32 bytes by its 64-bit elements.
#define VEC(NAME, VAL) \
	DATA NAME<>+0(SB)/8, $VAL \
	DATA NAME<>+8(SB)/8, $VAL \
	DATA NAME<>+16(SB)/8, $VAL \
	DATA NAME<>+24(SB)/8, $VAL \
	GLOBL NAME<>(SB), RODATA|NOPTR, $32
