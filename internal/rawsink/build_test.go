package rawsink_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/internal/rawsink"
	"github.com/demi-weights/demi/tensor"
)

// A model is tensors of bytes, "a" and "b" and so on, each of which begins at
// a multiple of align.
type model struct {
	align int64
	data  []string
}

func modelOf(align int64, data ...string) *model { return &model{align, data} }

// two has padding before, between and behind its tensors, one of which is
// empty.
func two() *model { return modelOf(8, "abcdefghij", "", "klm") }

func (m *model) infos() (infos []tensor.Info) {
	for i, data := range m.data {
		infos = append(infos, tensor.Info{Name: string(rune('a' + i)), Size: int64(len(data))})
	}
	return infos
}

const header = "header"

// plan lays out the tensors that it is given.
func (m *model) plan(_ string, infos []tensor.Info, _ tensor.Metadata) (*rawsink.Layout, error) {
	up := func(n int64) int64 { return (n + m.align - 1) / m.align * m.align }
	starts := make([]int64, len(infos))
	next := up(int64(len(header)))
	for i := range infos {
		starts[i] = next
		next = up(next + infos[i].Size)
	}
	return rawsink.NewLayout([]byte(header), next, starts, infos), nil
}

// bytes is the file.
func (m *model) bytes(t require.TestingT) []byte {
	l, err := m.plan("", m.infos(), nil)
	require.NoError(t, err)
	p := make([]byte, l.Size)
	copy(p, header)
	for i, data := range m.data {
		copy(p[l.Starts[i]:], data)
	}
	return p
}

func (m *model) file(name string) tensor.Sink { return rawsink.NewFile("box", name, m.plan) }

func (m *model) stream(w io.Writer) tensor.Sink { return rawsink.NewStream("box", w, m.plan) }

// set has a file for each tensor, stem.0 and so on, of which the last one
// takes its place first.
func (m *model) set(stem string, last func() error) tensor.SetSink {
	return rawsink.NewSet("box", func(infos []tensor.Info, meta tensor.Metadata) (*rawsink.SetLayout, error) {
		set := &rawsink.SetLayout{Last: last}
		for i := range infos {
			l, err := m.plan("", infos[i:i+1], meta)
			if err != nil {
				return nil, err
			}
			set.Files = append(set.Files, rawsink.Shard{Name: shard(stem, i), Layout: l})
			set.Places = append(set.Places, rawsink.Place{File: i})
			set.Order = append([]int{i}, set.Order...)
		}
		return set, nil
	})
}

func shard(stem string, i int) string { return stem + "." + string(rune('0'+i)) }

// makers returns one function for each kind of sink.
func (m *model) makers(dir string) map[string]func() tensor.Sink {
	return map[string]func() tensor.Sink{
		"file":   func() tensor.Sink { return m.file(filepath.Join(dir, "file")) },
		"stream": func() tensor.Sink { return m.stream(io.Discard) },
		"set":    func() tensor.Sink { return m.set(filepath.Join(dir, "set"), nil) },
	}
}

// write gives everything to a sink, in pieces of step bytes; one that is not
// ordered gets them in a random order from several goroutines.
func (m *model) write(s tensor.Sink, step int) error {
	if err := s.Begin(m.infos(), nil); err != nil {
		return err
	}
	type piece struct{ i, from, to int }
	var pieces []piece
	for i, data := range m.data {
		for from := 0; from < len(data); from += step {
			pieces = append(pieces, piece{i, from, min(from+step, len(data))})
		}
	}
	errs := make([]error, 1)
	if !s.Ordered() {
		errs = make([]error, 3)
		rand.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
	}
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for k := w; k < len(pieces) && errs[w] == nil; k += len(errs) {
				p := pieces[k]
				errs[w] = s.Write(p.i, int64(p.from), []byte(m.data[p.i][p.from:p.to]))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.Finish(nil)
}

func requireFile(t require.TestingT, name string, want []byte) {
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%q, want %q", got, want)
}

func entries(t testing.TB, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
