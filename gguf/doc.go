// Package gguf reads and writes GGUF files, versions 2 and 3, and their split
// sets.
//
// The reader accepts what llama.cpp's gguf.cpp accepts, little-endian and
// big-endian, and refuses what it refuses; beyond that it refuses sizes whose
// arithmetic wraps, which gguf.cpp lets through, and accepts files that only
// miss their last padding, which other writers make (with a warning). The
// writer makes version 3, little-endian, and pads after every tensor.
//
// GGUF stores the fastest dimension first; this package reverses it, so that
// a tensor.Info has the same row-major shape in every format. The bytes are
// the same.
//
// Elements of F64, F32, F16, BF16 and I8 to I64 are tensor types of their
// own. Block-quantised types are tensor.Opaque, with their ggml name, number
// and geometry in Info.Foreign; they are copied byte for byte, and Dequantize
// turns the common ones into float32.
//
// A number read from a file has not earned memory: what the reader allocates
// grows with the bytes that it has really read.
package gguf
