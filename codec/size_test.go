package codec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// sizes returns the stored size of tiles over their own, and the bound: the
// same with the exponents at their entropy in each tile, and nothing else.
func sizes(t testing.TB, tiles [][]byte, elem Elem, level Level) (ratio, bound float64) {
	e, d := NewEncoder(), NewDecoder()
	var all, coded, least float64
	for _, src := range tiles {
		_, out := roundTrip(t, e, d, src, elem, level)
		all += float64(len(src))
		coded += float64(len(out))
		least += entropyBound(e, src, elem)
	}
	return coded / all, least / all
}

func entropyBound(e *Encoder, src []byte, elem Elem) float64 {
	n := len(src) / elem.size()
	e.split(src, elem, n)
	var h histogram
	h.add(e.planes[elem.planes()-1][:n])
	bits := map[Elem]float64{BF16: 8, F16: 11, F32: 24}[elem] * float64(n)
	for _, c := range h {
		if c > 0 {
			bits += float64(c) * math.Log2(float64(n)/float64(c))
		}
	}
	return bits / 8
}

// TestSizes prints what sets become and holds BF16 to bounds: of raw, and 1.2 %
// over the entropy of exponents.
func TestSizes(t *testing.T) {
	for _, s := range []struct {
		name  string
		set   func() set
		limit float64 // for BF16
	}{
		{"synthetic", func() set { return synthetic(4, 32, 2048) }, 0.673},
		{"charlm", func() set { return real(t, charlm) }, 0.69},
		{"esrgan_thick_x2", func() set { return optional(t, "esrgan_thick_x2") }, 0.654},
		{"human_mobilefacenet", func() set { return optional(t, "human_mobilefacenet") }, 0.678},
		{"human_movenet-thunder", func() set { return optional(t, "human_movenet-thunder") }, 0.678},
	} {
		if testing.Short() && s.name != "synthetic" {
			continue
		}
		set := s.set()
		for _, elem := range floats {
			tiles := set.tiles(elem)
			if len(tiles) == 0 {
				continue
			}
			ratio, bound := sizes(t, tiles, elem, Fast)
			t.Logf("%-22s %-4v %4d tiles: %.4f of raw, bound %.4f, %+.2f %%", s.name, elem, len(tiles), ratio, bound, 100*(ratio/bound-1))
			if elem == BF16 {
				assert.LessOrEqual(t, ratio, s.limit, s.name)
				assert.LessOrEqual(t, ratio, bound*1.012, s.name)
			}
		}
	}
}

// optional returns the set of a file that may be missing.
func optional(t testing.TB, name string) set {
	path := weights(name)
	if path == "" {
		return nil
	}
	return real(t, path)
}
