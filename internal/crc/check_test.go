package crc_test

import (
	"context"
	"errors"
	"hash/crc32"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/crc"
	"github.com/demi-weights/demi/tensor"
)

// A run is bytes with a sum, and how often they were read for it.
type run struct {
	text  string
	crc   uint32
	reads atomic.Int32
	block chan struct{} // nil: none
}

var errWrong = errors.New("wrong")

func newRun(text string) *run { return &run{text: text, crc: crc32.ChecksumIEEE([]byte(text))} }

func (r *run) Compare(crc uint32) error {
	if crc != r.crc {
		return errWrong
	}
	return nil
}

func (r *run) Read(ctx context.Context) error {
	r.reads.Add(1)
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.Compare(crc32.ChecksumIEEE([]byte(r.text)))
}

// A source has tensors that lie in runs.
type source struct {
	tensor.Source
	of    [][]tensor.Sum
	whole []bool
	other []tensor.Sum
}

func (s *source) Tensors() (infos []tensor.Info) {
	for i := range s.of {
		infos = append(infos, tensor.Info{Size: int64(len(s.of[i][0].(*run).text))})
	}
	return infos
}
func (s *source) Sums(i int) ([]tensor.Sum, bool) { return s.of[i], s.whole[i] }
func (s *source) OtherSums() []tensor.Sum         { return s.other }

// pass hands tensors on in pieces of three bytes.
func pass(c *crc.Check, s *source, read []int) error {
	for k, i := range read {
		if i < 0 {
			continue
		}
		for text := s.of[i][0].(*run).text; text != ""; {
			p := text[:min(3, len(text))]
			text = text[len(p):]
			if err := c.Add(k, c.Of(k, []byte(p)), int64(len(p))); err != nil {
				return err
			}
		}
	}
	return nil
}

// A sample has runs a to e: a of two whole tensors, one of which comes in a
// view first; b of two views; c whole; d of a view that is not read, e of none.
func sample() (*source, map[string]*run) {
	runs := map[string]*run{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		runs[name] = newRun("some text of " + name)
	}
	s := &source{other: []tensor.Sum{runs["e"]}}
	for _, t := range []struct {
		run   string
		whole bool
	}{{"a", false}, {"a", true}, {"a", true}, {"b", false}, {"b", false}, {"c", true}, {"d", true}} {
		s.of, s.whole = append(s.of, []tensor.Sum{runs[t.run]}), append(s.whole, t.whole)
	}
	return s, runs
}

// TestCheck: each sum is compared once, and only what no whole tensor covers is
// read for it.
func TestCheck(t *testing.T) {
	read := []int{0, 5, 1, -1, 2, 3, 4, 5}
	for wrong, found := range map[string]bool{"": false, "a": true, "b": true, "c": true, "d": false, "e": true} {
		s, runs := sample()
		if wrong != "" {
			runs[wrong].crc++
		}
		c := crc.New(s, read)
		err := c.During(t.Context(), func() error { return pass(c, s, read) })
		if found {
			require.ErrorIs(t, err, errWrong, wrong)
		} else {
			require.NoError(t, err, wrong)
			require.NoError(t, c.Wait(0))
			require.NoError(t, c.Wait(5))
		}
		for name, most := range map[string]int32{"a": 0, "b": 1, "c": 0, "d": 0, "e": 1} {
			require.LessOrEqual(t, runs[name].reads.Load(), most, name)
			require.True(t, found || runs[name].reads.Load() == most, name)
		}
		if err := crc.All(t.Context(), s); wrong == "" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errWrong, wrong)
		}
	}
}

// TestWait: within the pass, a tensor has its sum compared before Wait returns,
// and one that needs none does not wait.
func TestWait(t *testing.T) {
	s, runs := sample()
	read := []int{3, 5}
	runs["b"].block = make(chan struct{})
	runs["b"].crc++
	c := crc.New(s, read)
	err := c.During(t.Context(), func() error {
		require.NoError(t, c.Wait(1))
		close(runs["b"].block)
		require.ErrorIs(t, c.Wait(0), errWrong)
		return nil
	})
	require.ErrorIs(t, err, errWrong)
}

// TestCancel: a pass that fails ends the reading beside it, and its error counts;
// so does the end of the context.
func TestCancel(t *testing.T) {
	s, runs := sample()
	runs["b"].block = make(chan struct{})
	c := crc.New(s, []int{3})
	failed := errors.New("failed")
	require.ErrorIs(t, c.During(t.Context(), func() error { return failed }), failed)

	ctx, cancel := context.WithCancel(t.Context())
	c = crc.New(s, []int{3})
	require.ErrorIs(t, c.During(ctx, func() error { cancel(); return nil }), context.Canceled)
}

// TestNone: what has no sums costs nothing.
func TestNone(t *testing.T) {
	type plain struct{ tensor.Source }
	c := crc.New(plain{}, []int{0})
	require.Nil(t, c)
	require.Zero(t, c.Of(0, []byte("x")))
	require.NoError(t, c.Add(0, 1, 1))
	require.NoError(t, c.Wait(0))
	called := false
	require.NoError(t, c.During(t.Context(), func() error { called = true; return nil }))
	require.True(t, called)
}
