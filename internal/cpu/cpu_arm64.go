//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

func detect() (avx2, avx512, neon bool) { return false, false, cpu.ARM64.HasASIMD }
