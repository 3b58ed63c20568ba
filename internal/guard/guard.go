//go:build linux || darwin

// Package guard gives tests memory between pages that cannot be touched: code
// that reads or writes a byte outside its slices ends the test with a fault.
package guard

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Supported tells whether this system has guard pages.
const Supported = true

// New returns n zero bytes, rounded up to whole pages, with a page that can be
// neither read nor written on either side. They go when the test ends.
func New(tb testing.TB, n int) []byte {
	tb.Helper()
	page := unix.Getpagesize()
	n = (n + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, n+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Munmap(mem) })
	for _, wall := range [][]byte{mem[:page], mem[page+n:]} {
		if err := unix.Mprotect(wall, unix.PROT_NONE); err != nil {
			tb.Fatal(err)
		}
	}
	return mem[page : page+n : page+n]
}
