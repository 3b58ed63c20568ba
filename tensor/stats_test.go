package tensor_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/tensor"
)

// drawStats draws the figures of one tile. Sums are small integers, so that
// they add without rounding.
func drawStats(t *rapid.T) tensor.Stats {
	s := tensor.Stats{MaxIndex: -1}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		switch n := rapid.Int64Range(0, 1000).Draw(t, v.Type().Field(i).Name); v.Type().Field(i).Name {
		case "MaxAbs", "MaxIndex", "MaxRef", "MaxGot":
		default:
			if f := v.Field(i); f.CanInt() {
				f.SetInt(n)
			} else {
				f.SetFloat(float64(n))
			}
		}
	}
	if s.Count > 0 && rapid.Bool().Draw(t, "differs") {
		s.MaxIndex = rapid.Int64Range(0, s.Count-1).Draw(t, "at")
		s.MaxAbs = float64(rapid.IntRange(1, 3).Draw(t, "max"))
		s.MaxRef, s.MaxGot = float64(s.MaxIndex), float64(s.MaxIndex)+s.MaxAbs
	}
	return s
}

func merged(tiles ...tensor.Stats) tensor.Stats {
	var sum tensor.Stats
	for i := range tiles {
		sum.Merge(&tiles[i])
	}
	return sum
}

// TestMerge: figures add up, whatever the split, and the worst element is the
// first of the largest error, counted from the start of the tensor.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tiles := rapid.SliceOfN(rapid.Custom(drawStats), 1, 6).Draw(t, "tiles")
		sum := merged(tiles...)
		want := tensor.Stats{MaxIndex: -1}
		for _, s := range tiles {
			if s.MaxIndex >= 0 && (want.MaxIndex < 0 || s.MaxAbs > want.MaxAbs) {
				want.MaxAbs, want.MaxRef, want.MaxGot, want.MaxIndex = s.MaxAbs, s.MaxRef, s.MaxGot, want.Count+s.MaxIndex
			}
			addAll(&want, s)
		}
		require.Equal(t, want, sum)

		k := rapid.IntRange(0, len(tiles)).Draw(t, "split") // (a+b)+(c+d) is a+b+c+d
		left, right := merged(tiles[:k]...), merged(tiles[k:]...)
		require.Equal(t, sum, merged(left, right))
	})
}

// addAll adds all counts and sums, whatever their names.
func addAll(to *tensor.Stats, s tensor.Stats) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(s)
	for i := range a.NumField() {
		switch f := a.Field(i); {
		case len(a.Type().Field(i).Name) > 3 && a.Type().Field(i).Name[:3] == "Max":
		case f.CanInt():
			f.SetInt(f.Int() + b.Field(i).Int())
		default:
			f.SetFloat(f.Float() + b.Field(i).Float())
		}
	}
}

// TestMergeNothing: no tile is no error and no worst element.
func TestMergeNothing(t *testing.T) {
	sum := merged(tensor.Stats{MaxIndex: -1}, tensor.Stats{MaxIndex: -1})
	require.Equal(t, tensor.Stats{MaxIndex: -1}, sum)
	require.Equal(t, int64(-1), merged(tensor.Stats{}).MaxIndex)
	require.Equal(t, int64(3), merged(tensor.Stats{Count: 3, MaxIndex: -1}, tensor.Stats{Count: 1, MaxIndex: 0, MaxAbs: 1}).MaxIndex)
}

func TestFigures(t *testing.T) {
	none := tensor.Stats{}
	require.Equal(t, []float64{0, 1, 0, 0}, []float64{none.RMSE(), none.Cosine(), none.BiasUp(), none.BiasAway()})
	require.True(t, math.IsInf(none.SNR(), 1))

	// x = 3, 4 became y = 3, 5
	s := tensor.Stats{Finite: 2, SumErr2: 1, SumRef2: 25, SumRefEr: 4, ULPUp: tensor.ULPScale, ULPAway: -tensor.ULPScale / 2}
	require.InDelta(t, math.Sqrt(0.5), s.RMSE(), 1e-15)
	require.InDelta(t, 10*math.Log10(25), s.SNR(), 1e-12)
	require.InDelta(t, 29/math.Sqrt(25*34), s.Cosine(), 1e-15)
	require.Equal(t, 0.5, s.BiasUp())
	require.Equal(t, -0.25, s.BiasAway())

	zeros := tensor.Stats{Finite: 1, SumErr2: 4} // x = 0 became 2
	require.True(t, math.IsInf(zeros.SNR(), -1))
	require.True(t, math.IsNaN(zeros.Cosine()))
}

func TestHashText(t *testing.T) {
	h := tensor.Hash{0xAB, 1}
	require.Len(t, h.String(), 64)
	text, err := json.Marshal(tensor.Record{Hash: h})
	require.NoError(t, err)
	require.Contains(t, string(text), `"hash":"ab01000000`)
	require.NotContains(t, string(text), "stats", "a copied tensor has no figures")
}
