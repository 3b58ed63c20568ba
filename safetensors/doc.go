// Package safetensors reads and writes safetensors files and sharded sets of
// them.
//
// The reader accepts what the reference implementation (the Rust crate)
// accepts, with its checks in its order, and refuses what that refuses. It is
// stricter in a few places where the reference lets two readers see two
// different files, or where a number has no place in a tensor.Info:
//
//   - a tensor name, or a key of the metadata, that comes twice (the reference
//     takes the last one); surplus fields of a tensor that come twice
//   - a tensor description written as an array, an element type written as a map
//   - a dimension of 2^63 and more, which is legal beside a dimension of 0
//
// Surplus fields in a tensor description, white space around the header and
// header lengths that leave tensors unaligned are accepted, as there.
//
// Tensors are given in the order of their data in the file, whatever the order
// in the header.
//
// The writer makes the header that the reference would make for the same order
// of tensors. The format allows no hole between tensors: see Order for how
// many of them can begin on a cache line.
//
// A number read from a file has not earned memory: what the reader allocates
// is proportional to the header that is really in the file.
package safetensors
