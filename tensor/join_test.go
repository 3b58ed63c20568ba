package tensor_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
)

// shard is a Source of strings.
type shard struct {
	file   string
	names  []string
	meta   tensor.Metadata
	closed bool
	err    error // of Close
}

func (s *shard) Tensors() (infos []tensor.Info) {
	for _, name := range s.names {
		infos = append(infos, tensor.Info{Name: name, DType: tensor.U8, Shape: []int64{int64(len(name))}, Size: int64(len(name))})
	}
	return infos
}
func (s *shard) Data(i int) io.ReaderAt      { return strings.NewReader(s.names[i]) }
func (s *shard) Meta() tensor.Metadata       { return s.meta }
func (s *shard) Place(i int) (string, int64) { return s.file, int64(i) }
func (s *shard) Close() error                { s.closed = true; return s.err }

func meta(pairs ...string) (m tensor.Metadata) {
	for i := 0; i < len(pairs); i += 2 {
		m = append(m, tensor.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return m
}

func TestJoin(t *testing.T) {
	a := &shard{file: "a", names: []string{"x", "y"}, meta: meta("k", "1", "format", "pt")}
	empty := &shard{file: "empty", err: errors.New("cannot close")}
	b := &shard{file: "b", names: []string{"z"}, meta: meta("k", "2", "l", "3")}
	j, err := tensor.Join([]tensor.Source{a, empty, b, empty})
	require.NoError(t, err)
	var seen []string
	for i, in := range j.Tensors() {
		p := make([]byte, in.Size)
		_, err := j.Data(i).ReadAt(p, 0)
		require.NoError(t, err)
		file, off := j.Place(i)
		seen = append(seen, fmt.Sprintf("%s=%s in %s at %d", in.Name, p, file, off))
	}
	require.Equal(t, []string{"x=x in a at 0", "y=y in a at 1", "z=z in b at 0"}, seen)
	require.Equal(t, meta("k", "1", "format", "pt", "l", "3"), j.Meta(), "the first value stays")
	require.ErrorContains(t, j.Close(), "cannot close")
	require.True(t, a.closed && b.closed, "all are closed, whatever fails")
}

func TestJoinRefuses(t *testing.T) {
	a, b := &shard{file: "a", names: []string{"x", "w"}}, &shard{file: "b", names: []string{"y", "w"}}
	_, err := tensor.Join([]tensor.Source{a, b})
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.EqualError(t, err, `b: tensor "w": byte 1: invalid file: duplicate tensor name "w": it is also in a`)
	require.False(t, a.closed || b.closed, "they are the caller's")

	none, err := tensor.Join(nil)
	require.NoError(t, err)
	require.Empty(t, none.Tensors())
	require.Empty(t, none.Meta())
	require.NoError(t, none.Close())
}

func TestFileError(t *testing.T) {
	for want, e := range map[string]*tensor.FileError{
		`m: tensor "a": byte 0: no`: {File: "m", Tensor: "a", Err: errors.New("no")},
		`tensor "a": no`:            {Tensor: "a", Offset: -1, Err: errors.New("no")},
		`m: no`:                     {File: "m", Offset: -1, Err: errors.New("no")},
	} {
		require.EqualError(t, e, want)
	}
	require.ErrorIs(t, &tensor.FileError{Err: fmt.Errorf("%w: x", tensor.ErrLimit)}, tensor.ErrLimit)
}

// short is a Source whose data end too soon, or cannot be read.
type short struct {
	shard
	err error
}

func (s *short) Data(int) io.ReaderAt { return s }

func (s *short) ReadAt(p []byte, _ int64) (int, error) {
	n := copy(p, "abc")
	if n < len(p) {
		return n, s.err
	}
	return n, nil
}

func TestReadFull(t *testing.T) {
	p := make([]byte, 3)
	require.NoError(t, tensor.ReadFull(&shard{file: "m", names: []string{"", "xyz"}}, 1, p, 0))
	require.Equal(t, "xyz", string(p))
	for _, end := range []error{nil, io.EOF, io.ErrUnexpectedEOF} {
		s := &short{shard{file: "m", names: []string{"", "w"}}, end}
		err := tensor.ReadFull(s, 1, make([]byte, 4), 8)
		require.ErrorIs(t, err, tensor.ErrTruncated)
		require.EqualError(t, err, `m: tensor "w": byte 9: file is truncated: 3 of 4 bytes are there`)
		require.NoError(t, tensor.ReadFull(s, 1, p, 0))
	}
	disk := errors.New("input/output error")
	err := tensor.ReadFull(&short{shard{file: "m", names: []string{"w"}}, disk}, 0, make([]byte, 4), 0)
	require.ErrorIs(t, err, disk)
	require.NotErrorIs(t, err, tensor.ErrTruncated)
}
