package httpfile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// answers are all that a server of the tests does: right, passing, and wrong.
func (s *site) answers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"right":          s.right,
		"right, chunked": s.chunked(0),
		"503":            status(503),
		"429":            status(429, "Retry-After", "1"),
		"cut at 0":       s.cut(0),
		"cut at 1":       s.cut(1),
		"cut at 40":      s.cut(40),
		"cut at 1000":    s.cut(1000),
		"no answer":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"elsewhere":      http.RedirectHandler("/other", http.StatusFound).ServeHTTP,

		"404":          status(404),
		"other range":  s.changed("Content-Range", "bytes 1-2/3000"),
		"other length": s.changed("Content-Length", "7"),
		"longer":       s.chunked(3),
		"changed":      s.changed("ETag", `"v2"`),
		"gzip":         s.changed("Content-Encoding", "gzip"),
		"whole":        func(w http.ResponseWriter, _ *http.Request) { w.Write(s.data) },
	}
}

var passing = []string{"right", "right, chunked", "503", "429", "cut at 0", "cut at 1", "cut at 40", "cut at 1000", "no answer", "elsewhere"}

// TestAnySequence: reads of any ranges, from a server that does anything, by
// several goroutines, are the bytes of the file up to an error; and without an
// error if what the server does passes.
func TestAnySequence(t *testing.T) {
	s := newSite(t, 3000)
	client := s.Client() // its connections are kept from one check to the next
	answers := s.answers()
	all := append([]string{"404", "other range", "other length", "longer", "changed", "gzip", "whole"}, passing...)
	rapid.Check(t, func(t *rapid.T) {
		hostile := rapid.Bool().Draw(t, "hostile")
		from := passing
		if hostile {
			from = all
		}
		faults := map[int]http.HandlerFunc{}
		for i, name := range rapid.SliceOfN(rapid.SampledFrom(from), 0, 20).Draw(t, "answers") {
			faults[i] = answers[name]
		}
		s.mu.Lock() // no drawing under a lock: it may panic
		s.seen, s.faults = nil, faults
		s.mu.Unlock()
		opts := &Options{Client: client, Retries: 30, BlockSize: rapid.SampledFrom([]int{1, 16, 64, 5000}).Draw(t, "block"), MaxParallel: 2}
		f, err := open(context.Background(), s.URL, opts, (&testClock{}).timing())
		if err != nil {
			if !hostile {
				t.Fatal(err)
			}
			return
		}
		defer f.Close()
		span := rapid.Custom(func(t *rapid.T) [2]int {
			return [2]int{rapid.IntRange(0, 3100).Draw(t, "off"), rapid.IntRange(0, 1200).Draw(t, "len")}
		})
		readers := rapid.SliceOfN(rapid.SliceOfN(span, 0, 10), 1, 3).Draw(t, "reads")
		errs := make([]error, len(readers))
		var wg sync.WaitGroup
		for i, reads := range readers {
			wg.Go(func() {
				for _, r := range reads {
					errs[i] = errors.Join(errs[i], s.checkAny(f, r[0], r[1], hostile))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	})
}

// checkAny reads a range that may end beyond the file, and says what is wrong
// with the result.
func (s *site) checkAny(f *File, off, n int, mayFail bool) error {
	p := make([]byte, n)
	got, err := f.ReadAt(p, int64(off))
	want := s.data[min(off, len(s.data)):min(off+n, len(s.data))]
	if got > len(want) || !bytes.Equal(p[:got], want[:got]) {
		return errors.New("wrong bytes")
	}
	switch {
	case err == nil && got == n, err == io.EOF && got == len(want) && got < n:
		return nil
	case err == nil || errors.Is(err, io.EOF) || !mayFail:
		return errors.Join(errors.New("wrong result"), err)
	}
	return nil
}
