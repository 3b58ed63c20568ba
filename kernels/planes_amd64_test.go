//go:build !purego

package kernels

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
)

// planesOf takes src apart without assembly.
func planesOf(src []uint16) (bf16, f16 [3][]byte) {
	for i := range 3 {
		bf16[i], f16[i] = make([]byte, len(src)), make([]byte, len(src))
	}
	cpu.Limit(cpu.Generic)
	defer cpu.Limit("")
	SplitBF16(bf16[0], bf16[1], src)
	SplitF16(f16[0], f16[1], f16[2], src)
	return bf16, f16
}

func TestPlanesArch(t *testing.T) {
	all := make([]uint16, 1<<16+200)
	for i := range all {
		all[i] = uint16(i * 40503)
	}
	for _, n := range []int{0, 1, 31, 32, 33, 63, 64, 65, 100, len(all)} {
		for _, at := range []int{0, 1, 7} {
			src := all[at:max(at, n)]
			bf16, f16 := planesOf(src)
			eachTier(t, func(t *testing.T) { checkPlanesOf(t, src, bf16, f16) })
		}
	}
}

func checkPlanesOf(t *testing.T, src []uint16, bf16, f16 [3][]byte) {
	t.Helper()
	n := len(src)
	var p [3][]byte
	for i := range p {
		p[i] = bytes.Repeat([]byte{0xa5}, n+3)
	}
	back := make([]uint16, n)
	SplitBF16(p[0][1:n+1], p[1][1:n+1], src)
	JoinBF16(back, p[0][1:n+1], p[1][1:n+1])
	if !bytes.Equal(p[0][1:n+1], bf16[0]) || !bytes.Equal(p[1][1:n+1], bf16[1]) || !slices.Equal(back, src) {
		t.Errorf("BF16, %d", n)
	}
	SplitF16(p[0][1:n+1], p[1][1:n+1], p[2][1:n+1], src)
	clear(back)
	JoinF16(back, p[0][1:n+1], p[1][1:n+1], p[2][1:n+1])
	for i := range p {
		if !bytes.Equal(p[i][1:n+1], f16[i]) || p[i][0] != 0xa5 || p[i][n+1] != 0xa5 {
			t.Errorf("F16, %d, plane %d", n, i)
		}
	}
	if !slices.Equal(back, src) {
		t.Errorf("F16 joined, %d", n)
	}
}

// TestJoinF16Bits gives bits that do not count.
func TestJoinF16Bits(t *testing.T) {
	var exp, low, high [256]byte
	var want, got [256]uint16
	for i := range exp {
		exp[i], low[i], high[i] = byte(i), byte(i*7), byte(i*91)
	}
	cpu.Limit(cpu.Generic)
	JoinF16(want[:], exp[:], low[:], high[:])
	cpu.Limit("")
	eachTier(t, func(t *testing.T) {
		if JoinF16(got[:], exp[:], low[:], high[:]); got != want {
			t.Error("not the same")
		}
	})
}

func BenchmarkPlanesArch(b *testing.B) {
	src := make([]uint16, Tile)
	for i := range src {
		src[i] = uint16(i * 40503)
	}
	var p [3][Tile]byte
	for _, tier := range cpu.Tiers() {
		for i, f := range []func(){
			func() { SplitBF16(p[0][:], p[1][:], src) },
			func() { JoinBF16(src, p[0][:], p[1][:]) },
			func() { SplitF16(p[0][:], p[1][:], p[2][:], src) },
			func() { JoinF16(src, p[0][:], p[1][:], p[2][:]) },
		} {
			b.Run(fmt.Sprintf("%s/%s", []string{"split BF16", "join BF16", "split F16", "join F16"}[i], tier), func(b *testing.B) {
				cpu.Limit(tier)
				defer cpu.Limit("")
				b.SetBytes(2 * Tile)
				for b.Loop() {
					f()
				}
			})
		}
	}
}
