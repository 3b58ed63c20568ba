package kernels

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	syscpu "golang.org/x/sys/cpu"
)

// TestTierSelected: a processor that has what a tier needs runs that tier. The
// features come from where internal/cpu does not look, if the system tells.
func TestTierSelected(t *testing.T) {
	want := cpu.Generic
	switch {
	case puregoTag:
	case runtime.GOARCH == "amd64" && has("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2"):
		want = cpu.AVX512
	case runtime.GOARCH == "amd64" && has("avx2", "f16c", "fma", "popcnt", "bmi2"):
		want = cpu.AVX2
	case runtime.GOARCH == "arm64":
		want = cpu.NEON
	}
	if got := cpu.Best(); got != want {
		t.Errorf("tier %q runs, want %q", got, want)
	}
}

// has tells whether the processor has all features, by Linux's names for them.
func has(features ...string) bool {
	flags := map[string]bool{
		"avx512f": syscpu.X86.HasAVX512F, "avx512bw": syscpu.X86.HasAVX512BW, "avx512dq": syscpu.X86.HasAVX512DQ,
		"avx512vl": syscpu.X86.HasAVX512VL, "avx512vbmi": syscpu.X86.HasAVX512VBMI, "avx512_vbmi2": syscpu.X86.HasAVX512VBMI2,
		"avx2": syscpu.X86.HasAVX2, "f16c": syscpu.X86.HasF16C, "fma": syscpu.X86.HasFMA,
		"popcnt": syscpu.X86.HasPOPCNT, "bmi2": syscpu.X86.HasBMI2,
	}
	// Under qemu-user, this file is that of the machine outside.
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil && os.Getenv(requireEnv) == "" {
		clear(flags)
		_, line, _ := strings.Cut(string(info), "\nflags")
		line, _, _ = strings.Cut(line, "\n")
		for _, f := range strings.Fields(line) {
			flags[f] = true
		}
	}
	for _, f := range features {
		if !flags[f] {
			return false
		}
	}
	return true
}

const requireEnv = "DEMI_TEST_REQUIRE"

// TestTierRequired: the tier that is named in DEMI_TEST_REQUIRE runs.
func TestTierRequired(t *testing.T) {
	want := os.Getenv(requireEnv)
	if want == "" {
		t.Skip(requireEnv + " names no tier")
	}
	if got := cpu.Best(); got != want {
		t.Errorf("tier %q runs, %s=%s", got, requireEnv, want)
	}
}

// TestTierUsed: the kernels of every tier but the generic one do something.
func TestTierUsed(t *testing.T) {
	const n = 4096 // some are not worth their start for less
	src, half, planes := make([]float32, n), make([]uint16, n), make([]byte, n)
	for _, tier := range cpu.Tiers() {
		if err := cpu.Limit(tier); err != nil {
			t.Fatal(err)
		}
		var s Scan
		for name, n := range map[string]int{
			"F32ToF16":   f32ToF16Arch(half, src, Mode{}),
			"F32ToBF16":  f32ToBF16Arch(half, src, Mode{}),
			"stochastic": f32ToBF16Arch(half, src, Mode{Rounding: Stochastic}),
			"F16ToF32":   f16ToF32Arch(src, half),
			"BF16ToF32":  bf16ToF32Arch(src, half),
			"DiffF16":    diffF16Arch(newDiff(Mode{}), src, half),
			"DiffBF16":   diffBF16Arch(newDiff(Mode{}), src, half),
			"Scan":       scanF32Arch(&s, src),
			"SplitBF16":  splitBF16Arch(planes, planes, half),
		} {
			if (n > 0) != (tier != cpu.Generic) {
				t.Errorf("%s: %s did %d elements", tier, name, n)
			}
		}
	}
	if err := cpu.Limit(""); err != nil {
		t.Fatal(err)
	}
}
