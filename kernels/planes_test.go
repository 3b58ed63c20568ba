package kernels_test

import (
	"slices"
	"testing"

	"github.com/demi-weights/demi/kernels"
)

func TestPlanes(t *testing.T) {
	all := every16()
	exp, low, high, back := make([]byte, 1<<16), make([]byte, 1<<16), make([]byte, 1<<16), make([]uint16, 1<<16)
	onEveryTier(t, func(t *testing.T) {
		kernels.SplitBF16(exp, low, all)
		for i, h := range all {
			sign, e, m := h/0x8000, h/0x80%0x100, h%0x80
			if uint16(exp[i]) != e || uint16(low[i]) != sign*0x80+m {
				t.Fatalf("BF16 %#04x: %#x %#x", h, exp[i], low[i])
			}
		}
		clear(back)
		if kernels.JoinBF16(back, exp, low); !slices.Equal(back, all) {
			t.Error("BF16 does not come back")
		}
		kernels.SplitF16(exp, low, high, all)
		for i, h := range all {
			sign, e, m := h/0x8000, h/0x400%0x20, h%0x400
			if uint16(exp[i]) != e || uint16(low[i]) != m%0x100 || uint16(high[i]) != sign*4+m/0x100 {
				t.Fatalf("F16 %#04x: %#x %#x %#x", h, exp[i], low[i], high[i])
			}
		}
		clear(back)
		if kernels.JoinF16(back, exp, low, high); !slices.Equal(back, all) {
			t.Error("F16 does not come back")
		}
		for i := range exp { // higher bits do not count
			exp[i] |= byte(i) << 5
			high[i] |= byte(i) << 3
		}
		clear(back)
		if kernels.JoinF16(back, exp, low, high); !slices.Equal(back, all) {
			t.Error("F16 does not come back from planes with more bits")
		}
	})
}
