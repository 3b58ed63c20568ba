package verify_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func TestLimits(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	x := []float32{1, -2, 70000, 1e-9, 3, inf, nan, 0.1}
	r := measure(t, new(source).add("w", tensor.F32, bytes32(x), 8).add("i", tensor.I32, bytes32(x), 8),
		new(source).add("w", tensor.F16, narrow(tensor.F16, x, kernels.Mode{}), 8).add("i", tensor.I32, bytes32(x), 8), verify.Options{Detail: true})
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		limits verify.Limits
		want   []string // limit: text
	}{
		{verify.Limits{}, nil},
		{verify.Limits{Exact: true}, []string{"exact: 3 of 8 values changed"}},
		{verify.Limits{NoOverflow: true, NoUnderflow: true}, []string{"no_overflow: 1 values overflowed", "no_underflow: 1 values became zero"}},
		{verify.Limits{MaxAbs: f(1)}, []string{"finite: 1 values that are not finite were lost or made"}},
		{verify.Limits{MaxAbs: f(1e-5)}, []string{"max_abs: error 2.442e-05 at [7] (0.1 became 0.099975586), the limit is 1e-05",
			"finite: 1 values that are not finite were lost or made"}},
		{verify.Limits{MaxRel: f(0.99)}, []string{"max_rel: relative error 1 at [3] (1e-09 became 0), the limit is 0.99",
			"finite: 1 values that are not finite were lost or made"}},
		{verify.Limits{MinSNR: f(200)}, []string{"min_snr_db: SNR 103.7 dB, the limit is 200 dB",
			"finite: 1 values that are not finite were lost or made"}},
		{verify.Limits{MaxBiasULP: f(0)}, nil}, // five values tell nothing
	} {
		var got []string
		for _, v := range (&verify.LimitSet{Default: c.limits}).Check(r) {
			require.Equal(t, "w", v.Tensor)
			got = append(got, v.Limit+": "+v.Text)
		}
		require.Equal(t, c.want, got)
	}
}

func TestBiasLimit(t *testing.T) {
	limit := 0.05
	for _, n := range []int{128, 65536} {
		x := gauss(9, n, 0.02)
		for rounding, want := range map[kernels.Rounding]int{kernels.NearestEven: 0, kernels.Stochastic: 0, kernels.TowardZero: 1, kernels.Up: 1} {
			r := measure(t, new(source).add("w", tensor.F32, bytes32(x), int64(n)),
				new(source).add("w", tensor.BF16, narrow(tensor.BF16, x, kernels.Mode{Rounding: rounding}), int64(n)), verify.Options{})
			set := verify.LimitSet{Default: verify.Limits{MaxBiasULP: &limit}}
			require.Len(t, set.Check(r), want, "%v of %d", rounding, n)
		}
	}
}

// A rule that no tensor falls under checks nothing.
func TestUnusedLimits(t *testing.T) {
	rules, err := verify.ReadLimits(strings.NewReader(`{"limits": [{"match": "w"}, {"match": "wv"}, {"match": "q"}, {"match": "i"}]}`))
	require.NoError(t, err)
	set := verify.LimitSet{Rules: rules}
	var unused []string
	for _, r := range set.Unused(&verify.Report{Records: []tensor.Record{{Name: "wv"}, {Name: "i"}}}) {
		unused = append(unused, r.Match.String())
	}
	require.Equal(t, []string{"wv", "q"}, unused, "the first rule that matches decides")
}

func TestReadLimits(t *testing.T) {
	rules, err := verify.ReadLimits(strings.NewReader(`{"limits": [{"match": "norm", "exact": true}, {"match": ".", "max_rel": 0.004, "min_snr_db": 50}]}`))
	require.NoError(t, err)
	set := verify.LimitSet{Rules: rules}
	require.True(t, set.For("a.norm.weight").Exact)
	require.Equal(t, 0.004, *set.For("w").MaxRel)
	require.Equal(t, 50.0, *set.For("w").MinSNR)
	require.True(t, set.NeedDetail())
	require.False(t, set.Empty())
	for text, want := range map[string]string{
		`{"limits": [{"match": "(", "exact": true}]}`:     "entry 0: error parsing regexp",
		`{"limits": [{"match": ".", "max_abs": -1}]}`:     "entry 0: max_abs: a limit of -1",
		`{"limits": [{"match": ".", "max_absolute": 1}]}`: "max_absolute",
		`{"limits": [{"match": ".", "max_abs": "much"}]}`: "max_abs",
		`{"limits": [`:     "limits: ",
		`{}`:               "the list of that name is missing",
		`{"limits": null}`: "the list of that name is missing",
	} {
		_, err := verify.ReadLimits(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}
