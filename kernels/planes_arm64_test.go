//go:build !purego

package kernels

import (
	"slices"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

// both returns what f makes of n zeros with NEON and without.
func both[T byte | uint16](t *testing.T, n int, f func(dst []T)) (neon, generic []T) {
	t.Helper()
	neon, generic = make([]T, n), make([]T, n)
	f(neon)
	if err := cpu.Limit(cpu.Generic); err != nil {
		t.Fatal(err)
	}
	f(generic)
	if err := cpu.Limit(""); err != nil {
		t.Fatal(err)
	}
	return neon, generic
}

// samePlanes splits src and joins it again. The planes lie in one slice, bytes
// between them that stay zero.
func samePlanes(t *testing.T, src []uint16) {
	t.Helper()
	n := len(src)
	cut := func(p []byte) (a, b, c []byte) { return p[1 : n+1], p[n+2 : 2*n+2], p[2*n+3 : 3*n+3] }
	check := func(name string, split func(a, b, c []byte), join func(dst []uint16, a, b, c []byte)) {
		p, want := both(t, 3*n+4, func(p []byte) { split(cut(p)) })
		if !slices.Equal(p, want) {
			t.Errorf("%s, %d elements: the planes are not the same", name, n)
		}
		a, b, c := cut(p)
		dst := make([]uint16, n+2)
		join(dst[1:n+1], a, b, c)
		if !slices.Equal(dst[1:n+1], src) || dst[0] != 0 || dst[n+1] != 0 {
			t.Errorf("%s, %d elements: not the same when joined", name, n)
		}
	}
	check("BF16", func(a, b, _ []byte) { SplitBF16(a, b, src) }, func(dst []uint16, a, b, _ []byte) { JoinBF16(dst, a, b) })
	check("F16", func(a, b, c []byte) { SplitF16(a, b, c, src) }, JoinF16)
}

func TestNEONPlanes(t *testing.T) {
	needNEON(t)
	all := all16()
	samePlanes(t, all)
	for n := range 100 {
		samePlanes(t, all[0x3c00+7*n:][:n])
	}
	long := make([]uint16, piece+40)
	for i := range long {
		long[i] = uint16(i * 40503)
	}
	samePlanes(t, long)
}

// TestNEONJoinBits gives bits that do not count.
func TestNEONJoinBits(t *testing.T) {
	needNEON(t)
	var exp, low, high [1 << 16]byte
	for i := range exp {
		exp[i], low[i], high[i] = byte(i), byte(i*7), byte(i>>8)
	}
	neon, generic := both(t, len(exp), func(dst []uint16) { JoinF16(dst, exp[:], low[:], high[:]) })
	if !slices.Equal(neon, generic) {
		t.Error("F16: not the same")
	}
	neon, generic = both(t, len(exp), func(dst []uint16) { JoinBF16(dst, exp[:], high[:]) })
	if !slices.Equal(neon, generic) {
		t.Error("BF16: not the same")
	}
}
