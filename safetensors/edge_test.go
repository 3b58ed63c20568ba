package safetensors_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// TestHuge: files that no file can be are refused, whatever their sizes add up
// to.
func TestHuge(t *testing.T) {
	var infos []tensor.Info
	for i := range 5 {
		infos = append(infos, info(fmt.Sprint(i), tensor.U8, 1<<61-1))
	}
	_, err := safetensors.Plan(infos, nil, nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, `tensor "4": not supported: data would end beyond 2^63`)
	_, err = safetensors.Plan(infos[:4], nil, nil)
	require.ErrorContains(t, err, "file would have more than 2^63 bytes")
	l, err := safetensors.Plan(infos[:3], nil, nil)
	require.NoError(t, err)
	require.Equal(t, int64(len(l.Header))+3*(1<<61-1), l.Size)
	shards, _ := safetensors.SplitShards(infos, math.MaxInt64)
	require.Len(t, shards, 2, "a sum beyond 63 bits begins a shard")
}

// TestForeignRefused: types that a lenient reader cannot have found.
func TestForeignRefused(t *testing.T) {
	lenient := &safetensors.WriteOptions{Lenient: true}
	for want, in := range map[string]tensor.Info{
		"is not UTF-8":       {Name: "a", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "\xff"}},
		"size is -1 bytes":   {Name: "a", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "X"}, Size: -1},
		"of type OPAQUE":     {Name: "a", DType: tensor.Opaque},
		"of type F32":        {Name: "a", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "F32"}},
		"negative dimension": {Name: "a", DType: tensor.Opaque, Foreign: tensor.Foreign{Name: "X"}, Shape: []int64{-1}},
	} {
		_, err := safetensors.Plan([]tensor.Info{in}, nil, lenient)
		require.ErrorContains(t, err, want)
	}
}

// TestManyShards: of a long list of names the first ten are shown.
func TestManyShards(t *testing.T) {
	d := newFolder(t).file("model-00001-of-00020.safetensors", "a")
	_, err := safetensors.OpenSet(d.dir, nil)
	require.ErrorContains(t, err, "19 of 20 shards are missing: model-00002-of-00020.safetensors, ")
	require.ErrorContains(t, err, "model-00011-of-00020.safetensors and 9 more")
}

func TestNameAndSize(t *testing.T) {
	p := golden(t)["written"]
	f, err := open(p, &safetensors.Options{Name: "x"})
	require.NoError(t, err)
	require.Equal(t, "x", f.Name())
	require.Equal(t, int64(len(p)), f.Size())
}
