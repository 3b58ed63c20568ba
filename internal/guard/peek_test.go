package guard

import "unsafe"

// peek reads outside of b.
//
//go:nocheckptr
func peek(b []byte, off uintptr) byte {
	return *(*byte)(unsafe.Pointer(uintptr(unsafe.Pointer(unsafe.SliceData(b))) + off))
}
