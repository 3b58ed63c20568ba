package verify_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func measure(t *testing.T, ref, got tensor.Source, o verify.Options) *verify.Report {
	t.Helper()
	r, err := verify.Measure(context.Background(), ref, got, &o)
	require.NoError(t, err)
	return r
}

// detail measures one tensor.
func detail(t *testing.T, from tensor.DType, ref []byte, to tensor.DType, got []byte) (*verify.Detail, *tensor.Stats) {
	t.Helper()
	n := int64(len(ref) * 8 / from.Bits())
	r := measure(t, new(source).add("w", from, ref, n), new(source).add("w", to, got, n), verify.Options{Detail: true, Workers: 2})
	require.Empty(t, r.Problems)
	return r.Details[0], r.Records[0].Stats
}

// narrow rounds F32 values with the kernels.
func narrow(to tensor.DType, x []float32, m kernels.Mode) (b []byte) {
	h := make([]uint16, len(x))
	if to == tensor.F16 {
		kernels.F32ToF16(h, x, m)
	} else {
		kernels.F32ToBF16(h, x, m)
	}
	for _, v := range h {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

func bytes32(x []float32) (b []byte) {
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func gauss(seed uint64, n int, scale float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// Vectors that were computed by hand: testdata/vectors.json says how.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var vectors []struct {
		Why, To  string
		Ref, Got []string
		Want     map[string]any
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	for _, v := range vectors {
		to := tensor.FromName(v.To)
		var x, y []byte
		for i := range v.Ref {
			x = binary.LittleEndian.AppendUint32(x, math.Float32bits(float32(number(t, v.Ref[i]))))
			y = append(y, encode(to, []float64{number(t, v.Got[i])})...)
		}
		n := int64(len(v.Ref))
		r := measure(t, new(source).add("w", tensor.F32, x, n), new(source).add("w", to, y, n), verify.Options{Detail: true})
		text, err := json.Marshal(r.Rows()[0])
		require.NoError(t, err)
		var row map[string]any
		require.NoError(t, json.Unmarshal(text, &row))
		for path, want := range v.Want {
			part, name, _ := strings.Cut(path, ".")
			require.Contains(t, row[part], name, v.Why)
			require.Equal(t, want, row[part].(map[string]any)[name], "%s: %s", v.Why, path)
		}
	}
}

// number reads "0x1p-3", "inf" or "nan".
func number(t *testing.T, s string) float64 {
	t.Helper()
	f, _, err := big.ParseFloat(s, 0, 200, big.ToNearestEven)
	if s == "nan" {
		return math.NaN()
	}
	require.NoError(t, err)
	v, _ := f.Float64()
	return v
}

// TestDetailAgainstBig computes figures anew with math/big, for every pair of
// types and values all over their range.
func TestDetailAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, from := range floats {
		for _, to := range floats {
			x := make([]float64, 500)
			for i := range x {
				x[i] = math.Copysign(math.Ldexp(0.5+r.Float64(), r.IntN(35)-22), r.NormFloat64())
			}
			ref := encode(from, x)
			got := encode(to, decode(from, ref))
			for i := 0; i < len(got); i += 7 * to.Bits() / 8 {
				got[i] ^= byte(r.Uint32()) // the low byte
			}
			d, s := detail(t, from, ref, to, got)
			checkBig(t, d, s, to, decode(from, ref), decode(to, got))
		}
	}
}

func checkBig(t *testing.T, d *verify.Detail, s *tensor.Stats, to tensor.DType, x, y []float64) {
	t.Helper()
	mant := map[tensor.DType]int{tensor.F16: 10, tensor.BF16: 7, tensor.F32: 23, tensor.F64: 52}[to]
	emin := map[tensor.DType]int{tensor.F16: -14, tensor.BF16: -126, tensor.F32: -126, tensor.F64: -1022}[to]
	var ulps [verify.ULPBuckets]int64
	sum2, worst, worstAt := new(big.Float).SetPrec(300), new(big.Rat), -1
	for i := range x {
		a, b := new(big.Rat).SetFloat64(x[i]), new(big.Rat).SetFloat64(y[i])
		e := new(big.Rat).Sub(b, a)
		e.Abs(e)
		_, exp := math.Frexp(x[i])
		u := new(big.Rat).Mul(e, power(mant-max(exp-1, emin)))
		ulps[bucket(u)]++
		f, _ := u.Float64()
		sum2.Add(sum2, new(big.Float).SetFloat64(min(f, 1<<31-1)*min(f, 1<<31-1)))
		if rel := new(big.Rat).Quo(e, a.Abs(a)); rel.Cmp(worst) > 0 {
			worst, worstAt = rel, i
		}
	}
	require.Equal(t, ulps, d.ULPs)
	want, _ := worst.Float64()
	if worstAt >= 0 {
		require.InEpsilon(t, want, d.MaxRel, 1e-14)
		require.Equal(t, []float64{x[worstAt], y[worstAt]}, []float64{d.MaxRelRef, d.MaxRelGot})
	}
	total, _ := sum2.Float64()
	require.InEpsilon(t, total+1, d.ULPSum2+1, 1e-12)
	require.InDelta(t, math.Sqrt((total/float64(s.Finite)-s.BiasUp()*s.BiasUp())/float64(s.Finite-1)), d.StdErr(s, s.BiasUp()), 1e-6*(1+total))
}

func power(e int) *big.Rat {
	p := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
	if e < 0 {
		p.Inv(p)
	}
	return p
}

func bucket(u *big.Rat) int {
	if u.Sign() == 0 {
		return 0
	}
	k := 1
	for k < verify.ULPBuckets-1 && u.Cmp(power(k-2)) > 0 {
		k++
	}
	return k
}

// The figures do not depend on the number of workers.
func TestDetailIsTheSameWithAnyWorkers(t *testing.T) {
	x := gauss(1, 400_003, 0.02)
	ref := new(source).add("w", tensor.F32, bytes32(x), 400_003).add("b", tensor.F32, bytes32(x[:300]), 300)
	got := new(source).add("w", tensor.F16, narrow(tensor.F16, x, kernels.Mode{Rounding: kernels.Down}), 400_003).
		add("b", tensor.BF16, narrow(tensor.BF16, x[:300], kernels.Mode{}), 300)
	want := measure(t, ref, got, verify.Options{Detail: true, Workers: 1})
	for _, n := range []int{2, 7} {
		require.Equal(t, want, measure(t, ref, got, verify.Options{Detail: true, Workers: n}))
	}
	require.EqualValues(t, 25001, want.Details[0].DistinctOf)
	require.EqualValues(t, 300, want.Details[1].DistinctOf)
}

// Truncation is seen, and what other roundings do is not taken for it.
func TestOneSided(t *testing.T) {
	x := gauss(2, 65536, 0.02)
	for rounding, want := range map[kernels.Rounding]string{
		kernels.NearestEven: "", kernels.NearestAway: "", kernels.TowardZero: "toward zero", kernels.Up: "up", kernels.Down: "down",
		kernels.Stochastic: "",
	} {
		for _, to := range []tensor.DType{tensor.F16, tensor.BF16} {
			d, s := detail(t, tensor.F32, bytes32(x), to, narrow(to, x, kernels.Mode{Rounding: rounding}))
			require.Equal(t, want, d.OneSided(s), "%v to %v", rounding, to)
			require.Equal(t, want, verify.Biased(s), "%v to %v", rounding, to)
			require.Equal(t, want, verify.NewFigures(s).Biased)
		}
	}
	// A constant that rounds down leans, but was not truncated.
	c := make([]float32, 20_000)
	for i := range c {
		c[i] = 0.1
	}
	d, s := detail(t, tensor.F32, bytes32(c), tensor.BF16, narrow(tensor.BF16, c, kernels.Mode{}))
	require.Empty(t, d.OneSided(s))
	require.Equal(t, "away from zero", verify.Biased(s))
}

// sglang#37133: values of a router's bias that lie close together become equal.
func TestDistinctValuesOfARouterBias(t *testing.T) {
	x := make([]float32, 256)
	for i := range x {
		x[i] = 6.817 + float32(i)*(7.063-6.817)/255
	}
	for to, want := range map[tensor.DType]int64{tensor.BF16: 9, tensor.F16: 64} {
		d, _ := detail(t, tensor.F32, bytes32(x), to, narrow(to, x, kernels.Mode{}))
		require.EqualValues(t, 256, d.DistinctRef)
		require.Equal(t, want, d.DistinctGot, "%v", to)
		require.Equal(t, 8, d.TopK)
		require.Less(t, d.Top, 8, "%v", to)
	}
	d, _ := detail(t, tensor.F32, bytes32(x), tensor.F32, bytes32(x))
	require.Equal(t, 8, d.Top)
}
