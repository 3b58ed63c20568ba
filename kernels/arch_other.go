//go:build purego || !(amd64 || arm64)

package kernels

// Without kernels in assembly, the generic code does everything.

func f32ToF16Arch([]uint16, []float32, Mode) int  { return 0 }
func f32ToBF16Arch([]uint16, []float32, Mode) int { return 0 }
func f16ToF32Arch([]float32, []uint16) int        { return 0 }
func bf16ToF32Arch([]float32, []uint16) int       { return 0 }
func diffF16Arch(*diff, []float32, []uint16) int  { return 0 }
func diffBF16Arch(*diff, []float32, []uint16) int { return 0 }
func scanF32Arch(*Scan, []float32) int            { return 0 }
func splitBF16Arch(_, _ []byte, _ []uint16) int   { return 0 }
func joinBF16Arch(_ []uint16, _, _ []byte) int    { return 0 }
func splitF16Arch(_, _, _ []byte, _ []uint16) int { return 0 }
func joinF16Arch(_ []uint16, _, _, _ []byte) int  { return 0 }
