package demi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

func scanned(t testing.TB, m *mem, o *demi.RunOptions) []demi.ScanRow {
	t.Helper()
	rows, err := demi.Scan(context.Background(), m.checkpoint(), o)
	require.NoError(t, err)
	require.Len(t, rows, len(m.tensors))
	return rows
}

// u16 adds a tensor of 16-bit patterns.
func (m *mem) u16(name string, d tensor.DType, x ...uint16) *mem {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return m.add(memTensor{name, d, []int64{int64(len(x))}, b})
}

func (m *mem) u8(name string, d tensor.DType, x ...byte) *mem {
	return m.add(memTensor{name, d, []int64{int64(len(x))}, x})
}

// plainScan is the test's own reading of a tensor: one value at a time.
func plainScan(x memTensor) *demi.Values {
	v := &demi.Values{}
	patterns := map[uint64]bool{}
	width := x.dtype.Bits() / 8
	for i := 0; i < len(x.data)/width; i++ {
		var p [8]byte
		copy(p[:], x.data[i*width:(i+1)*width])
		bits := binary.LittleEndian.Uint64(p[:])
		patterns[bits] = true
		v.Count++
		f, smallest := plainValue(x.dtype, bits)
		item := &demi.SpecialItem{Index: int64(i), Bits: fmt.Sprintf("0x%0*x", 2*width, bits)}
		switch {
		case math.IsNaN(f):
			if item.Value = "NaN"; v.NaN == 0 {
				v.FirstNaN = item
			}
			v.NaN++
			continue
		case math.IsInf(f, 0):
			if item.Value = map[bool]string{true: "-Inf", false: "Inf"}[f < 0]; v.Inf == 0 {
				v.FirstInf = item
			}
			v.Inf++
			continue
		case f == 0:
			v.Zero++
			f = 0
		case math.Abs(f) < smallest:
			v.Subnormal++
		}
		if v.Min == nil {
			v.Min, v.Max, v.AbsMax = new(float64), new(float64), new(float64)
			*v.Min, *v.Max = f, f
		}
		*v.Min, *v.Max = math.Min(*v.Min, f), math.Max(*v.Max, f)
		*v.AbsMax = math.Max(*v.AbsMax, math.Abs(f))
	}
	v.Distinct = int64(len(patterns))
	if x.dtype.Bits() > 16 && v.Distinct > demi.MaxDistinct {
		v.Distinct, v.MoreDistinct = demi.MaxDistinct, true
	}
	return v
}

// plainValue decodes a pattern, field by field, and returns the smallest normal
// number of its type as well.
func plainValue(d tensor.DType, p uint64) (value, smallest float64) {
	switch d {
	case tensor.F64:
		return math.Float64frombits(p), 0x1p-1022
	case tensor.F32:
		return float64(math.Float32frombits(uint32(p))), 0x1p-126
	case tensor.F8E8M0:
		if p == 255 {
			return math.NaN(), 0
		}
		return math.Pow(2, float64(p)-127), 0
	}
	layout := map[tensor.DType][3]int{
		tensor.F16: {5, 10, 15}, tensor.BF16: {8, 7, 127}, tensor.F8E4M3: {4, 3, 7}, tensor.F8E5M2: {5, 2, 15},
		tensor.F8E4M3FNUZ: {4, 3, 8}, tensor.F8E5M2FNUZ: {5, 2, 16},
	}[d]
	ebits, mbits, bias := layout[0], layout[1], layout[2]
	sign := 1 - 2*float64(p>>(ebits+mbits))
	e, m := int(p>>mbits)&(1<<ebits-1), float64(p&(1<<mbits-1))
	top := e == 1<<ebits-1
	smallest = math.Pow(2, float64(1-bias))
	switch {
	case (d == tensor.F8E4M3FNUZ || d == tensor.F8E5M2FNUZ) && p == 0x80:
		return math.NaN(), smallest
	case d == tensor.F8E4M3 && top && m == 7:
		return math.NaN(), smallest
	case (d == tensor.F16 || d == tensor.BF16 || d == tensor.F8E5M2) && top && m != 0:
		return math.NaN(), smallest
	case (d == tensor.F16 || d == tensor.BF16 || d == tensor.F8E5M2) && top:
		return sign * math.Inf(1), smallest
	case e == 0:
		return sign * m / math.Pow(2, float64(mbits)) * smallest, smallest
	}
	return sign * (1 + m/math.Pow(2, float64(mbits))) * math.Pow(2, float64(e-bias)), smallest
}

var scannedTypes = []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.F8E4M3, tensor.F8E5M2, tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ, tensor.F8E8M0}

func TestScanIsWhatAPlainLoopFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m := new(mem)
		for i := range rapid.IntRange(1, 3).Draw(t, "tensors") {
			d := rapid.SampledFrom(scannedTypes).Draw(t, "type")
			n := rapid.SampledFrom([]int{0, 1, 7, 300, 2050, 9000, 65536, 66_000}).Draw(t, "elements")
			data := make([]byte, n*d.Bits()/8)
			pick(r, d, data, rapid.SampledFrom([]uint64{0, 1, 60, 7000, math.MaxUint64}).Draw(t, "patterns"))
			m.add(memTensor{fmt.Sprint("w", i), d, []int64{int64(n)}, data})
		}
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		rows, err := demi.Scan(context.Background(), m.checkpoint(), &demi.RunOptions{Workers: workers})
		require.NoError(t, err)
		for i, x := range m.tensors {
			want := plainScan(x)
			want.Effective = rows[i].Values.Effective
			require.Equal(t, want, rows[i].Values, "%s of %v", x.name, x.dtype)
		}
	})
}

// pick fills data with values of type d, of up to so many patterns.
func pick(r *rand.Rand, d tensor.DType, data []byte, patterns uint64) {
	width := d.Bits() / 8
	for i := 0; i < len(data); i += width {
		bits := r.Uint64()
		if patterns < math.MaxUint64 {
			bits = r.Uint64N(patterns+1) * 0x9e3779b97f4a7c15
		} else if d.IsFloat() && r.IntN(10) > 0 {
			bits = math.Float64bits(r.NormFloat64())
			if d == tensor.F32 {
				bits = uint64(math.Float32bits(float32(r.NormFloat64())))
			}
		}
		var p [8]byte
		binary.LittleEndian.PutUint64(p[:], bits)
		copy(data[i:i+width], p[:])
	}
}

// Both sides of the limit, in one tile and over several.
func TestScanDistinctLimit(t *testing.T) {
	for _, n := range []int{demi.MaxDistinct - 1, demi.MaxDistinct, demi.MaxDistinct + 1} {
		m := new(mem)
		var a, b []float32
		for i := range 200_000 {
			a = append(a, float32(i%n)) // has 0, whose pattern is 0
			b = append(b, float32(i/100%n+1))
		}
		m.f32("a", a...).f32("b", b...)
		for i, row := range scanned(t, m, nil) {
			distinct := min(n, 2000*i+(1-i)*n)
			require.Equal(t, int64(min(distinct, demi.MaxDistinct)), row.Values.Distinct)
			require.Equal(t, distinct > demi.MaxDistinct, row.Values.MoreDistinct)
		}
	}
}

// ComfyUI-GGUF#112: a file of 16 bits whose values all come from FP8.
func TestScanEffectiveType(t *testing.T) {
	grid := func(d tensor.DType) (x []float32) {
		for p := range uint64(256) {
			if f, _ := plainValue(d, p); !math.IsNaN(f) {
				x = append(x, float32(f))
			}
		}
		return x
	}
	bf16 := func(x []float32) (h []uint16) {
		for _, f := range x {
			h = append(h, uint16(math.Float32bits(f)>>16))
		}
		return h
	}
	e4m3, e5m2 := grid(tensor.F8E4M3), grid(tensor.F8E5M2)
	nan, payload, inf := math.Float32frombits(0x7fc00000), math.Float32frombits(0x7fd00000), float32(math.Inf(1))
	signalling := math.Float32frombits(0x7f800000 | 1<<16)
	many := make([]float32, 150_000)
	for i := range many {
		many[i] = e4m3[i%len(e4m3)]
	}
	m := new(mem).
		u16("BF16 of E4M3", tensor.BF16, bf16(e4m3)...).f32("F32 of E4M3", many...).f32("E4M3 with NaN", 1, nan, -nan).
		u16("BF16 of E5M2", tensor.BF16, bf16(e5m2)...).f32("F32 of E5M2", e5m2...).f32("Inf", 1, inf).f32("too large", 448, 512).
		f32("F16", 1+0x1p-10, 65504).f32("BF16", 1+0x1p-7, 0x1p100).f32("both", 1+0x1p-7, 3).f32("F32", math.Pi).
		f32("payload", payload).f32("signalling", signalling).f32("one too many", append(many[:70_000:70_000], 0x1p-10)...).
		f64("F64 of F32", 1+0x1p-23).f64("F64", 0.1).f64("F64 of E4M3", 0x1p-9, -448).
		u16("own", tensor.F16, 0x3c01).u16("F16 of E5M2", tensor.F16, 0x3c00, 0x7b00, 0x0100).u16("not", tensor.F16, 0x3c00, 0x0080).
		u8("FP8", tensor.F8E5M2, 0x3c).f32("empty").f32("zeros", 0, float32(math.Copysign(0, -1)))
	want := []tensor.DType{
		tensor.F8E4M3, tensor.F8E4M3, tensor.F8E4M3, tensor.F8E5M2, tensor.F8E5M2, tensor.F8E5M2, tensor.F8E5M2,
		tensor.F16, tensor.BF16, tensor.BF16, tensor.F32, tensor.BF16, tensor.F32, tensor.BF16,
		tensor.F32, tensor.F64, tensor.F8E4M3, tensor.F16, tensor.F8E5M2, tensor.F16, tensor.F8E5M2, tensor.F32, tensor.F8E4M3,
	}
	for i, row := range scanned(t, m, nil) {
		require.Equal(t, want[i].String(), row.Values.Effective.String(), row.Name)
	}
}

