package pytorch_test

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// TestEntrySums: in what PyTorch wrote, the sum of a tensor is whole if and only if it
// is that of the tensor's bytes, and every tensor and every other entry has one
// that is right.
func TestEntrySums(t *testing.T) {
	whole, parts := 0, 0
	for name, s := range samples(t) {
		if s.Refused != "" {
			continue
		}
		f, err := pytorch.Open(name, nil)
		require.NoError(t, err)
		defer f.Close()
		for i, in := range f.Tensors() {
			sums, ok := f.Sums(i)
			require.Len(t, sums, 1)
			crc := crc32.ChecksumIEEE(content(t, f, i))
			if ok {
				whole++
				require.NoError(t, sums[0].Compare(crc), "%s %s", name, in.Name)
				require.ErrorIs(t, sums[0].Compare(crc+1), tensor.ErrFormat)
			} else if in.Size > 0 {
				parts++
				require.Error(t, sums[0].Compare(crc), "%s %s", name, in.Name)
			}
			require.NoError(t, sums[0].Read(t.Context()))
		}
		for _, s := range f.OtherSums() {
			require.NoError(t, s.Read(t.Context()))
		}
		require.GreaterOrEqual(t, len(f.OtherSums()), 2)
	}
	require.Greater(t, whole, 200)
	require.Greater(t, parts, 30)
}

// TestEntrySumsOfOne: tensors of one storage have one sum; some files have none.
func TestEntrySumsOfOne(t *testing.T) {
	three := store("FloatStorage", "0", 3)
	file := pack(pickled(dict(
		str("w"), view(three, 0, []int64{3}, []int64{1}), str("tied"), view(three, 0, []int64{3, 1}, []int64{1, 7}),
		str("part"), view(three, 1, []int64{2}, []int64{1}), str("other"), view(store("FloatStorage", "1", 2), 0, []int64{2}, []int64{1}),
		str("empty"), view(store("FloatStorage", "2", 0), 0, []int64{0}, []int64{1}))),
		floats3, "abcdefghi", "").bytes()
	f := mustOpen(t, file, nil)
	var of []tensor.Sum
	var all []bool
	for i := range f.Tensors() {
		sums, whole := f.Sums(i)
		of, all = append(of, sums...), append(all, whole)
	}
	require.Equal(t, []bool{true, true, false, false, false}, all, "one storage has a byte more than its tensor, one nothing to pass by")
	require.True(t, of[0] == of[1] && of[0] == of[2] && of[0] != of[3])
	require.Len(t, f.OtherSums(), 2)

	f = mustOpen(t, file, &pytorch.Options{Once: true})
	sums, whole := f.Sums(0)
	require.True(t, whole)
	require.Len(t, sums, 1)
	sums, _ = f.Sums(2)
	require.Empty(t, sums)
	require.Empty(t, f.OtherSums())

	f = mustOpen(t, file, &pytorch.Options{Lenient: true})
	sums, whole = f.Sums(0)
	require.False(t, whole)
	require.Empty(t, sums)
	require.Empty(t, f.OtherSums())
}
