//go:build purego || !(amd64 || arm64)

package cpu

func detect() (avx2, avx512, neon bool) { return false, false, false }