// vLLM#53537, compressed-tensors#832, aprender#2187: what is not finite is
// named with its place.
func TestScanPlaces(t *testing.T) {
	x := weights(200_000, 1)
	x[7], x[150_000] = float32(math.NaN()), float32(math.NaN())
	x[len(x)-1] = float32(math.Inf(-1))
	x[100] = 1e30
	m := new(mem).f32("w", x...).zeros("i", tensor.I32, 3).u16("h", tensor.BF16, 0, 0xff81, 0x7f80).u8("f", tensor.F8E4M3, 1, 0xff)
	rows := scanned(t, m, nil)
	v := rows[0].Values
	require.Equal(t, &demi.SpecialItem{Index: 7, Value: "NaN", Bits: "0x7fc00000"}, v.FirstNaN)
	require.Equal(t, &demi.SpecialItem{Index: 199_999, Value: "-Inf", Bits: "0xff800000"}, v.FirstInf)
	require.Equal(t, float64(float32(1e30)), *v.AbsMax)
	require.Nil(t, rows[1].Values, "integers are not read")
	require.Equal(t, &demi.SpecialItem{Index: 1, Value: "NaN", Bits: "0xff81"}, rows[2].Values.FirstNaN)
	require.Equal(t, &demi.SpecialItem{Index: 2, Value: "Inf", Bits: "0x7f80"}, rows[2].Values.FirstInf)
	require.Equal(t, &demi.SpecialItem{Index: 1, Value: "NaN", Bits: "0xff"}, rows[3].Values.FirstNaN)
}

func TestScanIsTheSameForAnyWorkers(t *testing.T) {
	m := new(mem).f32("a", weights(300_000, 3)...).f64("b", 1, 2, math.NaN()).f32("c").f32("d", weights(70_000, 4)...)
	var first []byte
	for _, workers := range []int{1, 2, 3, 8} {
		var told int64
		rows := scanned(t, m, &demi.RunOptions{Workers: workers, Progress: func(p demi.Progress) {
			require.Equal(t, "scan", p.Phase)
			require.Greater(t, p.Done, told)
			told = p.Done
		}})
		require.Equal(t, int64(370_000*4+24), told)
		text, err := json.Marshal(rows)
		require.NoError(t, err)
		if first == nil {
			first = text
		}
		require.Equal(t, string(first), string(text))
	}
}

func TestScanErrors(t *testing.T) {
	m := new(mem).f32("w", weights(70_000, 1)...)
	_, err := demi.Scan(context.Background(), m.checkpoint(), &demi.RunOptions{MaxMemory: 1000})
	require.ErrorIs(t, err, tensor.ErrLimit)
	rows := scanned(t, m, &demi.RunOptions{MaxMemory: 2 << 20, Workers: 64})
	require.Equal(t, int64(70_000), rows[0].Values.Count)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = demi.Scan(ctx, m.checkpoint(), nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = demi.Scan(context.Background(), demi.FromSource(shortMem{m}, demi.Safetensors), nil)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	require.ErrorContains(t, err, `tensor "w"`)
	rows = scanned(t, new(mem), nil)
	require.Empty(t, rows)
}

// A shortMem is a source whose data end too soon.
type shortMem struct{ *mem }

func (s shortMem) Data(i int) io.ReaderAt {
	return bytes.NewReader(s.tensors[i].data[:100])
}

func BenchmarkScan(b *testing.B) {
	for _, d := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.F8E4M3} {
		r := rand.New(rand.NewPCG(1, 2))
		data := make([]byte, 32<<20)
		for i := range data {
			data[i] = byte(r.Uint32()) & 0x3b
		}
		m := new(mem).add(memTensor{"w", d, []int64{int64(len(data) / (d.Bits() / 8))}, data})
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				scanned(b, m, nil)
			}
		})
	}
}
