// Package copykernel moves the bytes that a conversion moves and converts
// nothing: the limit that memory sets to a kernel, for benchmarks only.
// Whoever loads 4 bytes an element and stores 2 cannot be faster than Half.
// The results are not those of a conversion.
package copykernel

// A Kernel reads src and writes dst, which differ in length by a factor of 2.
type Kernel struct {
	Name string
	NT   bool // with non-temporal stores, past the caches
	Run  func(dst, src []byte)
}
