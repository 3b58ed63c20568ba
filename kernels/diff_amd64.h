// What the kernels of Diff have in common. They look at a block of pairs as
// integers first. If y is one of the two values of the target next to x, and
// x is normal in the target, then the difference of the bits
//
//	v = bits(y) - bits(x)
//
// is the error in ULP of the target, away from zero, times 2^13 (FP16) or
// 2^16 (BF16), exactly: the steps of the bits are even within a binade and up
// to the value that ends it. For y on the grid of the target,
// -step < v <= step says all that: x and y have the same sign, neither is NaN
// alone, y is not in the binade below. BF16 needs no care for subnormals, as
// their grids continue.
//
// A kernel stops before a block where that does not hold, or where y is zero,
// Inf, NaN or the largest number; Go code does that block. Subnormal FP16 is
// too common for that (0.2 % of the weights of language models): a side block
// counts those lanes in ULP of 2^-24.

// Layout of type inspection.
#define AWAY 0
#define BELOW 64
#define UPS 128
#define BELOWS 192
#define LARGEST 256
#define CHANGED 320
#define FLUSHED 328
#define SUBNORMAL 336
