//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

func detect() (avx2, avx512, neon bool) {
	x := &cpu.X86
	avx2 = x.HasAVX && x.HasAVX2 && x.HasF16C && x.HasFMA && x.HasPOPCNT && x.HasBMI2
	avx512 = avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL &&
		x.HasAVX512VBMI && x.HasAVX512VBMI2
	return avx2, avx512, false
}
