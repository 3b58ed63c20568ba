package rawsink_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/tensor"
)

// TestSameBytes: all sinks write the same bytes, padding too.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(rapid.SampledFrom([]int64{1, 8, 32}).Draw(t, "align"), rapid.SliceOfN(rapid.StringN(0, 40, 40), 0, 6).Draw(t, "data")...)
		step := rapid.IntRange(1, 50).Draw(t, "step")
		name := filepath.Join(dir, "m")
		require.NoError(t, m.write(m.file(name), step))
		requireFile(t, name, m.bytes(t))
		var out bytes.Buffer
		require.NoError(t, m.write(m.stream(&out), step))
		requireFile(t, name, out.Bytes())
		require.NoError(t, m.write(m.set(name, nil), step))
		for i, data := range m.data {
			requireFile(t, shard(name, i), modelOf(m.align, data).bytes(t))
		}
	})
}

// TestFileCounts: what a file lacks is said by name, and may come then.
func TestFileCounts(t *testing.T) {
	dir := t.TempDir()
	m, name := modelOf(8, "abcdefgh", "", "ijkl"), filepath.Join(dir, "m")
	sink := m.file(name)
	defer sink.Abort()
	require.NoError(t, sink.Begin(m.infos(), nil))
	require.NoError(t, sink.Write(0, 4, []byte("efgh")))
	require.ErrorContains(t, sink.Write(0, 2, []byte("cde")), "byte 4 has come before")
	require.ErrorContains(t, sink.Write(0, 4, []byte("e")), "byte 4 has come before")
	require.ErrorContains(t, sink.Write(0, 7, []byte("h")), "byte 7 has come before")
	require.ErrorContains(t, sink.Write(0, 7, []byte("hi")), name+`: tensor "a": write of 2 bytes at 7 of a tensor of 8 bytes`)
	require.Error(t, sink.Write(0, 9, nil))
	require.Error(t, sink.Write(1, 0, []byte("x")), "a tensor without data")
	require.ErrorContains(t, sink.Write(3, 0, nil), name+": write to tensor 3 of 3")
	require.NoError(t, sink.Write(1, 0, nil))
	requireLacks(t, sink, name, `tensor "a": byte 0 of 8 has not been written`)
	require.NoError(t, sink.Write(0, 0, []byte("abc")))
	requireLacks(t, sink, name, `tensor "a": byte 3 of 8 has not been written`)
	require.NoError(t, sink.Write(0, 3, []byte("d")))
	requireLacks(t, sink, name, `tensor "c": byte 0 of 4 has not been written`)
	require.NoError(t, sink.Write(2, 0, []byte("ijkl")))
	require.NoError(t, sink.Finish(nil))
	sink.Abort()
	requireFile(t, name, m.bytes(t))
	require.Equal(t, []string{"m"}, entries(t, dir))
}

func requireLacks(t *testing.T, sink tensor.Sink, file, want string) {
	t.Helper()
	err := sink.Finish(nil)
	var place *tensor.FileError
	require.True(t, errors.As(err, &place), "%v", err)
	require.Equal(t, file, place.File)
	require.ErrorContains(t, err, want)
}

