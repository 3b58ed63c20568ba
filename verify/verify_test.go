package verify_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A source holds tensors in memory.
type source struct {
	infos []tensor.Info
	data  [][]byte
}

func (s *source) Tensors() []tensor.Info    { return s.infos }
func (s *source) Data(i int) io.ReaderAt    { return bytes.NewReader(s.data[i]) }
func (s *source) Meta() tensor.Metadata     { return nil }
func (s *source) Place(int) (string, int64) { return "memory", 100 }
func (s *source) Close() error              { return nil }

func (s *source) add(name string, d tensor.DType, data []byte, shape ...int64) *source {
	s.infos = append(s.infos, tensor.Info{Name: name, DType: d, Shape: shape, Size: int64(len(data))})
	s.data = append(s.data, data)
	return s
}

// encode stores values in a type, rounding to nearest.
func encode(d tensor.DType, x []float64) (b []byte) {
	narrow := make([]uint16, len(x))
	switch d {
	case tensor.F16:
		kernels.F64ToF16(narrow, x, kernels.Mode{})
	case tensor.BF16:
		kernels.F64ToBF16(narrow, x, kernels.Mode{})
	}
	for i, f := range x {
		switch d {
		case tensor.F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		case tensor.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f)))
		default:
			b = binary.LittleEndian.AppendUint16(b, narrow[i])
		}
	}
	return b
}

var floats = []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16}

// decode is the test's own reading of stored values.
func decode(d tensor.DType, b []byte) (x []float64) {
	for len(b) > 0 {
		switch d {
		case tensor.F64:
			x, b = append(x, math.Float64frombits(binary.LittleEndian.Uint64(b))), b[8:]
		case tensor.F32:
			x, b = append(x, float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), b[4:]
		case tensor.BF16:
			x, b = append(x, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b))<<16))), b[2:]
		case tensor.F16:
			h := binary.LittleEndian.Uint16(b)
			m, e := float64(h&0x3ff), int(h>>10&31)
			f := math.Ldexp(m, -24)
			if e > 0 {
				f = math.Ldexp(1024+m, e-25)
			}
			x, b = append(x, math.Copysign(f, float64(1-2*int(h>>15)))), b[2:]
		}
	}
	return x
}

// TestCompareAllPairs measures every pair of types and recomputes the plain
// figures from the stored bytes.
func TestCompareAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 150_001)
	for i := range x {
		x[i] = float64(float32(r.NormFloat64()))
	}
	for _, from := range floats {
		for _, to := range floats {
			ref := new(source).add("w", from, encode(from, x), int64(len(x)))
			got := new(source).add("w", to, encode(to, decode(from, ref.data[0])), int64(len(x)))
			records, problems, err := verify.Compare(context.Background(), ref, got, &verify.Options{Workers: 3})
			require.NoError(t, err)
			require.Empty(t, problems)
			require.Len(t, records, 1)
			s := records[0].Stats
			a, b := decode(from, ref.data[0]), decode(to, got.data[0])
			var changed int64
			var largest, err2 float64
			for i := range a {
				d := b[i] - a[i]
				if a[i] != b[i] {
					changed++
				}
				largest = max(largest, math.Abs(d))
				err2 += d * d
			}
			require.Equal(t, changed, s.Changed, "%v to %v", from, to)
			require.EqualValues(t, len(x), s.Count)
			require.InEpsilon(t, largest+1, s.MaxAbs+1, 1e-7)
			require.InDelta(t, math.Sqrt(err2/float64(len(x))), s.RMSE(), 1e-9)
			if changed > 0 {
				require.InDelta(t, math.Abs(a[s.MaxIndex]-b[s.MaxIndex]), s.MaxAbs, 1e-7)
				require.Equal(t, a[s.MaxIndex], s.MaxRef)
			}
		}
	}
}

