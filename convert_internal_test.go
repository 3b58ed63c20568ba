package demi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// A late source has two tensors of four bytes, the sum of the first of which is
// wrong, and takes its time to say so.
type late struct{ wait chan struct{} }

func (s late) Tensors() []tensor.Info {
	in := tensor.Info{Name: "a", DType: tensor.F32, Shape: []int64{1}, Size: 4}
	b := in
	b.Name = "b"
	return []tensor.Info{in, b}
}
func (late) Data(int) io.ReaderAt      { return bytes.NewReader(make([]byte, 4)) }
func (late) Meta() tensor.Metadata     { return nil }
func (late) Place(int) (string, int64) { return "late", 0 }
func (late) Close() error              { return nil }
func (late) OtherSums() []tensor.Sum   { return nil }
func (late) Compare(crc uint32) error  { return nil }
func (s late) Read(context.Context) error {
	<-s.wait
	return fmt.Errorf("%w: the sum is wrong", tensor.ErrFormat)
}
func (s late) Sums(i int) ([]tensor.Sum, bool) {
	if i == 0 {
		return []tensor.Sum{s}, false
	}
	return nil, false
}

// A watcher is a Sink that keeps what is completed for a next run.
type watcher struct {
	tensor.Sink
	completes []int
}

func (w *watcher) resume(context.Context, []tensor.Info, tensor.Metadata, int) (map[int]tensor.Record, error) {
	return nil, nil
}
func (w *watcher) completed(i int, _ []tensor.Record) { w.completes = append(w.completes, i) }

// TestLateSum: a tensor is not completed, so that the next run would not read it,
// before its checksum is compared, even where that takes longer than the rest.
func TestLateSum(t *testing.T) {
	src := late{make(chan struct{})}
	c := FromSource(src, Safetensors)
	p, err := NewPlan(c, Options{Target: Keep})
	require.NoError(t, err)
	w := &watcher{Sink: NewWriter(io.Discard, p, c, nil)}
	_, err = Convert(t.Context(), c, w, p, &RunOptions{Progress: func(p Progress) {
		if p.Tensor == "b" {
			close(src.wait)
		}
	}})
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.ErrorContains(t, err, "the sum is wrong")
	require.Empty(t, w.completes)
}
