#include "textflag.h"

#define ARGS \
	MOVQ dst+0(FP), DI \
	MOVQ src+8(FP), SI \
	MOVQ n+16(FP), CX

// AHEAD2 and AHEAD4 fetch lines of dst before they are written.
#define AHEAD2 \
	PREFETCHT0 512(DI) \
	PREFETCHT0 576(DI)

#define AHEAD4 \
	AHEAD2 \
	PREFETCHT0 640(DI) \
	PREFETCHT0 704(DI)

// FAR4 fetches lines of src much before they are read.
#define FAR4 \
	PREFETCHT0 8192(SI) \
	PREFETCHT0 8256(SI) \
	PREFETCHT0 8320(SI) \
	PREFETCHT0 8384(SI)

#define NOTHING

// HALF512 loads 256 bytes and stores 128 with ST.
#define HALF512(ST, PRE) \
	ARGS \
	PCALIGN $32 \
loop: \
	PRE \
	VMOVDQU64 (SI), Z0 \
	VMOVDQU64 64(SI), Z1 \
	VMOVDQU64 128(SI), Z2 \
	VMOVDQU64 192(SI), Z3 \
	ST Z0, (DI) \
	ST Z2, 64(DI) \
	ADDQ $256, SI \
	ADDQ $128, DI \
	SUBQ $256, CX \
	JNZ loop

// DOUBLE512 loads 128 bytes and stores 256 with ST.
#define DOUBLE512(ST, PRE) \
	ARGS \
	PCALIGN $32 \
loop: \
	PRE \
	VMOVDQU64 (SI), Z0 \
	VMOVDQU64 64(SI), Z1 \
	ST Z0, (DI) \
	ST Z0, 64(DI) \
	ST Z1, 128(DI) \
	ST Z1, 192(DI) \
	ADDQ $128, SI \
	ADDQ $256, DI \
	SUBQ $128, CX \
	JNZ loop

// HALF256 and DOUBLE256 do the same as HALF512 and DOUBLE512.
#define HALF256(ST, PRE) \
	ARGS \
	PCALIGN $32 \
loop: \
	PRE \
	VMOVDQU (SI), Y0 \
	VMOVDQU 32(SI), Y1 \
	VMOVDQU 64(SI), Y2 \
	VMOVDQU 96(SI), Y3 \
	VMOVDQU 128(SI), Y4 \
	VMOVDQU 160(SI), Y5 \
	VMOVDQU 192(SI), Y6 \
	VMOVDQU 224(SI), Y7 \
	ST Y0, (DI) \
	ST Y2, 32(DI) \
	ST Y4, 64(DI) \
	ST Y6, 96(DI) \
	ADDQ $256, SI \
	ADDQ $128, DI \
	SUBQ $256, CX \
	JNZ loop

#define DOUBLE256(ST, PRE) \
	ARGS \
	PCALIGN $32 \
loop: \
	PRE \
	VMOVDQU (SI), Y0 \
	VMOVDQU 32(SI), Y1 \
	VMOVDQU 64(SI), Y2 \
	VMOVDQU 96(SI), Y3 \
	ST Y0, (DI) \
	ST Y0, 32(DI) \
	ST Y1, 64(DI) \
	ST Y1, 96(DI) \
	ST Y2, 128(DI) \
	ST Y2, 160(DI) \
	ST Y3, 192(DI) \
	ST Y3, 224(DI) \
	ADDQ $128, SI \
	ADDQ $256, DI \
	SUBQ $128, CX \
	JNZ loop

// func half512(dst, src *byte, n int)
TEXT ·half512(SB), NOSPLIT, $0-24
	HALF512(VMOVDQU64, NOTHING)
	VZEROUPPER
	RET

// func half512Ahead(dst, src *byte, n int)
TEXT ·half512Ahead(SB), NOSPLIT, $0-24
	HALF512(VMOVDQU64, AHEAD2)
	VZEROUPPER
	RET

// func half512NTAhead(dst, src *byte, n int)
TEXT ·half512NTAhead(SB), NOSPLIT, $0-24
	HALF512(VMOVNTDQ, FAR4)
	SFENCE
	VZEROUPPER
	RET

// func half512NT(dst, src *byte, n int)
TEXT ·half512NT(SB), NOSPLIT, $0-24
	HALF512(VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func double512(dst, src *byte, n int)
TEXT ·double512(SB), NOSPLIT, $0-24
	DOUBLE512(VMOVDQU64, NOTHING)
	VZEROUPPER
	RET

// func double512Ahead(dst, src *byte, n int)
TEXT ·double512Ahead(SB), NOSPLIT, $0-24
	DOUBLE512(VMOVDQU64, AHEAD4)
	VZEROUPPER
	RET

// func double512NT(dst, src *byte, n int)
TEXT ·double512NT(SB), NOSPLIT, $0-24
	DOUBLE512(VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func half256(dst, src *byte, n int)
TEXT ·half256(SB), NOSPLIT, $0-24
	HALF256(VMOVDQU, NOTHING)
	VZEROUPPER
	RET

// func half256Ahead(dst, src *byte, n int)
TEXT ·half256Ahead(SB), NOSPLIT, $0-24
	HALF256(VMOVDQU, AHEAD2)
	VZEROUPPER
	RET

// func half256NT(dst, src *byte, n int)
TEXT ·half256NT(SB), NOSPLIT, $0-24
	HALF256(VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET

// func half256NTAhead(dst, src *byte, n int)
TEXT ·half256NTAhead(SB), NOSPLIT, $0-24
	HALF256(VMOVNTDQ, FAR4)
	SFENCE
	VZEROUPPER
	RET

// func double256(dst, src *byte, n int)
TEXT ·double256(SB), NOSPLIT, $0-24
	DOUBLE256(VMOVDQU, NOTHING)
	VZEROUPPER
	RET

// func double256Ahead(dst, src *byte, n int)
TEXT ·double256Ahead(SB), NOSPLIT, $0-24
	DOUBLE256(VMOVDQU, AHEAD4)
	VZEROUPPER
	RET

// func double256NT(dst, src *byte, n int)
TEXT ·double256NT(SB), NOSPLIT, $0-24
	DOUBLE256(VMOVNTDQ, NOTHING)
	SFENCE
	VZEROUPPER
	RET