// Signalling NaNs become quiet when 16 bits are widened, which is a change;
// two that are stored alike are not.
func TestCompareSeesSignallingNaN(t *testing.T) {
	signalling, quiet := []byte{0x81, 0x7f}, []byte{0xc1, 0x7f}
	wide := binary.LittleEndian.AppendUint32(nil, 0x7fc10000)
	for _, x := range []struct {
		from    tensor.DType
		a       []byte
		to      tensor.DType
		b       []byte
		changed int64
	}{
		{tensor.BF16, signalling, tensor.BF16, signalling, 0},
		{tensor.BF16, signalling, tensor.BF16, quiet, 1},
		{tensor.BF16, signalling, tensor.F32, wide, 1},
		{tensor.BF16, quiet, tensor.F32, wide, 0},
		{tensor.BF16, signalling, tensor.F16, []byte{0x08, 0x7e}, 1},
		{tensor.BF16, quiet, tensor.F16, []byte{0x08, 0x7e}, 0},
		{tensor.F16, []byte{0x01, 0x7c}, tensor.BF16, []byte{0xc0, 0x7f}, 1}, // its payload is lost: one change
	} {
		records, _, err := verify.Compare(context.Background(), new(source).add("w", x.from, x.a, 1), new(source).add("w", x.to, x.b, 1), nil)
		require.NoError(t, err)
		require.Equal(t, x.changed, records[0].Stats.Changed, "%x %x", x.a, x.b)
		require.Zero(t, records[0].Stats.NaNLost+records[0].Stats.NaNMade)
	}
}

func TestCompareFindsProblems(t *testing.T) {
	four := make([]byte, 4)
	ref := new(source).add("gone", tensor.F32, four, 1).add("shape", tensor.F32, four, 1).add("type", tensor.I32, four, 1).
		add("bytes", tensor.U8, []byte{1, 2, 3, 4}, 4).add("same", tensor.U8, four, 4).add("float", tensor.F32, four, 1)
	got := new(source).add("new", tensor.F32, four, 1).add("float", tensor.BF16, four[:2], 1).add("same", tensor.U8, four, 4).
		add("bytes", tensor.U8, []byte{1, 2, 3, 5}, 4).add("type", tensor.F32, four, 1).add("shape", tensor.F32, four, 1, 1)
	records, problems, err := verify.Compare(context.Background(), ref, got, nil)
	require.NoError(t, err)
	require.Equal(t, []verify.Problem{
		{"gone", "missing"}, {"shape", "shape [1] became [1 1]"}, {"type", "type I32 (4 bytes) became F32 (4 bytes)"},
		{"new", "additional"}, {"bytes", "the stored bytes of type U8 differ"},
	}, problems)
	require.Len(t, records, 3)
	require.Equal(t, "float", records[0].Name)
	require.NotNil(t, records[0].Stats)
	require.Nil(t, records[1].Stats)
}

