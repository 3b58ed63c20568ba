package httpfile

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	monday  = "Mon, 01 Jan 2024 10:00:00 GMT"
	tuesday = "Tue, 02 Jan 2024 10:00:00 GMT"
)

// A file that changes is told from the one that was opened by the first of what
// the server says about it: strong ETag, Last-Modified, weak ETag; size.
func TestChanged(t *testing.T) {
	const size = 2 * largeLen
	grown := fmt.Sprintf("bytes 0-1048575/%d", size+1)
	for _, c := range []struct {
		name   string
		opened []string // of the header
		later  []string
		want   string // of the error, "" if there is none
	}{
		{"same", []string{"ETag", `"a"`}, []string{"ETag", `"a"`}, ""},
		{"strong", []string{"ETag", `"a"`}, []string{"ETag", `"b"`}, `ETag was "\"a\"", is "\"b\""`},
		{"strong, weak now", []string{"ETag", `"a"`}, []string{"ETag", `W/"a"`}, `is "W/\"a\""`},
		{"strong, none now", []string{"ETag", `"a"`}, []string{"ETag", ""}, `is ""`},
		{"strong, other date", []string{"ETag", `"a"`, "Last-Modified", monday}, []string{"ETag", `"a"`, "Last-Modified", tuesday}, ""},
		{"strong, other size", []string{"ETag", `"a"`}, []string{"ETag", `"a"`, "Content-Range", grown}, "size was 2097152, is 2097153"},
		{"date", []string{"ETag", "", "Last-Modified", monday}, []string{"ETag", "", "Last-Modified", tuesday}, `Last-Modified was "Mon, 01 Jan 2024 10:00:00 GMT", is "Tue`},
		{"date, none now", []string{"ETag", "", "Last-Modified", monday}, []string{"ETag", ""}, `is ""`},
		{"date before weak", []string{"ETag", `W/"a"`, "Last-Modified", monday}, []string{"ETag", `W/"b"`, "Last-Modified", monday}, ""},
		{"date, other size", []string{"ETag", "", "Last-Modified", monday}, []string{"ETag", "", "Last-Modified", monday, "Content-Range", grown}, "size was 2097152, is 2097153"},
		{"not a date", []string{"ETag", "", "Last-Modified", "long ago"}, []string{"ETag", "", "Last-Modified", "now"}, `was "long ago"`},
		{"weak", []string{"ETag", `W/"a"`}, []string{"ETag", `W/"b"`}, `ETag was "W/\"a\""`},
		{"not a tag", []string{"ETag", `a`}, []string{"ETag", `b`}, `ETag was "a"`},
		{"size", []string{"ETag", ""}, []string{"ETag", "", "Content-Range", grown}, "size was 2097152, is 2097153"},
		{"nothing", []string{"ETag", ""}, []string{"ETag", `"b"`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, size)
			s.faults[0], s.faults[1] = s.changed(c.opened...), s.changed(c.later...)
			f, clock := s.open(t, nil)
			p := make([]byte, largeLen)
			n, err := f.ReadAt(p, 0)
			require.Empty(t, clock.waits)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, s.data[:n], p)
				return
			}
			require.Zero(t, n)
			require.ErrorIs(t, err, ErrChanged)
			require.ErrorContains(t, err, s.URL+"/dir/file: bytes 0-1048575: source changed on the server: ")
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Requests are conditional: a strong ETag for If-Range, or a date.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		opened []string
		etag   string // of the File, and If-Range
		since  string // If-Unmodified-Since
	}{
		{[]string{"ETag", `"a"`, "Last-Modified", monday}, `"a"`, ""},
		{[]string{"ETag", `W/"a"`, "Last-Modified", monday}, "", monday},
		{[]string{"ETag", `W/"a"`}, "", ""},
		{[]string{"ETag", `a`, "Last-Modified", "long ago"}, "", ""},
		{[]string{"ETag", `"`}, "", ""},
		{[]string{"ETag", `"a"b"`}, "", ""},
		{[]string{"ETag", ``}, "", ""},
	} {
		s := newSite(t, 2*blockLen)
		s.always = s.changed(c.opened...)
		f, _ := s.open(t, nil)
		s.checkRead(t, f, blockLen, 1)
		require.Equal(t, c.etag, f.ETag())
		require.Equal(t, c.etag, s.seen[1].Header.Get("If-Range"))
		require.Equal(t, c.since, s.seen[1].Header.Get("If-Unmodified-Since"))
	}
}

// Servers say in their own ways that the conditions do not hold: all of the new
// file, 412, 416 for a shorter one.
func TestChangedStatus(t *testing.T) {
	s := newSite(t, 2*largeLen)
	s.faults[2] = status(412)
	s.faults[3] = status(416, "Content-Range", "bytes */10")
	s.faults[4] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", s.etag)
		w.Write(s.data)
	}
	f, clock := s.open(t, nil)
	s.etag = `"v2"`
	p := make([]byte, largeLen)
	read := func() error { _, err := f.ReadAt(p, 0); return err }
	require.ErrorContains(t, read(), `source changed on the server: ETag was "\"v1\"", is "\"v2\""`) // 200
	require.ErrorContains(t, read(), "source changed on the server: 412 Precondition Failed from "+s.URL+"/dir/file, size was 2097152")
	require.ErrorContains(t, read(), "source changed on the server: 416 Requested Range Not Satisfiable")
	s.etag = `"v1"`
	err := read()
	require.ErrorIs(t, err, ErrNoRange)
	require.ErrorContains(t, err, "server does not send ranges any more")
	require.Empty(t, clock.waits)
	require.NoError(t, read())
}

// A file that changes between two tries of one read is not put together from
// both versions, on Open neither.
func TestChangedBetween(t *testing.T) {
	s := newSite(t, 3*largeLen)
	s.faults[1], s.faults[2] = s.cut(blockLen), s.changed("ETag", `"v2"`)
	f, _ := s.open(t, nil)
	p := make([]byte, largeLen)
	n, err := f.ReadAt(p, 77)
	require.ErrorIs(t, err, ErrChanged)
	require.Equal(t, s.data[77:][:blockLen], p[:n])

	s.faults[3], s.faults[4] = s.cut(10), s.changed("ETag", `"v2"`)
	_, _, err = openURL(t, s.URL, nil)
	require.ErrorIs(t, err, ErrChanged)
}
