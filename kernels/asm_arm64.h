// Shared by the assembly files of arm64.
//
// The Go assembler lacks half of the vector instructions used here, and its
// macros cannot build a register name from a number. So kernels write vector
// instructions by opcode and register numbers, in the order of Go's assembler:
// second source, first source, destination. All belong to the baseline of
// ARMv8. A shift by an immediate s takes the place of the second source, as
// 64-s to the right and 32+s to the left (4S), 32-s and 16+s (8H).

#define OP2(op, n, d) WORD $(op | (n)<<5 | (d))
#define OP3(op, m, n, d) WORD $(op | (m)<<16 | (n)<<5 | (d))

// Four times, on consecutive registers; EACH keeps the second source.
#define QUAD2(op, n, d) OP2(op, n, d); OP2(op, (n)+1, (d)+1); OP2(op, (n)+2, (d)+2); OP2(op, (n)+3, (d)+3)
#define QUAD3(op, m, n, d) OP3(op, m, n, d); OP3(op, (m)+1, (n)+1, (d)+1); OP3(op, (m)+2, (n)+2, (d)+2); OP3(op, (m)+3, (n)+3, (d)+3)
#define EACH(op, k, n, d) OP3(op, k, n, d); OP3(op, k, (n)+1, (d)+1); OP3(op, k, (n)+2, (d)+2); OP3(op, k, (n)+3, (d)+3)

// Bits.
#define AND_16B 0x4E201C00
#define BIC_16B 0x4E601C00 // n &^ m
#define ORR_16B 0x4EA01C00
#define EOR_16B 0x6E201C00
#define BIT_16B 0x6EA01C00 // where m: d = n
#define BIF_16B 0x6EE01C00 // where not m: d = n
#define BSL_16B 0x6E601C00 // d = d ? n : m
#define UZP2_8H 0x4E405800 // upper halves of n, then of m
#define ZIP1_8H 0x4E403800 // n, m, n, m ... of the lower 64 bits
#define ZIP2_8H 0x4E407800 // of the upper 64 bits

// Integers.
#define ADD_4S 0x4EA08400
#define SUB_4S 0x6EA08400 // n - m
#define MUL_4S 0x4EA09C00
#define UMAX_4S 0x6EA06400
#define UMIN_4S 0x6EA06C00
#define UMAX_8H 0x6E606400
#define UMIN_8H 0x6E606C00
#define UMAXP_4S 0x6EA0A400 // maxima of pairs: of n in the lower 64 bits, of m in the upper
#define USHR_4S 0x6F000400
#define USRA_4S 0x6F001400 // d += n >> s
#define SHL_4S 0x4F005400
#define SHL_8H 0x4F005400

// Comparisons: all ones where true.
#define CMEQ_4S 0x6EA08C00
#define CMEQ0_4S 0x4EA09800 // n == 0
#define CMLT0_4S 0x4EA0A800 // n < 0, signed
#define CMTST_4S 0x4EA08C00 // n&m != 0
#define CMTST_8H 0x4E608C00
#define CMHI_4S 0x6EA03400 // n > m, unsigned
#define CMHS_4S 0x6EA03C00 // n >= m, unsigned
#define CMHI_8H 0x6E603400
#define CMHS_8H 0x6E603C00

// Floating point.
#define FABS_4S 0x4EA0F800 // clears the sign bit, of NaN too
#define FADD_4S 0x4E20D400
#define FSUB_4S 0x4EA0D400 // n - m
#define FMUL_4S 0x6E20DC00
#define FMLA_2D 0x4E60CC00 // d += n*m
#define FRINTA_4S 0x6E218800 // to an integer, ties away from zero
#define FRINTZ_4S 0x4EA19800 // to an integer, toward zero
#define FCVTNS_4S 0x4E21A800 // to int32, ties to even
#define FCVTZU_4S 0x6EA1B800 // to uint32, toward zero
#define FCVTN_4H 0x0E216800 // 4 float32 -> lower 4 float16, by FPCR.RMode; NaN becomes quiet
#define FCVTN2_8H 0x4E216800 // -> upper 4
#define FCVTL_4S 0x0E217800 // lower 4 float16 -> 4 float32; NaN becomes quiet
#define FCVTL2_4S 0x4E217800 // upper 4
#define FCVTL_2D 0x0E617800 // lower 2 float32 -> 2 float64
#define FCVTL2_2D 0x4E617800 // upper 2

// CONST fills vector v with a 32-bit constant, CONSTH with a 16-bit one, ARG
// with an argument of 32 bits.
#define CONST(c, v) MOVD $c, R9; VDUP R9, v.S4
#define CONSTH(c, v) MOVD $c, R9; VDUP R9, v.H8
#define ARG(a, v) MOVWU a, R9; VDUP R9, v.S4

