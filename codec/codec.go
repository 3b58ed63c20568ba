// Package codec turns the bytes of one tile of a tensor into fewer bytes and
// back, to the bit. A tile is what internal/tile says: at most 65,536 elements,
// or 128 KiB of elements narrower than 16 bits or of no fixed width. Calls are
// append-style on memory of the caller, an Encoder or a Decoder holds its
// scratch memory, and neither allocates once it is warm.
//
// # Kinds of tiles
//
// An ID says how a tile is stored; it is kept beside the stored bytes, as are
// the type of the elements and the size of the tile:
//
//	Raw       the bytes of the tile
//	Constant  a pattern of 1, 2, 4, 8 or 16 bytes that the tile repeats
//	Cascade   planes of BF16, F16 or F32, see below
//	Zstd      a frame of Zstandard (RFC 8878)
//
// TILES.md in this directory defines each of them for other implementations,
// with an example in bytes. All of it is little-endian.
//
// # Cascade
//
// The elements of a tile are taken apart into planes of one byte an element:
//
//	BF16  0: sign << 7 | mantissa         1: exponent
//	F16   0: mantissa, low 8 bits         1: sign << 2 | mantissa, high 2 bits
//	      2: exponent
//	F32   0: sign << 7 | mantissa, high 7 bits
//	      1: mantissa, bits 8 to 15       2: mantissa, bits 0 to 7
//	      3: exponent
//
// A plane is coded in levels. An open level of width k gives the 2^k - 1 most
// frequent of its symbols a code of k bits; the last code, all ones, is an
// escape, and the escaped symbols, in order, are what the next level codes.
// A closed level has 2^k symbols and no escape, and ends the plane; k = 0 is a
// plane of one symbol. What the last level leaves, if it is open, stands raw;
// a plane without levels is raw as a whole. The stored bytes are
//
//	4 bytes   the number of levels of planes 0 to 3, each at most 6
//	4 bytes   for every level, by plane: the width k, 0 to 4; a zero; and 2
//	          bytes for the number of its escapes, 0 if it is closed
//	tables    for every level its symbols in the order of their codes: 2^k - 1
//	          if it is open, else 2^k; then zeros up to a multiple of 8 bytes
//	codes     for every level its groups: 64 codes are k words of 8 bytes, of
//	          which word q holds bit q of code i in its bit i; the last group is
//	          filled up with codes of 0
//	raw       for every plane what its levels leave
//
// so a word lies on a multiple of 8 bytes from the start and an ordinary
// BF16 tile has its sign and mantissa plane there as well. Level 1 codes as
// many symbols as there are elements, every other level the escapes of the one
// before it.
//
// The encoder chooses the widths that make a plane smallest, from its
// histogram, by a small dynamic program. Symbols of equal frequency are ranked
// by value. Nothing else depends on the machine, so the bytes are the same
// everywhere; those of a frame of Zstandard are the same for one version of
// the library that writes it.
//
// # Corrupt tiles
//
// A Decoder trusts nothing. It returns ErrCorrupt for a tile that breaks the
// rules above, wherever it notices, and then the destination holds anything;
// a tile that keeps the rules but was changed is decoded to other values: a
// checksum is the business of whoever stores it. Whatever the bytes, it writes
// only to the destination, reads only the source, and allocates nothing but
// its scratch and the error.
package codec

import (
	"errors"
	"fmt"
	"slices"
)

// ErrCorrupt says that stored bytes are not a tile of the kind and size that
// they should be.
var ErrCorrupt = errors.New("corrupt tile")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("codec: %w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// An ID is a kind of tile. The numbers are part of the format.
type ID uint8

// The kinds of tiles.
const (
	Raw      ID = 0
	Constant ID = 1
	Cascade  ID = 2
	Zstd     ID = 3
)

var idNames = [...]string{"raw", "constant", "cascade", "zstd"}

// String returns the name of the kind.
func (id ID) String() string { return name(idNames[:], "ID", uint8(id)) }

// An Elem says what the bytes of a tile are. It is not stored; the decoder
// must be told the same.
type Elem uint8

// The elements. Bytes are everything that is not one of the others: integers,
// F64, complex numbers, 8-bit and narrower floats, opaque blocks. A tile of
// them may be Raw, Constant or Zstd.
const (
	Bytes Elem = iota
	BF16
	F16
	F32
)

var elemNames = [...]string{"bytes", "BF16", "F16", "F32"}

// String returns the name of the element.
func (e Elem) String() string { return name(elemNames[:], "Elem", uint8(e)) }

// size returns the bytes of an element.
func (e Elem) size() int {
	switch e {
	case BF16, F16:
		return 2
	case F32:
		return 4
	}
	return 1
}

// planes returns the planes of a Cascade tile of such elements, 0 if there is
// none.
func (e Elem) planes() int {
	switch e {
	case BF16:
		return 2
	case F16:
		return 3
	case F32:
		return 4
	}
	return 0
}

// A Level says how much an Encoder tries.
type Level uint8

// The levels. Fast is the default: Constant, Cascade for floats, Zstd at its
// ordinary effort for Bytes. Small tries Zstd at its best on every tile too and
// keeps what is smallest. None stores tiles as they are.
const (
	Fast Level = iota
	None
	Small
)

var levelNames = [...]string{"fast", "none", "small"}

// String returns the name that ParseLevel reads.
func (l Level) String() string { return name(levelNames[:], "Level", uint8(l)) }

// Levels returns the names of all levels, the default first.
func Levels() []string { return slices.Clone(levelNames[:]) }

// ParseLevel reads the name of a level.
func ParseLevel(s string) (Level, error) {
	if i := slices.Index(levelNames[:], s); i >= 0 {
		return Level(i), nil
	}
	return 0, fmt.Errorf("unknown compression level %q (fast, none, small)", s)
}

func name(names []string, kind string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}
