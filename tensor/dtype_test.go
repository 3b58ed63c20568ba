package tensor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// TestDTypes is the table of element types: name, bits, kind, in the order in
// which safetensors lays them out.
func TestDTypes(t *testing.T) {
	rows := []struct {
		d    tensor.DType
		name string
		bits int
		kind string
	}{
		{tensor.U64, "U64", 64, "integer"}, {tensor.I64, "I64", 64, "integer"}, {tensor.F64, "F64", 64, "float"}, {tensor.C64, "C64", 64, ""},
		{tensor.F32, "F32", 32, "float"}, {tensor.U32, "U32", 32, "integer"}, {tensor.I32, "I32", 32, "integer"},
		{tensor.BF16, "BF16", 16, "float"}, {tensor.F16, "F16", 16, "float"}, {tensor.U16, "U16", 16, "integer"}, {tensor.I16, "I16", 16, "integer"},
		{tensor.F8E5M2FNUZ, "F8_E5M2FNUZ", 8, "small"}, {tensor.F8E4M3FNUZ, "F8_E4M3FNUZ", 8, "small"}, {tensor.F8E8M0, "F8_E8M0", 8, "small"},
		{tensor.F8E4M3, "F8_E4M3", 8, "small"}, {tensor.F8E5M2, "F8_E5M2", 8, "small"}, {tensor.I8, "I8", 8, "integer"}, {tensor.U8, "U8", 8, "integer"},
		{tensor.F6E3M2, "F6_E3M2", 6, "small"}, {tensor.F6E2M3, "F6_E2M3", 6, "small"}, {tensor.F4, "F4", 4, "small"}, {tensor.Bool, "BOOL", 8, ""},
	}
	require.Len(t, rows, 22)
	for i, r := range rows {
		require.Equal(t, tensor.DType(i+1), r.d, "the order is that of the format")
		require.Equal(t, r.name, r.d.String())
		require.Equal(t, r.bits, r.d.Bits(), r.name)
		require.Equal(t, []bool{r.kind == "float", r.kind == "small", r.kind == "integer"}, []bool{r.d.IsFloat(), r.d.IsSmallFloat(), r.d.IsInteger()}, r.name)
		require.Equal(t, r.d, tensor.FromName(r.name))
		require.Equal(t, tensor.Invalid, tensor.FromName(strings.ToLower(r.name)), "names are exact")
		for _, spelling := range []string{r.name, strings.ToLower(r.name)} {
			d, err := tensor.ParseDType(spelling)
			require.NoError(t, err)
			require.Equal(t, r.d, d)
		}
	}
	for _, d := range []tensor.DType{tensor.Invalid, tensor.Opaque, 24, 255} {
		require.Zero(t, d.Bits())
		require.False(t, d.IsFloat() || d.IsSmallFloat() || d.IsInteger())
		require.NotEmpty(t, d.String())
	}
	require.Equal(t, "DType(255)", tensor.DType(255).String())
}

func TestParseDType(t *testing.T) {
	for spellings, want := range map[string]tensor.DType{
		"f64 F64 float64 double fp64 torch.float64 torch.double": tensor.F64,
		"f32 float32 float fp32 single FLOAT32 torch.float":      tensor.F32,
		"f16 fp16 float16 half Half torch.float16 torch.half":    tensor.F16,
		"bf16 BF16 bfloat16 bfloat torch.bfloat16":               tensor.BF16,
		"f8_e4m3 f8_e4m3fn float8_e4m3fn torch.float8_e4m3fn":    tensor.F8E4M3,
		"f8_e5m2 float8_e5m2":                                    tensor.F8E5M2,
		"float8_e4m3fnuz":                                        tensor.F8E4M3FNUZ,
		"float8_e5m2fnuz":                                        tensor.F8E5M2FNUZ,
		"float8_e8m0fnu":                                         tensor.F8E8M0,
		"float4_e2m1":                                            tensor.F4,
		"float6_e2m3":                                            tensor.F6E2M3,
		"float6_e3m2":                                            tensor.F6E3M2,
		"i64 int64 long":                                         tensor.I64,
		"i32 int32 int":                                          tensor.I32,
		"i16 int16 short":                                        tensor.I16,
		"i8 int8":                                                tensor.I8,
		"u64 uint64":                                             tensor.U64, "u32 uint32": tensor.U32, "u16 uint16": tensor.U16, "u8 uint8 byte": tensor.U8,
		"bool boolean torch.bool": tensor.Bool, "c64 complex64": tensor.C64,
	} {
		for s := range strings.FieldsSeq(spellings) {
			d, err := tensor.ParseDType(s)
			require.NoError(t, err)
			require.Equal(t, want, d, s)
		}
	}
	for _, s := range []string{"", "f", "F15", "opaque", "OPAQUE", "invalid", "q4_k", " f16", "torch.", "torch.torch.f16", "float8"} {
		_, err := tensor.ParseDType(s)
		require.ErrorContains(t, err, "unknown element type", s)
	}
}

func TestDTypeText(t *testing.T) {
	for d := tensor.U64; d <= tensor.Opaque; d++ {
		text, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, `"`+d.String()+`"`, string(text))
		var back tensor.DType
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, d, back)
	}
	d := tensor.F16
	require.Error(t, json.Unmarshal([]byte(`"f17"`), &d))
	require.Equal(t, tensor.F16, d, "unchanged by an error")
}

func TestTypeName(t *testing.T) {
	require.Equal(t, "F32", tensor.Info{DType: tensor.F32}.TypeName())
	require.Equal(t, "Q4_K", tensor.Info{DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "Q4_K"}}.TypeName())
	require.Equal(t, "OPAQUE", tensor.Info{DType: tensor.Opaque}.TypeName())
}
