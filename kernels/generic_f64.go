package kernels

import "math"

// narrow64 rounds float64 to any narrower type, given as its bits.
func narrow64[T uint16 | uint32](dst []T, src []float64, n *narrower) {
	if n.mode.Rounding == Stochastic {
		dice64(dst, src, n)
		return
	}
	dst = dst[:len(src)]
	bias := [2]uint64{n.toward[0].bias(n.low), n.toward[1].bias(n.low)}
	low, rebase, odd := n.low&63, n.rebase, n.toward[0].odd()
	lo, span := n.fast()
	width := n.width()
	for i, f := range src {
		b := math.Float64bits(f)
		a := b &^ sign64
		if a-lo < span {
			dst[i] = T(b>>63<<(width-1)) | T((a-rebase+bias[b>>63]+a>>low&odd)>>low)
		} else {
			dst[i] = T(b>>63<<(width-1)) | T(n.narrow(a, b>>63, 0))
		}
	}
}

// dice64 rounds float64 by 64 random bits each.
func dice64[T uint16 | uint32](dst []T, src []float64, n *narrower) {
	width := n.width()
	n.mode.Stream.segments(n.mode.First, len(src), func(d draws, j uint32, lo, hi int) {
		dst := dst[lo:hi]
		for i, f := range src[lo:hi] {
			b := math.Float64bits(f)
			dst[i] = T(b>>63<<(width-1)) | T(n.narrow(b&^sign64, b>>63, d.u64(j+uint32(i))))
		}
	})
}

func f64ToF16Generic(dst []uint16, src []float64, m Mode) {
	n := f64ToF16(m)
	narrow64(dst, src, &n)
}

func f64ToBF16Generic(dst []uint16, src []float64, m Mode) {
	n := f64ToBF16(m)
	narrow64(dst, src, &n)
}

// f64ToF32Generic rounds in pieces, for it has no unsafe view of floats as
// their bits.
func f64ToF32Generic(dst []float32, src []float64, m Mode) {
	n := f64ToF32(m)
	var b [chunk]uint32
	for len(src) > 0 {
		k := min(chunk, len(src))
		narrow64(b[:k], src[:k], &n)
		for i, v := range b[:k] {
			dst[i] = math.Float32frombits(v)
		}
		dst, src = dst[k:], src[k:]
		n.mode.First += int64(k)
	}
}