func TestCompareReportsReadErrors(t *testing.T) {
	ref := new(source).add("w", tensor.F32, make([]byte, 400), 100)
	got := new(source).add("w", tensor.F32, make([]byte, 400), 100)
	got.data[0] = got.data[0][:100]
	_, _, err := verify.Compare(context.Background(), ref, got, nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	require.ErrorContains(t, err, `memory: tensor "w": byte 100`)
}

func TestSummary(t *testing.T) {
	stats := func(changed, over int64, err2 float64, maxAbs float64) *tensor.Stats {
		return &tensor.Stats{Count: 10, Finite: 10, Changed: changed, Overflowed: over, SumErr2: err2, SumRef2: 1, MaxAbs: maxAbs, MaxIndex: 3}
	}
	records := []tensor.Record{
		{Name: "copied", From: "I64", To: "I64", SizeIn: 8, SizeOut: 8},
		{Name: "good", From: "F32", To: "BF16", SizeIn: 40, SizeOut: 20, Stats: stats(5, 0, 1e-6, 0.25)},
		{Name: "bad", From: "F32", To: "BF16", SizeIn: 40, SizeOut: 20, Stats: stats(5, 0, 1e-3, 0.5)},
		{Name: "worst", From: "F32", To: "F16", SizeIn: 40, SizeOut: 20, Stats: stats(1, 1, 1e-9, 0.125)},
		{Name: "exact", From: "F32", To: "F16", SizeIn: 40, SizeOut: 20, Stats: stats(0, 0, 0, 0)},
	}
	s := verify.Summarize(records)
	require.Equal(t, 5, s.Tensors)
	require.Equal(t, 4, s.Measured)
	require.EqualValues(t, 168, s.BytesIn)
	require.EqualValues(t, 88, s.BytesOut)
	require.EqualValues(t, 11, s.Stats.Changed)
	require.Equal(t, "bad", s.Largest)
	require.Equal(t, 0.5, s.Stats.MaxAbs)
	require.EqualValues(t, 3, s.Stats.MaxIndex, "counted in its tensor")
	require.Len(t, s.Types, 3)
	require.Equal(t, verify.TypeCount{From: "F32", To: "BF16", Tensors: 2, BytesIn: 80, BytesOut: 40}, s.Types[1])
	var order []string
	for _, r := range verify.Worst(records, 10) {
		order = append(order, r.Name)
	}
	require.Equal(t, []string{"worst", "bad", "good"}, order)
	require.Len(t, verify.Worst(records, 2), 2)
}

func TestTable(t *testing.T) {
	records := []tensor.Record{
		{Name: "a.weight", From: "F32", To: "BF16", Shape: []int64{2, 3}, Stats: &tensor.Stats{
			Count: 6, Changed: 5, Finite: 6, SumErr2: 6e-6, SumRef2: 6, MaxAbs: 0.00195, ULPAway: -6 << 15, Overflowed: 2,
		}},
		{Name: "b", From: "I64", To: "I64", Shape: []int64{}},
		{Name: "c", From: "F32", To: "F32", Shape: []int64{1}, Stats: &tensor.Stats{Count: 1, Finite: 1, SumRef2: 1}},
	}
	var b strings.Builder
	require.NoError(t, verify.WriteTable(&b, records))
	require.Equal(t, ""+
		"tensor    type         values  changed  max error  RMS error  SNR dB  bias ULP  overflow\n"+
		"a.weight  F32 -> BF16       6  83.33 %    0.00195      0.001    60.0   -0.5000         2\n"+
		"b         I64               1        -          -          -       -         -         -\n"+
		"c         F32               1      0 %          0          0   exact   +0.0000         0\n", b.String())
}

func TestPercentIsExactAtItsEnds(t *testing.T) {
	for want, x := range map[string][2]int64{
		"0 %": {0, 5}, "100 %": {5, 5}, "99.99 %": {999_999_999, 1_000_000_000}, "0.01 %": {1, 1_000_000_000}, "50.00 %": {1, 2}, "200.00 %": {2, 1},
	} {
		require.Equal(t, want, verify.Percent(x[0], x[1]))
	}
	require.Equal(t, "0 %", verify.Percent(0, 0))
}

// TestRowsAreJSON covers the figures that JSON has no number for.
func TestRowsAreJSON(t *testing.T) {
	raw, err := json.Marshal(verify.Rows([]tensor.Record{
		{Name: "a", Stats: &tensor.Stats{Count: 1, Finite: 1, MaxIndex: -1}}, {Name: "b"},
		{Name: "c", Stats: &tensor.Stats{Count: 1, Finite: 1, SumErr2: 1}},
		{Name: "d", Stats: &tensor.Stats{Count: 1, Finite: 1, SumErr2: math.Inf(1), SumRef2: math.Inf(1), MaxAbs: 2}},
	}))
	require.NoError(t, err)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(raw, &rows))
	require.Equal(t, "a", rows[0]["name"])
	require.Nil(t, rows[0]["figures"].(map[string]any)["snr_db"])
	require.NotContains(t, rows[1], "figures")
	require.Nil(t, rows[2]["figures"].(map[string]any)["cosine"])
	require.Len(t, rows[1]["hash"], 64)
	stats := rows[3]["stats"].(map[string]any)
	require.Nil(t, stats["sum_err2"])
	require.Equal(t, 2.0, stats["max_abs"])
	require.Equal(t, 1.0, stats["count"])
	require.Nil(t, rows[3]["figures"].(map[string]any)["rmse"])
}
