package hfconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/hfconfig"
	"github.com/demi-weights/demi/tensor"
)

func TestDTypes(t *testing.T) {
	text := []byte(`{"torch_dtype" : "bfloat16", "a.b": {"dtype":"torch.float16", "x": "dtype"},
 "list": [{"dtype": "fp32"}], "dtype": "int8", "other": "float32", "vision": {"torch_dtype": null}}`)
	values, err := hfconfig.DTypes(text)
	require.NoError(t, err)
	require.Len(t, values, 3)
	for i, want := range []struct {
		path string
		d    tensor.DType
		text string
	}{{"torch_dtype", tensor.BF16, `"bfloat16"`}, {"a.b.dtype", tensor.F16, `"torch.float16"`}, {"list.0.dtype", tensor.F32, `"fp32"`}} {
		v := values[i]
		require.Equal(t, want.path, v.Path)
		require.Equal(t, want.d, v.DType)
		require.Equal(t, want.text, string(text[v.Start:v.End]))
	}
	require.Equal(t, `{"torch_dtype" : "float32", "a.b": {"dtype":"torch.float32", "x": "dtype"},
 "list": [{"dtype": "float32"}], "dtype": "int8", "other": "float32", "vision": {"torch_dtype": null}}`, string(hfconfig.Replace(text, values, tensor.F32)))
	require.Equal(t, string(text), string(hfconfig.Replace(text, nil, tensor.F32)))
	require.Equal(t, "bfloat16", hfconfig.Name(tensor.BF16))
}

func TestNotJSON(t *testing.T) {
	for _, text := range []string{`{"dtype": "float32"`, `{"dtype" "float32"}`, `nonsense`, `{"a":1,"a":2}`} {
		_, err := hfconfig.DTypes([]byte(text))
		require.ErrorIs(t, err, tensor.ErrFormat, text)
	}
	values, err := hfconfig.DTypes(nil)
	require.NoError(t, err)
	require.Empty(t, values)
}

// FuzzReplace: of whatever is JSON, nothing but the types changes.
func FuzzReplace(f *testing.F) {
	f.Add([]byte(`{"torch_dtype": "bfloat16", "a": {"dtype": "torch.float16", "x": ["dtype", {"dtype": "\u0066p32"}]}, "dtype": 1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := hfconfig.DTypes(text)
		if err != nil {
			require.ErrorIs(t, err, tensor.ErrFormat)
			return
		}
		out := hfconfig.Replace(text, values, tensor.F16)
		now, err := hfconfig.DTypes(out)
		require.NoError(t, err)
		require.Len(t, now, len(values))
		done, at := 0, 0
		for i, v := range now {
			require.Equal(t, tensor.F16, v.DType)
			require.Equal(t, values[i].Path, v.Path)
			require.Equal(t, string(text[done:values[i].Start]), string(out[at:v.Start]))
			done, at = values[i].End, v.End
		}
		require.Equal(t, string(text[done:]), string(out[at:]))
	})
}
