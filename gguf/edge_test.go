package gguf_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// TestHuge: files that no file can be are refused, whatever their sizes add up
// to.
func TestHuge(t *testing.T) {
	var infos []tensor.Info
	for i := range 5 {
		infos = append(infos, tensor.Info{Name: fmt.Sprint(i), DType: tensor.I8, Shape: []int64{1<<61 - 32}, Size: 1<<61 - 32})
	}
	_, err := gguf.Plan(infos, nil, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, `tensor "4": not supported: data would end beyond 2^63`)
	_, err = gguf.Plan(infos[:4], nil, nil)
	require.ErrorContains(t, err, "file would have more than 2^63 bytes")
	_, err = gguf.Split(infos, 0, nil)
	require.ErrorContains(t, err, "ends beyond 2^63")
	l, err := gguf.Plan(infos[:3], nil, nil)
	require.NoError(t, err)
	require.Equal(t, int64(len(l.Header))+3*(1<<61-32), l.Size)
}

func TestNameAndSize(t *testing.T) {
	p := golden()["ok-types"]
	f, err := open(p, &gguf.Options{Name: "x"})
	require.NoError(t, err)
	require.Equal(t, "x", f.Name())
	require.Equal(t, int64(len(p)), f.Size())
	require.NoError(t, f.Close(), "the reader is the caller's")
}
