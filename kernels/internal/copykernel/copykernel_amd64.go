package copykernel

import "github.com/demi-weights/demi/internal/cpu"

// Half lists the kernels that read twice the bytes that they write, Double
// those that write twice the bytes that they read; the best of a list is the
// limit. Sources are a multiple of 256 bytes (Half) or 128 (Double);
// destinations on 64.
var Half, Double = half(), double()

func half() []Kernel {
	var ks []Kernel
	if cpu.HasAVX2 {
		ks = append(ks, Kernel{"copy 256", false, wrap(half256)},
			Kernel{"copy 256 prefetch", false, wrap(half256Ahead)},
			Kernel{"copy 256 NT", true, wrap(half256NT)},
			Kernel{"copy 256 NT prefetch", true, wrap(half256NTAhead)})
	}
	if cpu.HasAVX512 {
		ks = append(ks, Kernel{"copy 512", false, wrap(half512)},
			Kernel{"copy 512 prefetch", false, wrap(half512Ahead)},
			Kernel{"copy 512 NT", true, wrap(half512NT)},
			Kernel{"copy 512 NT prefetch", true, wrap(half512NTAhead)})
	}
	return ks
}

func double() []Kernel {
	var ks []Kernel
	if cpu.HasAVX2 {
		ks = append(ks, Kernel{"copy 256", false, wrap(double256)},
			Kernel{"copy 256 prefetch", false, wrap(double256Ahead)},
			Kernel{"copy 256 NT", true, wrap(double256NT)})
	}
	if cpu.HasAVX512 {
		ks = append(ks, Kernel{"copy 512", false, wrap(double512)},
			Kernel{"copy 512 prefetch", false, wrap(double512Ahead)},
			Kernel{"copy 512 NT", true, wrap(double512NT)})
	}
	return ks
}

func wrap(f func(dst, src *byte, n int)) func(dst, src []byte) {
	return func(dst, src []byte) { f(&dst[0], &src[0], len(src)) }
}

//go:noescape
func half256(dst, src *byte, n int)

//go:noescape
func half512(dst, src *byte, n int)

//go:noescape
func half512Ahead(dst, src *byte, n int)

//go:noescape
func half512NTAhead(dst, src *byte, n int)

//go:noescape
func half512NT(dst, src *byte, n int)

//go:noescape
func double256(dst, src *byte, n int)

//go:noescape
func double512(dst, src *byte, n int)

//go:noescape
func double512Ahead(dst, src *byte, n int)

//go:noescape
func double512NT(dst, src *byte, n int)

//go:noescape
func half256Ahead(dst, src *byte, n int)

//go:noescape
func half256NT(dst, src *byte, n int)

//go:noescape
func half256NTAhead(dst, src *byte, n int)

//go:noescape
func double256Ahead(dst, src *byte, n int)

//go:noescape
func double256NT(dst, src *byte, n int)
