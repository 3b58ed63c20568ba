package demi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/valuehash"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mixture has tensors of every kind of size and type.
func mixture() *mem {
	m := &mem{meta: tensor.Metadata{{Key: "format", Value: "pt"}, {Key: "note", Value: "ü"}}}
	m.f32("weights", weights(300_001, 3)...)
	m.f32("tile", weights(1<<16, 4)...).f32("tile+1", weights(1<<16+1, 5)...).f32("one", 0.1)
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, 65520, 1e-8, 1e-40}
	m.f32("special", special...)
	m.f64("double", 0.1, math.MaxFloat64, 5e-324, math.NaN(), 1)
	m.zeros("empty", tensor.F32, 0, 7).zeros("scalar", tensor.F32).zeros("int", tensor.I32, 100_000).zeros("bool", tensor.Bool, 3)
	m.add(memTensor{"bf16", tensor.BF16, []int64{3}, []byte{1, 0, 0x80, 0x7f, 0x81, 0x7f}})
	return m
}

// TestSameBytesEverywhere varies all that must not matter: workers, memory,
// the tier of the processor, the way of writing.
func TestSameBytesEverywhere(t *testing.T) {
	m := mixture()
	for _, o := range []demi.Options{
		{}, {Target: demi.To(tensor.BF16), Pure: true}, {Target: demi.To(tensor.F16), Rounding: kernels.Stochastic, Seed: 7, Pure: true},
		{Target: demi.To(tensor.F32), Pure: true}, {Target: demi.To(tensor.F64), Pure: true},
		{Target: demi.Keep, Format: demi.Demi}, {Target: demi.To(tensor.BF16), Pure: true, Format: demi.Demi},
	} {
		want, records, err := convert(t, m.checkpoint(), o, &demi.RunOptions{Workers: 1})
		require.NoError(t, err)
		for _, workers := range []int{2, 8} {
			for _, tier := range cpu.Tiers() {
				require.NoError(t, cpu.Limit(tier))
				got, again, err := convert(t, m.checkpoint(), o, &demi.RunOptions{Workers: workers, MaxMemory: 16 << 20})
				cpu.Limit("")
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), "%v workers, %s", workers, tier)
				require.Equal(t, records, again)
			}
		}
		c := m.checkpoint()
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		require.NoError(t, p.Decide(context.Background(), c, nil))
		path := filepath.Join(t.TempDir(), "out."+string(p.Options.Format))
		sink, err := demi.Create(path, p, c, nil)
		require.NoError(t, err)
		require.Equal(t, p.Options.Format == demi.Demi, sink.Ordered())
		again, err := demi.Convert(context.Background(), c, sink, p, nil)
		require.NoError(t, err)
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, file), "at random places")
		require.Equal(t, records, again)
		require.Equal(t, []string{filepath.Base(path)}, names(t, filepath.Dir(path)))
	}
}

// TestKeepIsIdentical proves that the same type in and out is the same bytes,
// NaN payloads and all.
func TestKeepIsIdentical(t *testing.T) {
	m := mixture()
	for _, o := range []demi.Options{{Target: demi.Keep}, {Target: demi.To(tensor.BF16), Pure: true}} {
		out, records := mustConvert(t, m.checkpoint(), o)
		before, after := values(t, m), values(t, parse(t, out))
		for _, r := range records {
			if r.From == r.To {
				require.Equal(t, before[r.Name], after[r.Name], r.Name)
				require.Nil(t, r.Stats)
				require.Empty(t, r.Rounding)
			}
		}
	}
}

// TestRecords checks the hash against its definition and the figures against
// those of a comparison of source and output.
func TestRecords(t *testing.T) {
	m := mixture()
	for _, to := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32, tensor.F64} {
		file, records := mustConvert(t, m.checkpoint(), demi.Options{Target: demi.To(to), Pure: true})
		out := parse(t, file)
		data := values(t, out)
		compared, problems, err := verify.Compare(context.Background(), m, out, nil)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.Len(t, records, len(out.Tensors()))
		for i, in := range out.Tensors() {
			r := records[i]
			require.Equal(t, in.Name, r.Name)
			require.Equal(t, in.TypeName(), r.To)
			root := valuehash.NewRoot(in.TypeName(), in.Shape, in.Size)
			root.Add(valuehash.AppendLeaves(nil, data[in.Name]))
			require.Equal(t, tensor.Hash(root.Sum()), r.Hash, in.Name)
			if r.Stats != nil {
				require.Equal(t, compared[i].Stats, r.Stats, in.Name)
				require.Equal(t, in.Elements(), r.Stats.Count)
			}
		}
	}
}

func TestRecordsTellTheRounding(t *testing.T) {
	m := new(mem).f32("w", 1).zeros("h", tensor.F16, 2)
	_, records := mustConvert(t, m.checkpoint(), demi.Options{
		Target: demi.To(tensor.BF16), Rounding: kernels.Stochastic, Seed: 9, Flush: true, Pure: true, Overflow: demi.OverflowSaturate,
	})
	for _, r := range records {
		require.Equal(t, "stochastic", r.Rounding)
		require.Equal(t, "saturate", r.Overflow)
		require.True(t, r.Flush)
		require.EqualValues(t, 9, r.Seed)
	}
	_, records = mustConvert(t, m.checkpoint(), demi.Options{Target: demi.To(tensor.F64), Pure: true})
	for _, r := range records {
		require.Empty(t, r.Rounding, "widening rounds nothing")
	}
}

