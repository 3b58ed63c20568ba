//go:build !amd64

package copykernel

// Half and Double list the kernels for narrowing and for widening.
var (
	Half   = []Kernel{{Name: "copy", Run: func(dst, src []byte) { copy(dst, src) }}}
	Double = []Kernel{{Name: "copy", Run: func(dst, src []byte) { copy(dst, src); copy(dst[len(src):], src) }}}
)
