package codec

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
	"github.com/stretchr/testify/require"
)

// A set is the values of some tensors.
type set [][]float32

// tiles returns the stored bytes of all tiles of a set, of the given type.
func (s set) tiles(elem Elem) (tiles [][]byte) {
	for _, xs := range s {
		for ; len(xs) > 0; xs = xs[min(len(xs), tile.Elems):] {
			tiles = append(tiles, stored(xs[:min(len(xs), tile.Elems)], elem))
		}
	}
	return tiles
}

// stored rounds values and returns their bytes.
func stored(xs []float32, elem Elem) []byte {
	b := tile.NewBuffer(len(xs) * elem.size())
	switch elem {
	case BF16:
		kernels.F32ToBF16(tile.Uint16s(b), xs, kernels.Mode{})
	case F16:
		kernels.F32ToF16(tile.Uint16s(b), xs, kernels.Mode{})
	case F32:
		copy(tile.Float32s(b), xs)
	}
	tile.Swap(b, 8*elem.size())
	return b
}

// real returns the F32 and F16 tensors of a file.
func real(t testing.TB, name string) (s set) {
	f, err := safetensors.Open(name, nil)
	require.NoError(t, err)
	defer f.Close()
	for i, info := range f.Tensors() {
		b := tile.NewBuffer(int(info.Size))
		_, err := f.Data(i).ReadAt(b, 0)
		require.NoError(t, err)
		switch info.DType {
		case tensor.F32:
			tile.Swap(b, 32)
			s = append(s, tile.Float32s(b))
		case tensor.F16:
			tile.Swap(b, 16)
			xs := make([]float32, len(b)/2)
			kernels.F16ToF32(xs, tile.Uint16s(b))
			s = append(s, xs)
		}
	}
	return s
}

const charlm = "../testdata/charlm/model.safetensors"

// weights returns the path of a file of real weights, which are not part of
// the repository, or "".
func weights(name string) string {
	path := filepath.Join("../../shared/data/weights", name+".safetensors")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// synthetic returns a set that is like a transformer: matrices whose rows have
// log-normal scales and whose values have a Student distribution with 6
// degrees of freedom, and norms near 1.
func synthetic(layers, rows, width int) (s set) {
	r := rand.New(rand.NewPCG(16, 6))
	for range layers {
		for range 7 {
			s = append(s, matrix(r, rows, width))
		}
		for range 2 {
			norm := make([]float32, width)
			for i := range norm {
				norm[i] = float32(1 + 0.1*r.NormFloat64())
			}
			s = append(s, norm)
		}
	}
	return s
}

func matrix(r *rand.Rand, rows, width int) []float32 {
	xs := make([]float32, rows*width)
	sigma, spread := 0.015+0.02*r.Float64(), 0.15+0.2*r.Float64()
	for row := range rows {
		scale := sigma * math.Exp(spread*r.NormFloat64())
		for i := range width {
			xs[row*width+i] = float32(scale * student6(r))
		}
	}
	return xs
}

// student6 draws from the Student distribution with 6 degrees of freedom.
func student6(r *rand.Rand) float64 {
	chi := 0.0
	for range 6 {
		x := r.NormFloat64()
		chi += x * x
	}
	return r.NormFloat64() / math.Sqrt(chi/6)
}
