// Package valuehash computes the hash of a tensor's values. It is the same in
// every container and for every way of cutting the work: it covers the stored
// bytes in canonical form (little-endian, row-major), the element type and the
// shape, not the name.
//
// The bytes are cut into leaves of LeafSize bytes, the last one shorter, and
// each is hashed with BLAKE3. The hash of the tensor is
//
//	BLAKE3( "demi value hash 1\n" | len(type) | type | rank | dim[0] … dim[rank-1] | size | leaf[0] | leaf[1] … )
//
// in which type is the name of the element type ("F32", or the container's own
// name for an opaque one), numbers are 64-bit little-endian, and size is in
// bytes. An empty tensor has no leaves.
package valuehash

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
)

// LeafSize is the number of bytes that a leaf covers.
const LeafSize = 128 << 10

const domain = "demi value hash 1\n"

// A Leaf is the hash of one run of LeafSize bytes.
type Leaf [32]byte

// LeafOf hashes one leaf: LeafSize bytes, or fewer at the end of a tensor.
func LeafOf(p []byte) Leaf { return blake3.Sum256(p) }

// AppendLeaves appends the leaves of p to dst. p starts on a leaf, and ends on
// one or at the end of its tensor.
func AppendLeaves(dst []Leaf, p []byte) []Leaf {
	for len(p) > 0 {
		n := min(len(p), LeafSize)
		dst = append(dst, LeafOf(p[:n]))
		p = p[n:]
	}
	return dst
}

// A Root gathers the leaves of one tensor.
type Root struct{ h *blake3.Hasher }

// NewRoot starts the hash of a tensor.
func NewRoot(typeName string, shape []int64, size int64) Root {
	b := []byte(domain)
	number := func(v int64) { b = binary.LittleEndian.AppendUint64(b, uint64(v)) }
	number(int64(len(typeName)))
	b = append(b, typeName...)
	number(int64(len(shape)))
	for _, dim := range shape {
		number(dim)
	}
	number(size)
	r := Root{blake3.New()}
	r.h.Write(b)
	return r
}

// Add appends leaves, which come in order.
func (r Root) Add(leaves []Leaf) {
	for i := range leaves {
		r.h.Write(leaves[i][:])
	}
}

// Sum returns the hash of the tensor once all leaves have been added.
func (r Root) Sum() (hash [32]byte) {
	r.h.Sum(hash[:0])
	return hash
}
