// Constants of the kernels that join and split planes, as vectors of 32 bytes.
// PLANES stands before the first TEXT of a file.

#define REPEAT(NAME, VAL) VEC(NAME, VAL, VAL, VAL, VAL)

// fours is the order of the quarters of 16 bytes in which unpacking bytes to
// words and words to dwords gives 32 dwords in order; backFours undoes it.
#define PLANES \
	REPEAT(low2, 0x0303030303030303) \
	REPEAT(low7, 0x7f7f7f7f7f7f7f7f) \
	REPEAT(bit0, 0x0101010101010101) \
	REPEAT(bit2, 0x0404040404040404) \
	REPEAT(bit6, 0x4040404040404040) \
	REPEAT(bit7, 0x8080808080808080) \
	REPEAT(low5, 0x1f1f1f1f1f1f1f1f) \
	REPEAT(bits2to6, 0x7c7c7c7c7c7c7c7c) \
	REPEAT(bytes, 0x00ff00ff00ff00ff) \
	VEC(fours, 0x0000000200000000, 0x0000000600000004, 0x0000000300000001, 0x0000000700000005) \
	VEC(backFours, 0x0000000400000000, 0x0000000500000001, 0x0000000600000002, 0x0000000700000003)