// TestEveryByteOnce: no sink takes bytes that are missing, come twice or lie
// outside.
func TestEveryByteOnce(t *testing.T) {
	p := make([]byte, 100)
	type write struct {
		i   int
		off int64
		n   int
	}
	good := []write{{0, 0, 5}, {0, 5, 5}, {2, 0, 3}}
	bad := map[string][]write{
		"missing at the end":    {{0, 0, 10}, {2, 0, 2}},
		"missing at the start":  {{0, 1, 9}, {2, 0, 3}},
		"missing in the middle": {{0, 0, 4}, {0, 5, 5}, {2, 0, 3}},
		"missing tensor":        {{0, 0, 10}},
		"nothing at all":        {},
		"twice":                 {{0, 0, 5}, {0, 0, 5}, {0, 5, 5}, {2, 0, 3}},
		"twice at the end":      {{0, 0, 10}, {2, 0, 3}, {2, 2, 1}},
		"overlap":               {{0, 0, 5}, {0, 4, 6}, {2, 0, 3}},
		"beyond":                {{0, 0, 11}},
		"far beyond":            {{0, math.MaxInt64, 1}},
		"before":                {{0, -1, 1}},
		"in an empty one":       {{1, 0, 1}},
		"no such tensor":        {{3, 0, 1}},
		"negative tensor":       {{-1, 0, 1}},
	}
	dir := t.TempDir()
	m := two()
	run := func(s tensor.Sink, list []write) error {
		defer s.Abort()
		require.NoError(t, s.Begin(m.infos(), nil))
		for _, w := range list {
			if err := s.Write(w.i, w.off, p[:w.n]); err != nil {
				return err
			}
		}
		return s.Finish(nil)
	}
	backwards := []write{good[2], good[1], good[0]}
	for kind, sink := range m.makers(dir) {
		for name, list := range bad {
			require.Error(t, run(sink(), list), "%s: %s", kind, name)
		}
		require.Empty(t, entries(t, dir), kind)
		if sink().Ordered() {
			require.ErrorContains(t, run(sink(), backwards), `tensor "c": byte 24: write out of order: byte 6 of the file comes next`)
			require.NoError(t, run(sink(), good))
			continue
		}
		require.NoError(t, run(sink(), backwards), kind)
		for _, name := range entries(t, dir) {
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
}

// TestBeforeAndAfter: calls at the wrong time. Abort leaves nothing, and
// nothing appears after it.
func TestBeforeAndAfter(t *testing.T) {
	m, dir := two(), t.TempDir()
	const early, again = "box: not begun, or ended", "box: Begin was called before"
	for kind, sink := range m.makers(dir) {
		s := sink()
		require.Equal(t, kind == "stream", s.Ordered())
		require.EqualError(t, s.Write(0, 0, []byte{1}), early, kind)
		require.EqualError(t, s.Finish(nil), early, kind)
		s.Abort()
		require.EqualError(t, s.Begin(m.infos(), nil), again, kind)
		require.EqualError(t, s.Write(0, 0, nil), early, kind)

		s = sink()
		require.NoError(t, s.Begin(m.infos(), nil))
		require.EqualError(t, s.Begin(m.infos(), nil), again, kind)
		require.NoError(t, s.Write(0, 0, []byte("abc")))
		s.Abort()
		s.Abort()
		require.Empty(t, entries(t, dir))
		require.EqualError(t, s.Write(0, 3, []byte("d")), early, kind)
		require.EqualError(t, s.Finish(nil), early, kind)
		require.EqualError(t, s.Begin(nil, nil), again, kind)

		s = sink()
		require.NoError(t, m.write(s, 8), kind)
		made := entries(t, dir)
		require.EqualError(t, s.Write(0, 0, []byte{1}), early, kind)
		require.EqualError(t, s.Finish(nil), early, kind)
		require.EqualError(t, s.Begin(m.infos(), nil), again, kind)
		s.Abort()
		require.Equal(t, made, entries(t, dir), "Abort after Finish does nothing")
		for _, name := range made {
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
}

// TestPlanRefuses: what Plan refuses leaves the sink as it was, and nothing is
// written.
func TestPlanRefuses(t *testing.T) {
	dir := t.TempDir()
	m, no := two(), errors.New("cannot hold")
	var out bytes.Buffer
	refuse := true
	plan := func(file string, infos []tensor.Info, meta tensor.Metadata) (*rawsink.Layout, error) {
		if refuse {
			return nil, &tensor.FileError{File: file, Offset: -1, Err: no}
		}
		return m.plan(file, infos, meta)
	}
	name := filepath.Join(dir, "m")
	file, stream := rawsink.NewFile("box", name, plan), rawsink.NewStream("box", &out, plan)
	require.EqualError(t, file.Begin(m.infos(), nil), name+": cannot hold")
	require.EqualError(t, stream.Begin(m.infos(), nil), "cannot hold")
	set := rawsink.NewSet("box", func([]tensor.Info, tensor.Metadata) (*rawsink.SetLayout, error) { return nil, no })
	require.ErrorIs(t, set.Begin(m.infos(), nil), no)
	require.ErrorIs(t, set.Begin(m.infos(), nil), no)
	require.Zero(t, out.Len())
	require.Empty(t, entries(t, dir))
	refuse = false
	require.NoError(t, m.write(file, 100))
	require.NoError(t, m.write(stream, 100))
	requireFile(t, name, out.Bytes())
}

// TestStreamCounts: what a stream lacks is said by name, and may come then.
func TestStreamCounts(t *testing.T) {
	var out bytes.Buffer
	m := modelOf(4, "ab", "", "cd")
	sink := m.stream(&out)
	require.NoError(t, sink.Begin(m.infos(), nil))
	require.ErrorContains(t, sink.Write(2, 0, []byte("x")), "out of order")
	requireLacks(t, sink, "", `tensor "a": byte 0 of 2 has not been written`)
	require.NoError(t, sink.Write(0, 0, []byte("a")))
	require.ErrorContains(t, sink.Write(0, 0, []byte("a")), `tensor "a": byte 8: write out of order: byte 9 of the file comes next`)
	requireLacks(t, sink, "", `tensor "a": byte 1 of 2 has not been written`)
	require.NoError(t, sink.Write(0, 1, []byte("b")))
	require.ErrorContains(t, sink.Write(2, 1, []byte("d")), "out of order")
	require.NoError(t, sink.Write(0, 0, nil), "no bytes have no order")
	requireLacks(t, sink, "", `tensor "c": byte 0 of 2 has not been written`)
	require.NoError(t, sink.Write(2, 0, []byte("cd")))
	require.NoError(t, sink.Finish(nil))
	require.Equal(t, m.bytes(t), out.Bytes())
}

// calls notes how many bytes come at once.
type calls []int

func (c *calls) Write(p []byte) (int, error) {
	*c = append(*c, len(p))
	return len(p), nil
}

// TestStreamCalls: a call has at most atomicfile.WriteSize bytes.
func TestStreamCalls(t *testing.T) {
	const most = atomicfile.WriteSize
	m := modelOf(2*most, "a", strings.Repeat("b", 2*most+1))
	var c calls
	require.NoError(t, m.write(m.stream(&c), 1<<30))
	require.Equal(t, calls{6, most, most - 6, 1, most, most - 1, most, most, 1, most, most - 1}, slices.DeleteFunc(c, func(n int) bool { return n == 0 }))
}

// failing is a writer that fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("no space")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriterFails: an error of the writer, at any byte, stays.
func TestWriterFails(t *testing.T) {
	m := two()
	size := len(m.bytes(t))
	for left := range size {
		sink := m.stream(&failing{left})
		require.ErrorIs(t, m.write(sink, 3), errFull, left)
		require.Error(t, sink.Begin(m.infos(), nil))
		require.ErrorIs(t, sink.Write(0, 0, []byte("x")), errFull)
		require.ErrorIs(t, sink.Finish(nil), errFull)
	}
	require.NoError(t, m.write(m.stream(&failing{size}), 3))
	require.ErrorContains(t, m.write(m.stream(short{}), 3), "short write")
}

type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) / 2, nil }

// TestNoDirectory: an error of the disk in Begin ends the sink.
func TestNoDirectory(t *testing.T) {
	m, dir := two(), t.TempDir()
	for kind, sink := range m.makers(filepath.Join(dir, "absent")) {
		if s := sink(); !s.Ordered() {
			require.ErrorIs(t, s.Begin(m.infos(), nil), os.ErrNotExist, kind)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "absent"), 0o700))
			require.ErrorContains(t, s.Begin(m.infos(), nil), "Begin was called before", kind)
			require.NoError(t, os.Remove(filepath.Join(dir, "absent")))
		}
	}
}

