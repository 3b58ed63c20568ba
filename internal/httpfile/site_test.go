package httpfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A site is a server of one file. Request i, from 0, gets its answer from
// faults[i] if there is one, else a right one.
type site struct {
	*httptest.Server
	data   []byte
	etag   string
	faults map[int]http.HandlerFunc
	always http.HandlerFunc // in place of right answers

	mu   sync.Mutex
	seen []*http.Request
}

func newSite(t testing.TB, size int) *site {
	s := &site{data: noise(size), etag: `"v1"`, faults: map[int]http.HandlerFunc{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// noise is the same bytes for the same size.
func noise(size int) []byte {
	p := make([]byte, size)
	rng := rand.NewChaCha8([32]byte{byte(size)})
	rng.Read(p)
	return p
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer := s.faults[len(s.seen)]
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case s.always != nil:
		s.always(w, r)
	default:
		s.right(w, r)
	}
}

// right is the server of the standard library.
func (s *site) right(w http.ResponseWriter, r *http.Request) {
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.data))
}

// asked is the range of a request, cut at the end of the file.
func (s *site) asked(r *http.Request) (from, to int) {
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	return from, min(to+1, len(s.data))
}

// head sends the header of a right answer, changed by pairs of names and values.
func (s *site) head(w http.ResponseWriter, r *http.Request, changes ...string) []byte {
	from, to := s.asked(r)
	h := w.Header()
	h.Set("ETag", s.etag)
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(s.data)))
	h.Set("Content-Length", strconv.Itoa(to-from))
	for i := 0; i < len(changes); i += 2 {
		h.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			h.Del(changes[i])
		}
	}
	w.WriteHeader(http.StatusPartialContent)
	return s.data[from:to]
}

// changed answers rightly but for some of the header.
func (s *site) changed(changes ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.Write(s.head(w, r, changes...)) }
}

// cut ends the connection after k bytes of the body.
func (s *site) cut(k int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := s.head(w, r)
		w.Write(body[:min(k, len(body))])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// status answers with a status and pairs of names and values.
func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, "not the file")
	}
}

// ranges are those of the requests up to now.
func (s *site) ranges() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		all = append(all, strings.TrimPrefix(r.Header.Get("Range"), "bytes="))
	}
	return all
}

// A testClock does not wait, and its alarms go off when they are told to.
type testClock struct {
	mu     sync.Mutex
	waits  []time.Duration
	onWait func()
	alarms map[*testAlarm]bool
	resets int // and alarms that were made
}

type testAlarm struct {
	c *testClock
	f func()
}

var testNow = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func (c *testClock) timing() timing {
	return timing{func() time.Time { return testNow }, c.wait, c.alarm}
}

func (c *testClock) wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.waits = append(c.waits, d)
	c.mu.Unlock()
	if c.onWait != nil {
		c.onWait()
	}
	return ctx.Err()
}

func (c *testClock) alarm(_ time.Duration, f func()) alarm {
	a := &testAlarm{c, f}
	a.Reset(0)
	return a
}

// ring sets off all alarms that are not stopped.
func (c *testClock) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.alarms {
		a.f()
	}
	c.alarms = nil
}

func (a *testAlarm) Reset(time.Duration) bool {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.c.alarms == nil {
		a.c.alarms = map[*testAlarm]bool{}
	}
	a.c.alarms[a] = true
	a.c.resets++
	return true
}

func (a *testAlarm) Stop() bool {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	delete(a.c.alarms, a)
	return true
}

func openURL(t testing.TB, url string, opts *Options) (*File, *testClock, error) {
	clock := &testClock{}
	f, err := open(context.Background(), url, opts, clock.timing())
	if err == nil {
		t.Cleanup(func() { f.Close() })
	}
	return f, clock, err
}

func (s *site) open(t testing.TB, opts *Options) (*File, *testClock) {
	f, clock, err := openURL(t, s.URL+"/dir/file", opts)
	require.NoError(t, err)
	return f, clock
}

// checkRead reads a range and compares it.
func (s *site) checkRead(t testing.TB, f *File, off, n int) {
	t.Helper()
	p := make([]byte, n)
	got, err := f.ReadAt(p, int64(off))
	require.NoError(t, err)
	require.Equal(t, n, got)
	require.True(t, bytes.Equal(s.data[off:off+n], p), "bytes %d-%d", off, off+n-1)
}
