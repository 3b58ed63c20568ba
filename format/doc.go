// Package format reads and writes the Demi container, .demi: a compressed
// store for the weights of models. SPEC.md, beside this file, defines it.
//
// A file is written front to back by a Sink and read from its end, block by
// block: a block holds one tile of one tensor, coded by package codec, and has
// its codec, length and checksum in the index. A tensor whose blocks are all
// raw lies in the file as it is. The index has the types, the shapes, a hash of
// the values of every tensor, the metadata of the source, and, if the writer
// was given them, how each tensor came to be and the headers of the files that
// the tensors came from.
//
// A number read from a file has not earned memory: what the reader allocates
// is bounded by a small multiple of the bytes that are really in the file, plus
// 1 MiB, and the tiles that it decodes.
package format