// TestAbortWhileWriting: Abort waits for writes and ends those to come;
// nothing is left behind.
func TestAbortWhileWriting(t *testing.T) {
	dir := t.TempDir()
	block := strings.Repeat("x", 4096)
	m := modelOf(64, block, block, block, block)
	for kind, sink := range m.makers(dir) {
		s := sink()
		if s.Ordered() {
			continue
		}
		require.NoError(t, s.Begin(m.infos(), nil))
		var wg sync.WaitGroup
		for w := range m.data {
			wg.Go(func() {
				for k := int64(0); k < 64 && s.Write(w, 64*k, make([]byte, 64)) == nil; k++ {
				}
			})
		}
		wg.Go(s.Abort)
		wg.Wait()
		require.Error(t, s.Finish(nil), kind)
		require.Empty(t, entries(t, dir), kind)
	}
}

// TestManyRuns: every byte is counted once in whatever order they come.
func TestManyRuns(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "size")
		m := modelOf(1, strings.Repeat("x", n))
		sink := m.file(filepath.Join(dir, "m"))
		defer sink.Abort()
		require.NoError(t, sink.Begin(m.infos(), nil))
		seen := make([]bool, n)
		for range 200 {
			off := rapid.IntRange(0, n-1).Draw(t, "off")
			k := rapid.IntRange(1, n-off).Draw(t, "n")
			free := !slices.Contains(seen[off:off+k], true)
			err := sink.Write(0, int64(off), make([]byte, k))
			require.Equal(t, free, err == nil, fmt.Sprint(seen, off, k, err))
			for i := off; free && i < off+k; i++ {
				seen[i] = true
			}
		}
		err := sink.Finish(nil)
		if first := slices.Index(seen, false); first >= 0 {
			require.ErrorContains(t, err, fmt.Sprintf("byte %d of %d has not been written", first, n))
		} else {
			require.NoError(t, err)
		}
	})
}