func TestMemoryLimit(t *testing.T) {
	m := new(mem).f32("w", weights(1<<20, 1)...)
	o := demi.Options{Target: demi.To(tensor.BF16)}
	_, _, err := convert(t, m.checkpoint(), o, &demi.RunOptions{MaxMemory: 100_000})
	require.ErrorIs(t, err, tensor.ErrLimit)
	require.ErrorContains(t, err, "100000")
	_, _, err = convert(t, m.checkpoint(), o, &demi.RunOptions{MaxMemory: 1 << 20})
	require.NoError(t, err)
}

// TestHeadersCount: what many tensors take is part of the limit, wherever there
// is one.
func TestHeadersCount(t *testing.T) {
	m := new(mem)
	for i := range 10_000 {
		m.zeros(fmt.Sprint(i), tensor.F32, 1)
	}
	c, ctx := m.checkpoint(), context.Background()
	headers := c.HeaderMemory()
	require.Greater(t, headers, int64(10<<20))
	for _, limit := range []int64{1 << 20, headers} {
		low, says := &demi.RunOptions{MaxMemory: limit}, fmt.Sprintf("the headers take about %d", headers)
		_, err := demi.Scan(ctx, c, low)
		require.ErrorIs(t, err, tensor.ErrLimit)
		require.ErrorContains(t, err, says)
		_, err = demi.Hashes(ctx, c, low)
		require.ErrorContains(t, err, says)
		_, err = low.Buffers(c)
		require.ErrorContains(t, err, says)
		for _, o := range []demi.Options{{}, {Target: demi.Keep}} {
			_, _, err = convert(t, c, o, low)
			require.ErrorContains(t, err, says)
		}
	}
	enough := &demi.RunOptions{MaxMemory: headers + 1<<20}
	_, _, err := convert(t, c, demi.Options{}, enough)
	require.NoError(t, err)
	left, err := enough.Buffers(c)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, left)
	left, err = new(demi.RunOptions).Buffers(c)
	require.NoError(t, err)
	require.Zero(t, left, "no limit")
}

// failing is a Sink that fails after some writes.
type failing struct {
	tensor.Sink
	left    int
	aborted int
}

var errDisk = errors.New("disk is full")

func (s *failing) Write(i int, off int64, p []byte) error {
	if s.left--; s.left < 0 {
		return errDisk
	}
	return s.Sink.Write(i, off, p)
}

func (s *failing) Abort() {
	s.aborted++
	s.Sink.Abort()
}

func TestErrorsAbortTheSink(t *testing.T) {
	c := mixture().checkpoint()
	p, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16)})
	require.NoError(t, err)
	run := func(sink tensor.Sink, ctx context.Context, left int) error {
		s := &failing{sink, left, 0}
		_, err := demi.Convert(ctx, c, s, p, &demi.RunOptions{Workers: 1})
		require.Equal(t, 1, s.aborted)
		return err
	}
	dir := t.TempDir()
	file := func() tensor.Sink {
		s, err := demi.Create(filepath.Join(dir, "out.safetensors"), p, c, nil)
		require.NoError(t, err)
		return s
	}
	for left := range 5 {
		require.ErrorIs(t, run(file(), context.Background(), left), errDisk)
		require.ErrorIs(t, run(demi.NewWriter(io.Discard, p, c, nil), context.Background(), left), errDisk)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, run(file(), stopped, 1000), context.Canceled)
	require.Empty(t, names(t, dir), "nothing is left behind")
}

// shrinking is a Source whose data end too soon.
type shrinking struct{ *mem }

func (s shrinking) Data(i int) io.ReaderAt {
	b := s.tensors[i].data
	return bytes.NewReader(b[:len(b)/2])
}

func TestReadErrorsNameThePlace(t *testing.T) {
	c := demi.FromSource(shrinking{new(mem).f32("w", weights(100_000, 1)...)}, demi.Safetensors)
	_, _, err := convert(t, c, demi.Options{Target: demi.To(tensor.BF16)}, nil)
	var place *tensor.FileError
	require.ErrorAs(t, err, &place)
	require.ErrorIs(t, err, tensor.ErrTruncated)
	require.Equal(t, tensor.FileError{File: "memory", Tensor: "w", Offset: 0, Err: place.Err}, *place)
}

func TestProgressAddsUp(t *testing.T) {
	c := mixture().checkpoint()
	var last demi.Progress
	_, _, err := convert(t, c, demi.Options{}, &demi.RunOptions{Progress: func(p demi.Progress) {
		require.Greater(t, p.Done, last.Done*int64(b2i(p.Phase == last.Phase)))
		require.LessOrEqual(t, p.Done, p.Total)
		last = p
	}})
	require.NoError(t, err)
	require.Equal(t, "convert", last.Phase)
	require.Equal(t, last.Total, last.Done)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// BenchmarkConvert converts tensors in memory to a writer that forgets: the
// pipeline without a disk.
func BenchmarkConvert(b *testing.B) {
	m := new(mem).f32("w", weights(1<<24, 1)...)
	for _, to := range []tensor.DType{tensor.BF16, tensor.F16} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("to=%v/workers=%d", to, workers), func(b *testing.B) {
				c := m.checkpoint()
				p, err := demi.NewPlan(c, demi.Options{Target: demi.To(to)})
				require.NoError(b, err)
				b.SetBytes(4 << 24)
				for b.Loop() {
					_, err := demi.Convert(context.Background(), c, discard{}, p, &demi.RunOptions{Workers: workers})
					require.NoError(b, err)
				}
			})
		}
	}
}

type discard struct{}

func (discard) Begin([]tensor.Info, tensor.Metadata) error { return nil }
func (discard) Write(int, int64, []byte) error             { return nil }
func (discard) Ordered() bool                              { return false }
func (discard) Finish([]tensor.Record) error               { return nil }
func (discard) Abort()                                     {}
