package doctor_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/demi-weights/demi/doctor"
	"github.com/demi-weights/demi/tensor"
)

// TestScanPatterns: every pattern of the types of up to 16 bits, and the edges
// of the wider ones, are told apart as other libraries and the standards do.
func TestScanPatterns(t *testing.T) {
	half := make([]byte, 0, 2<<16)
	for v := range 1 << 16 {
		half = binary.LittleEndian.AppendUint16(half, uint16(v))
	}
	var f16NaN, f16Inf, bfNaN, bfInf int
	for v := range 1 << 16 {
		switch f := float16.Frombits(uint16(v)); {
		case f.IsNaN():
			f16NaN++
		case f.IsInf(0):
			f16Inf++
		}
		switch f := float64(math.Float32frombits(uint32(v) << 16)); {
		case math.IsNaN(f):
			bfNaN++
		case math.IsInf(f, 0):
			bfInf++
		}
	}
	eight := half[:0:0]
	for v := range 256 {
		eight = append(eight, byte(v))
	}
	var f32, f64 []byte
	for _, v := range []uint32{0x7f7fffff, 0x7f800000, 0x7f800001, 0xffc00000, 0xff800000, 0x80000000} {
		f32 = binary.LittleEndian.AppendUint32(f32, v)
	}
	for _, v := range []float64{math.MaxFloat64, math.Inf(-1), math.NaN(), 0} {
		f64 = binary.LittleEndian.AppendUint64(f64, math.Float64bits(v))
	}
	for _, c := range []struct {
		dtype    string
		data     []byte
		width    int
		nan, inf int
	}{
		{"F16", half, 2, f16NaN, f16Inf}, {"BF16", half, 2, bfNaN, bfInf}, {"F32", f32, 4, 2, 2}, {"F64", f64, 8, 1, 1},
		// OCP OFP8 1.0 and MX 1.0; AMD and Graphcore's FNUZ.
		{"F8_E5M2", eight, 1, 6, 2}, {"F8_E4M3", eight, 1, 2, 0}, {"F8_E4M3FNUZ", eight, 1, 1, 0}, {"F8_E5M2FNUZ", eight, 1, 1, 0}, {"F8_E8M0", eight, 1, 1, 0},
		{"I32", f32, 4, 0, 0},
	} {
		n := len(c.data) / c.width
		dir := t.TempDir()
		files{"x.safetensors": aligned(pt+described("w", c.dtype, fmt.Sprint(n), 0, len(c.data)), string(c.data))}.write(t, dir)
		got := map[string]string{}
		for _, f := range examine(t, filepath.Join(dir, "x.safetensors"), &doctor.Options{Scan: true}).Findings {
			got[f.Code] = f.Text
		}
		for code, want := range map[string]int{"nan": c.nan, "inf": c.inf} {
			if want == 0 {
				require.Empty(t, got[code], c.dtype)
				continue
			}
			require.Contains(t, got[code], fmt.Sprintf("%d of %d values", want, n), c.dtype)
		}
	}
}

// TestScanOptions: a scan tells how far it is, up to the end, whatever the format,
// and keeps a limit of memory; without it neither counts.
func TestScanOptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	all := torchSet()
	for name, text := range storeSet(f32) {
		all[name] = text
	}
	all.with("x.safetensors", one("a", "F32", f32), "i.safetensors", one("a", "I32", f32), "x.gguf", tinyGGUF("a", 0), "bad.gguf", "x", "page.gguf", "<html>",
		"model_index.json", "{}", "unet/y.safetensors", one("a", "F32", f32), "link.gguf", "-> x.gguf").write(t, dir)
	var last doctor.Progress
	calls := 0
	o := &doctor.Options{Scan: true, Workers: 64, MaxMemory: 2 << 20, Progress: func(p doctor.Progress) {
		require.GreaterOrEqual(t, p.Done, last.Done)
		require.LessOrEqual(t, p.Done, p.Total)
		require.Contains(t, p.File, dir)
		last = p
		calls++
	}}
	examine(t, dir, o)
	require.Equal(t, last.Total, last.Done)
	require.Equal(t, filepath.Join(dir, "unet/y.safetensors"), last.File)
	require.Greater(t, calls, 20)

	o.MaxMemory = 1000
	_, err := doctor.Examine(t.Context(), dir, o)
	require.ErrorIs(t, err, tensor.ErrLimit)
	o.Scan, calls = false, 0
	examine(t, dir, o)
	require.Zero(t, calls)
}