// TestSetOrder: files take their places in the order given and Last comes
// after them; if one of them cannot, those before it are gone again.
func TestSetOrder(t *testing.T) {
	m := modelOf(8, "a", "b", "c")
	failed := errors.New("no index")
	for _, c := range []struct {
		blocked []string // directories, the names of which no file takes
		last    error
		want    string
	}{
		{[]string{"m.0", "m.1", "m.2"}, failed, "m.2"},
		{[]string{"m.0", "m.1"}, failed, "m.1"},
		{[]string{"m.0"}, failed, "m.0"},
		{nil, failed, "no index"},
		{nil, nil, ""},
	} {
		dir := t.TempDir()
		for _, name := range c.blocked {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "x"), 0o700))
		}
		sink := m.set(filepath.Join(dir, "m"), func() error {
			require.Equal(t, []string{"m.0", "m.1", "m.2"}, entries(t, dir))
			return c.last
		})
		err := m.write(sink, 1)
		require.Error(t, sink.Write(0, 0, nil))
		require.Error(t, sink.Finish(nil))
		if c.want == "" {
			require.NoError(t, err)
			require.Len(t, entries(t, dir), 3)
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.blocked, entries(t, dir), "only what was there before")
	}
}

// TestSetIsWhole: no file takes its place before all are complete.
func TestSetIsWhole(t *testing.T) {
	dir := t.TempDir()
	m := modelOf(8, "a", "b", "c")
	sink := m.set(filepath.Join(dir, "m"), nil)
	require.NoError(t, sink.Begin(m.infos(), nil))
	require.EqualError(t, sink.Write(3, 0, nil), "box: write to tensor 3 of 3")
	for i := range m.data {
		requireLacks(t, sink, filepath.Join(dir, shard("m", i)), "byte 0 of 1 has not been written")
		for _, name := range entries(t, dir) {
			require.Contains(t, name, ".partial")
		}
		require.NoError(t, sink.Write(i, 0, []byte(m.data[i])))
	}
	require.NoError(t, sink.Finish(nil))
	require.Equal(t, []string{"m.0", "m.1", "m.2"}, entries(t, dir))
}

// TestSetInParts: files are finished while others are written, and another
// sink keeps them.
func TestSetInParts(t *testing.T) {
	dir := t.TempDir()
	m := modelOf(8, "abc", "defg", "h")
	sink := m.set(filepath.Join(dir, "m"), nil)
	files, err := sink.Files(m.infos(), nil)
	require.NoError(t, err)
	require.Equal(t, []tensor.SetFile{{Name: "m.0", From: 0, To: 1}, {Name: "m.1", From: 1, To: 2}, {Name: "m.2", From: 2, To: 3}}, files)
	require.Error(t, sink.FinishFile(1, nil), "before Begin")
	require.NoError(t, sink.Begin(m.infos(), nil))
	require.Error(t, sink.FinishFile(1, nil), "its bytes have not come")
	require.NoError(t, sink.Write(1, 0, []byte(m.data[1])))
	require.NoError(t, sink.FinishFile(1, nil))
	require.Error(t, sink.FinishFile(1, nil), "twice")
	require.FileExists(t, filepath.Join(dir, "m.1"))
	sink.Abort()
	require.Equal(t, []string{"m.1"}, entries(t, dir))

	sink = m.set(filepath.Join(dir, "m"), nil)
	_, err = sink.Files(m.infos(), nil)
	require.NoError(t, err)
	sink.Keep(1)
	require.NoError(t, sink.Begin(m.infos(), nil))
	require.Error(t, sink.Write(1, 0, []byte(m.data[1])), "it is there")
	require.NoError(t, sink.Write(0, 0, []byte(m.data[0])))
	require.Error(t, sink.Finish(nil), "the last one lacks bytes")
	require.NoError(t, sink.Write(2, 0, []byte(m.data[2])))
	require.NoError(t, sink.Finish(nil))
	require.Equal(t, []string{"m.0", "m.1", "m.2"}, entries(t, dir))
	requireFile(t, filepath.Join(dir, "m.1"), modelOf(8, "defg").bytes(t))
}

// TestOmit: of a set whose other files somebody else writes, one can be
// finished, and the set cannot.
func TestOmit(t *testing.T) {
	stem := filepath.Join(t.TempDir(), "set")
	m := modelOf(8, "abcdefgh", "ij", "klm")
	s := m.set(stem, nil)
	files, err := s.Files(m.infos(), nil)
	require.NoError(t, err)
	require.Len(t, files, 3)
	s.Omit(0)
	s.Omit(2)
	require.NoError(t, s.Begin(m.infos(), nil))
	require.Error(t, s.Write(0, 0, []byte("a")))
	require.NoError(t, s.Write(1, 0, []byte("ij")))
	require.ErrorContains(t, s.Finish(nil), "omitted")
	require.NoError(t, s.FinishFile(1, nil))
	s.Abort()
	require.Equal(t, []string{"set.1"}, entries(t, filepath.Dir(stem)))
	requireFile(t, shard(stem, 1), modelOf(8, "ij").bytes(t))
}
