package demi_test

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func recheck(t *testing.T, src *demi.Checkpoint, file []byte, r kernels.Rounding, records []tensor.Record) []verify.Problem {
	t.Helper()
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)), nil)
	require.NoError(t, err)
	problems, err := demi.Recheck(context.Background(), src, demi.FromSource(f, demi.Safetensors), r, records, &demi.RunOptions{Workers: 3})
	require.NoError(t, err)
	return problems
}

// What a conversion wrote is what is read back, whatever the rounding; one bit
// that differs is found, and its tensor named.
func TestRecheckFindsEveryBit(t *testing.T) {
	m := new(mem).f32("w", append(weights(140_000, 1), 1e6, float32(math.NaN()), -70000)...).f64("d", 0.1, 1e300).zeros("i", tensor.I32, 5).f32("empty")
	m.add(memTensor{"h", tensor.BF16, []int64{3}, []byte{0x81, 0xff, 0x80, 0x7f, 1, 0}})
	src := m.checkpoint()
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16, tensor.F32} {
		for _, name := range kernels.Roundings() {
			r, err := kernels.ParseRounding(name)
			require.NoError(t, err)
			file, records := mustConvert(t, src, demi.Options{Target: demi.To(d), Rounding: r, Seed: 5})
			require.Empty(t, recheck(t, src, file, r, records), "%v %s", d, name)
			for i, in := range parse(t, file).Tensors() {
				if in.Size == 0 {
					continue
				}
				_, at := parse(t, file).Place(i)
				bad := bytes.Clone(file)
				bad[at+in.Size/2] ^= 1
				problems := recheck(t, src, bad, r, records)
				require.NotEmpty(t, problems, "%v %s", d, name)
				for _, p := range problems {
					require.Equal(t, in.Name, p.Tensor)
				}
			}
		}
	}
}

// A value that the records do not promise is found also where the bytes are
// those of the records.
func TestRecheckComparesWithTheSource(t *testing.T) {
	m := new(mem).f32("w", 1, 2, 3)
	file, records := mustConvert(t, m.checkpoint(), demi.Options{Target: demi.To(tensor.BF16)})
	m.tensors[0].data = f32Bytes([]float32{1, 2, 4})
	problems := recheck(t, m.checkpoint(), file, kernels.NearestEven, records)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Text, "figures")
}

func TestHashesAreThoseOfTheRecords(t *testing.T) {
	c := open(t, filepath.Join(charlmDir, "model.safetensors"))
	file, records := mustConvert(t, c, demi.Options{Target: demi.Keep})
	hashes, err := demi.Hashes(context.Background(), demi.FromSource(parse(t, file), demi.Safetensors), nil)
	require.NoError(t, err)
	require.Len(t, hashes, len(records))
	for i := range records {
		require.Equal(t, records[i].Hash, hashes[i], records[i].Name)
	}
	_, err = demi.Hashes(context.Background(), c, &demi.RunOptions{MaxMemory: 1000})
	require.ErrorIs(t, err, tensor.ErrLimit)
	hashes, err = demi.Hashes(context.Background(), new(mem).checkpoint(), nil)
	require.NoError(t, err)
	require.Empty(t, hashes)
}

func TestSavings(t *testing.T) {
	savings := func(m *mem, o demi.Options) []demi.Saving {
		c := m.checkpoint()
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		require.NoError(t, p.Decide(context.Background(), c, nil))
		return p.Savings()
	}
	fine := func() *mem { return new(mem).f32("w", math.Pi, 1, 1e6, 65504).f64("d", 0.1).zeros("i", tensor.I64, 9) }
	require.Equal(t, []demi.Saving{
		{Type: tensor.BF16, Bytes: 4*2 + 6, Values: 5, Changed: 4},
		{Type: tensor.F16, Bytes: 4*2 + 6, Values: 5, Changed: 3, Beyond: 1},
	}, savings(fine(), demi.Options{}))
	require.Nil(t, savings(fine().f32("shrinks", 1), demi.Options{}))
	require.Nil(t, savings(fine(), demi.Options{Target: demi.Keep}))
	require.Nil(t, savings(new(mem).zeros("i", tensor.I64, 9), demi.Options{}))
}
