package httpfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Answers that are not the bytes that were asked for are refused at once, on
// Open and later.
func TestWrongAnswers(t *testing.T) {
	const size = 2*largeLen + 100
	for _, c := range []struct {
		name   string
		header []string // of the wrong answer
		first  string   // what the error on Open has, "" if that is a right one
		later  string   // what the error on a read of a MiB from byte 100 has
	}{
		{"no Content-Range", []string{"Content-Range", ""}, "0 Content-Range", "0 Content-Range"},
		{"multipart", []string{"Content-Range", "", "Content-Type", "multipart/byteranges"}, "multipart", "multipart"},
		{"other unit", []string{"Content-Range", "lines 0-65535/2097252"}, "lines 0", "lines 0"},
		{"no size", []string{"Content-Range", "bytes 0-65535/*"}, "/*", "/*"},
		{"no range", []string{"Content-Range", "bytes */2097252"}, "*/", "*/"},
		{"signs", []string{"Content-Range", "bytes +0-65535/2097252"}, "+0", "+0"},
		{"backwards", []string{"Content-Range", "bytes 9-8/2097252"}, "9-8", "9-8"},
		{"beyond the end", []string{"Content-Range", "bytes 0-65535/65535"}, "0-65535/65535", "0-65535/65535"},
		{"huge", []string{"Content-Range", "bytes 0-65535/9223372036854775808"}, "9223372036854775808", "9223372036854775808"},
		{"long", []string{"Content-Range", strings.Repeat("x", 9000)}, `xxx"...`, `xxx"...`},
		{"right for the first block", []string{"Content-Range", "bytes 0-65535/2097252"}, "", "bytes 0-65535 of 2097252, wanted 1048576 from byte 100"},
		{"one byte on", []string{"Content-Range", "bytes 101-1048676/2097252"}, "wanted 65536 from byte 0", "wanted 1048576 from byte 100"},
		{"one byte less", []string{"Content-Range", "bytes 100-1048674/2097252"}, "wanted 65536 from byte 0", "wanted 1048576 from byte 100"},
		{"one byte more", []string{"Content-Range", "bytes 100-1048676/2097252"}, "wanted 65536 from byte 0", "wanted 1048576 from byte 100"},
		{"short length", []string{"Content-Length", "65535"}, "65535 bytes long, its range is 65536", "65535 bytes long, its range is 1048576"},
		{"long length", []string{"Content-Length", "1048577"}, "1048577 bytes long", "1048577 bytes long"},
		{"gzip", []string{"Content-Encoding", "gzip"}, `encoding "gzip"`, `encoding "gzip"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, size)
			s.faults[0] = s.changed(c.header...)
			s.faults[1] = s.faults[0]
			_, _, err := openURL(t, s.URL, nil)
			if c.first == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrBadAnswer)
				require.ErrorContains(t, err, s.URL+": bytes 0-65535: ")
				require.ErrorContains(t, err, c.first)
			}
			s.seen = nil
			delete(s.faults, 0)
			f, clock := s.open(t, nil)
			n, err := f.ReadAt(make([]byte, largeLen), 100)
			require.Zero(t, n)
			require.ErrorIs(t, err, ErrBadAnswer)
			require.ErrorContains(t, err, s.URL+"/dir/file: bytes 100-1048675: ")
			require.ErrorContains(t, err, c.later)
			require.Empty(t, clock.waits)
			s.checkRead(t, f, 100, largeLen) // nothing is left of it
		})
	}
}

// chunked sends a right header without length, and k bytes more than the range.
func (s *site) chunked(k int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := s.head(w, r, "Content-Length", "")
		w.Write(body[:len(body)+min(k, 0)])
		http.NewResponseController(w).Flush()
		w.Write(make([]byte, max(k, 0)))
	}
}

// Without a length the range is the length: a byte more is wrong, bytes that
// are missing are asked for.
func TestChunked(t *testing.T) {
	s := newSite(t, 3*blockLen)
	s.always = s.chunked(0)
	f, clock := s.open(t, nil)
	s.checkRead(t, f, blockLen, 2*blockLen)
	require.Empty(t, clock.waits)
}

func TestChunkedWrong(t *testing.T) {
	s := newSite(t, 3*blockLen)
	s.faults[1], s.faults[2] = s.chunked(1), s.chunked(-9)
	f, _ := s.open(t, nil)
	n, err := f.ReadAt(make([]byte, 10), blockLen)
	require.Zero(t, n)
	require.ErrorIs(t, err, ErrBadAnswer)
	require.ErrorContains(t, err, "goes on at byte 196608")
	s.checkRead(t, f, blockLen, blockLen)
	require.Equal(t, []string{"65536-131071", "131063-131071"}, s.ranges()[2:])
}

// A connection that ends at any byte costs a request for the bytes that did not
// come.
func TestCut(t *testing.T) {
	const size = 3 * largeLen
	for _, k := range []int{0, 1, 4095, blockLen - 1, blockLen, largeLen - 1} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			s := newSite(t, size)
			s.faults[0], s.faults[2] = s.cut(k), s.cut(k)
			f, _ := s.open(t, nil)
			if k >= blockLen {
				s.checkRead(t, f, blockLen, 1)
			}
			s.checkRead(t, f, 5, 8)
			s.checkRead(t, f, 2*largeLen, largeLen)
			again := fmt.Sprintf("%d-%d", 2*largeLen+k, 3*largeLen-1)
			require.Equal(t, []string{"2097152-3145727", again}, s.ranges()[2:])
			require.Equal(t, int64(len(s.ranges())), f.Stats().Requests)
		})
	}
}

// Tries that bring a block each are not counted, others are.
func TestRetries(t *testing.T) {
	s := newSite(t, 3*largeLen)
	f, clock := s.open(t, &Options{Retries: 3})
	s.always = s.cut(blockLen)
	s.checkRead(t, f, largeLen, largeLen)
	require.Len(t, clock.waits, 15)

	s.always = s.cut(blockLen - 1)
	p := make([]byte, largeLen)
	n, err := f.ReadAt(p, largeLen)
	require.Equal(t, 4*(blockLen-1), n)
	require.Equal(t, s.data[largeLen:][:n], p[:n])
	require.ErrorContains(t, err, "given up at try 4: at byte 1310716: connection ended: unexpected EOF")
	require.False(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "readers take it for the end of the file")
	require.Equal(t, int64(15+3), f.Stats().Retries)

	s.always = nil
	s.faults[len(s.seen)] = status(500)
	f.opts.Retries = -1
	_, err = f.ReadAt(p, 0)
	require.ErrorContains(t, err, "given up at try 1: 500 Internal Server Error from "+s.URL+"/dir/file")
}

// What came is used, also if what was read ahead did not.
func TestCutAhead(t *testing.T) {
	s := newSite(t, 9*blockLen)
	f, _ := s.open(t, &Options{Retries: -1})
	s.faults[1] = s.cut(blockLen + 1)
	s.checkRead(t, f, blockLen, 8)
	s.checkRead(t, f, blockLen+9, 8)
	require.Len(t, s.ranges(), 2)
	s.faults[2] = s.cut(0)
	_, err := f.ReadAt(make([]byte, 8), 2*blockLen)
	require.Error(t, err)
	s.checkRead(t, f, 2*blockLen, 8)
}

// A server that is busy is asked again, after growing times.
func TestBusy(t *testing.T) {
	for _, code := range []int{408, 429, 500, 502, 503, 504} {
		s := newSite(t, 3*largeLen)
		for i := range 10 {
			s.faults[i] = status(code)
		}
		delete(s.faults, 5)
		f, clock := s.open(t, &Options{Backoff: time.Second, MaxBackoff: 10 * time.Second})
		s.checkRead(t, f, 1, largeLen)
		require.Len(t, clock.waits, 9)
		for i, most := range []int{1, 2, 4, 8, 10, 1, 2, 4, 8} {
			require.LessOrEqual(t, clock.waits[i], time.Duration(most)*time.Second)
			require.GreaterOrEqual(t, clock.waits[i], time.Duration(most)*time.Second/2)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"7":    7 * time.Second,
		"0":    0,
		"-3":   0,
		"soon": 0,
		testNow.Add(9 * time.Second).Format(http.TimeFormat): 9 * time.Second,
		testNow.Add(-time.Hour).Format(http.TimeFormat):      0,
		"60": time.Minute,
	} {
		s := newSite(t, 10)
		s.faults[0] = status(429, "Retry-After", header)
		var told []time.Duration
		_, clock := s.open(t, &Options{Backoff: 1, MaxRetryAfter: time.Minute, OnWait: func(d time.Duration, why error) {
			require.ErrorContains(t, why, "429 Too Many Requests")
			told = append(told, d)
		}})
		require.Len(t, clock.waits, 1)
		require.InDelta(t, float64(want), float64(clock.waits[0]), 1, header)
		require.Equal(t, clock.waits, told)
	}
}

// A server that wants to be left alone for longer than the limit is: the error
// says for how long.
func TestRetryAfterTooLong(t *testing.T) {
	for header, want := range map[string]string{
		"61":         "1m1s",
		"4000000000": "1111111h6m40s",
		testNow.AddDate(200, 0, 0).Format(http.TimeFormat): "h", // more than a time.Duration holds
	} {
		s := newSite(t, 10)
		s.faults[0] = status(503, "Retry-After", header)
		_, clock, err := openURL(t, s.URL, &Options{MaxRetryAfter: time.Minute})
		require.ErrorIs(t, err, ErrWait)
		require.ErrorContains(t, err, "503 Service Unavailable from "+s.URL+", Retry-After of ")
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "the limit is 1m0s")
		require.Empty(t, clock.waits)
		require.Len(t, s.ranges(), 1)
	}
}

// A refusal is an error at once, with the status and the URL.
func TestRefused(t *testing.T) {
	for code, class := range map[int]error{
		401: fs.ErrPermission, 403: fs.ErrPermission, 404: fs.ErrNotExist, 410: fs.ErrNotExist,
		204: nil, 304: nil, 400: nil, 412: nil, 416: nil, 418: nil, 501: nil, 599: nil,
	} {
		s := newSite(t, 2*blockLen)
		s.faults[0] = status(code)
		_, clock, err := openURL(t, strings.Replace(s.URL, "://", "://user:secret@", 1)+"/a?sig=secret#secret", nil)
		require.Empty(t, clock.waits)
		want := strings.Replace(s.URL, "://", "://xxxxx@", 1) + "/a?sig=xxxxx: bytes 0-65535: " +
			strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code)) + " from " + s.URL + "/a?sig=xxxxx"
		require.EqualError(t, err, want)
		var status *StatusError
		require.ErrorAs(t, err, &status)
		require.Equal(t, code, status.Status)
		for _, other := range []error{fs.ErrPermission, fs.ErrNotExist, ErrChanged} {
			require.Equal(t, other == class, errors.Is(err, other), code)
		}
	}
}

// The user and password of a URL are sent as net/http would.
func TestUser(t *testing.T) {
	s := newSite(t, 10)
	f, _, err := openURL(t, strings.Replace(s.URL, "://", "://me:secret@", 1), nil)
	require.NoError(t, err)
	require.Contains(t, f.URL(), "me:secret")
	user, password, ok := s.seen[0].BasicAuth()
	require.True(t, ok && user == "me" && password == "secret")
	_, _, err = openURL(t, strings.Replace(s.URL, "://", "://me:secret@", 1), &Options{Token: "t"})
	require.NoError(t, err)
	require.Equal(t, "Bearer t", s.seen[1].Header.Get("Authorization"))
}

// Connections that cannot be made are tried again; the URL in the error of
// net/http is not shown.
func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String() + "/a?sig=secret"
	require.NoError(t, l.Close())
	_, clock, err := openURL(t, url, nil)
	require.ErrorContains(t, err, "given up at try 6: dial tcp")
	require.NotContains(t, err.Error(), "secret")
	require.Len(t, clock.waits, DefaultRetries)
}

// A certificate or a name that is wrong is the same the next time.
// A header that net/http cannot read is in its error, and may be a Location
// with a signature.
func TestMalformedHeader(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Write([]byte("HTTP/1.1 302 Found\r\nLocation: http://h/\x1b?sig=secret\r\n\r\n")) //nolint:errcheck // the client sees it
			c.Close()
		}
	}))
	defer s.Close()
	_, err := Open(t.Context(), s.URL+"/a", &Options{Retries: -1})
	require.ErrorIs(t, err, ErrBadAnswer)
	require.ErrorContains(t, err, "malformed header")
	require.NotContains(t, err.Error(), "secret")
}

func TestNoHost(t *testing.T) {
	for _, cause := range []error{&tls.CertificateVerificationError{Err: io.EOF}, &net.DNSError{IsNotFound: true}} {
		fail := func(*http.Request) (*http.Response, error) { return nil, cause }
		_, clock, err := openURL(t, "https://localhost/a?sig=secret", &Options{Client: &http.Client{Transport: roundTripper(fail)}})
		require.ErrorContains(t, err, cause.Error())
		require.NotContains(t, err.Error(), "secret")
		require.Empty(t, clock.waits)
	}
}

// stall sends k bytes of the body, or not even a header, waits until ready,
// rings, and says no more.
func (s *site) stall(clock *testClock, k int, ready func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if k >= 0 {
			w.Write(s.head(w, r)[:k])
			http.NewResponseController(w).Flush()
		}
		for !ready() {
			time.Sleep(time.Millisecond)
		}
		clock.ring()
		<-r.Context().Done()
	}
}

// A server that sends nothing for a time is asked again, for what did not come.
func TestStall(t *testing.T) {
	s := newSite(t, 3*largeLen)
	clock := &testClock{}
	now := func() bool { return true }
	s.faults[0], s.faults[1] = s.stall(clock, -1, now), s.stall(clock, 0, now)
	f, err := open(t.Context(), s.URL, &Options{Stall: time.Minute}, clock.timing())
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, int64(3), f.Stats().Requests)

	got := f.Stats().Bytes
	s.faults[3] = s.stall(clock, 1000, func() bool { return f.Stats().Bytes == got+1000 })
	s.checkRead(t, f, largeLen, largeLen)
	require.Equal(t, []string{"1048576-2097151", "1049576-2097151"}, s.ranges()[3:])

	f.opts.Retries = -1
	s.faults[5] = s.stall(clock, -1, now)
	_, err = f.ReadAt(make([]byte, largeLen), 7)
	require.ErrorIs(t, err, ErrStalled)
	require.ErrorContains(t, err, "server stalled: nothing for 1m0s at byte 7")
}

// The real alarm goes off, too.
func TestRealStall(t *testing.T) {
	s := newSite(t, 10)
	s.always = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	_, err := Open(t.Context(), s.URL, &Options{Stall: time.Millisecond, Retries: -1})
	require.ErrorIs(t, err, ErrStalled)
}

// A server without ranges will do for a small file, if it says where that ends.
func TestNoRange(t *testing.T) {
	whole := func(size int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Write(noise(size))
		}
	}
	for _, c := range []struct {
		size   int
		answer http.HandlerFunc
		want   string // of the error
	}{
		{0, whole(0), ""},
		{0, status(416, "Content-Range", "bytes */0"), ""},
		{100, whole(100), ""},
		{MaxWhole, whole(MaxWhole), ""}, // chunked
		{MaxWhole, whole(MaxWhole, "Content-Length", "1048576"), ""},
		{MaxWhole, whole(MaxWhole, "Content-Length", "1048577"), "and the file has 1048577 bytes"},
		{MaxWhole, whole(MaxWhole + 1), "and the file has more than 1048576 bytes"},
		{10, whole(10, "Connection", "close", "Transfer-Encoding", "identity"), "nor the length of the file"},
	} {
		s := newSite(t, c.size)
		s.always = c.answer
		f, clock, err := openURL(t, s.URL, nil)
		require.Empty(t, clock.waits)
		if c.want != "" {
			require.ErrorIs(t, err, ErrNoRange)
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, int64(c.size), f.Size())
		if c.size == 0 {
			require.Equal(t, 2, clock.resets, "made, put off by the header")
		}
		s.checkRead(t, f, c.size/3, c.size/2)
		require.Len(t, s.ranges(), 1)
	}
}

// A whole file that is cut is read anew.
func TestNoRangeCut(t *testing.T) {
	s := newSite(t, 1000)
	s.always = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write(s.data[:500])
		if len(s.ranges()) > 1 {
			w.Write(s.data[500:])
		}
	}
	f, clock := s.open(t, nil)
	require.Len(t, clock.waits, 1)
	s.checkRead(t, f, 0, 1000)
	require.Equal(t, int64(1500), f.Stats().Bytes)
}
