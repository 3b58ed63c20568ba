//go:build purego || !(amd64 || arm64)

package codec

// Implementations for one architecture take over here. Each hook does a prefix
// of the work, a multiple of 64 elements, and returns its length; the generic
// code does the rest, which is all of it where these stand. A hook may do
// nothing, say for a width that it does not know: the bytes are the same. What
// hooks may rely on, also with a tile that breaks the rules:
//
//   - Scratch buffers have slack bytes more than their symbols, whose contents
//     do not matter, so that 64 bytes may be loaded wherever an escape is and
//     stored wherever one goes. Scratch are the planes of an Encoder, all
//     escapes, and the dst of decodeLevel.
//   - Everything else may be memory of the caller, at any alignment, and ends
//     where its length says: dst of the joins, words (whole groups; 8 bytes
//     times the width for every 64 elements), the src of the splits (stored
//     bytes, little-endian), and the planes that are joined, which are as long
//     as there are elements.
//   - Codes never ask for more escapes than there are elements, for those
//     beyond the last element are checked to be 0 beforehand; the buffer of
//     escapes is longer than that. Whether the number is the stored one is
//     compared afterwards, by the generic code.
//
// decodeLevelArch and encodeLevelArch are described at decodeLevel and
// encodeLevel; they return elements and escapes. open is all ones, or 0 for a
// closed level, in which the code of all ones is a symbol as well. A codebook
// maps symbols to codes. histogramArch adds to the counts.
//
// The joins take the exponents from a stream, which is in one of two states: if
// e.level is nil, the next symbols are e.plain, and takePlain goes on; else
// they are e.words, in the width and with the table of e.level, whose n and
// rest do not matter here, and the next escapes are e.escapes, decoded; take
// goes on. mid and low of F32, and high of F16, are nil if they are all zeros.
// The widening joins write values instead of their stored bytes, and a
// signalling NaN of 16 bits becomes quiet as in package kernels.

func decodeLevelArch(dst, words []byte, width int, open uint64, table *[16]byte, escapes []byte) (n, used int) {
	return 0, 0
}

func encodeLevelArch(words, escapes, src []byte, width int, open uint64, codes *codebook) (n, used int) {
	return 0, 0
}

func histogramArch(counts *histogram, src []byte) int { return 0 }

func splitBF16Arch(low, exp, src []byte) int                { return 0 }
func splitF16Arch(low, high, exp, src []byte) int           { return 0 }
func splitF32Arch(high, mid, low, exp, src []byte) int      { return 0 }
func joinBF16Arch(dst, low []byte, e *stream) int           { return 0 }
func joinF16Arch(dst, low, high []byte, e *stream) int      { return 0 }
func joinF32Arch(dst, high, mid, low []byte, e *stream) int { return 0 }

func widenBF16Arch(dst []float32, low []byte, e *stream) int           { return 0 }
func widenF16Arch(dst []float32, low, high []byte, e *stream) int      { return 0 }
func widenF32Arch(dst []float32, high, mid, low []byte, e *stream) int { return 0 }
