package httpfile

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// A tree serves an fs.FS below /root/, with a count of the requests for each
// path; paths in refused get that status.
type tree struct {
	*httptest.Server
	refused map[string]int

	mu    sync.Mutex
	asked map[string]int
}

func newTree(t *testing.T, files fstest.MapFS) *tree {
	s := &tree{refused: map[string]int{}, asked: map[string]int{}}
	under := http.StripPrefix("/root/", http.FileServerFS(files))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.mu.Unlock()
		if code := s.refused[r.URL.Path]; code != 0 {
			w.WriteHeader(code)
			return
		}
		under.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tree) site(t *testing.T, at string, names Names) *Site {
	site, err := NewSite(t.Context(), s.URL+at, &Options{Retries: -1}, names)
	require.NoError(t, err)
	t.Cleanup(func() { site.Close() })
	return site
}

func names(entries []fs.DirEntry) string {
	var all []string
	for _, e := range entries {
		info, _ := e.Info()
		all = append(all, fmt.Sprintf("%s:%d", e.Name(), info.Size()))
	}
	return strings.Join(all, " ")
}

var fewNames = Names{
	Known: []string{"a", "b", "list"},
	Listed: func(name string, text func() ([]byte, error)) []string {
		if name != "list" {
			return nil
		}
		p, _ := text()
		return strings.Fields(string(p))
	},
}

func TestSite(t *testing.T) {
	s := newTree(t, fstest.MapFS{
		"b": {Data: []byte("bb")}, "list": {Data: []byte("c e ../x b /etc/passwd a")}, "c": {Data: []byte("ccc")}, "x": {Data: []byte("x")},
		"sub/a": {Data: []byte("a of sub")},
	})
	site := s.site(t, "/root/", fewNames)
	entries, err := site.ReadDir(".")
	require.NoError(t, err)
	require.Equal(t, "b:2 c:3 list:24", names(entries), "what is known, and what it names, but no way out")
	again, err := fs.ReadDir(site, ".")
	require.NoError(t, err)
	require.Equal(t, entries, again)

	sub, err := site.ReadDir("sub")
	require.NoError(t, err)
	require.Equal(t, "a:8", names(sub))
	for name, dir := range map[string]bool{".": true, "sub": true, "sub/a": false, "b": false, "x": false} {
		info, err := site.Stat(name)
		require.NoError(t, err, name)
		require.Equal(t, dir, info.IsDir(), name)
		require.Equal(t, !dir, info.Mode().IsRegular(), name)
	}
	text, err := fs.ReadFile(site, "sub/a")
	require.NoError(t, err)
	require.Equal(t, "a of sub", string(text))
	f, err := site.Open("c")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	p := make([]byte, 2)
	_, err = f.(io.ReaderAt).ReadAt(p, 1)
	require.NoError(t, err, "it stays open")
	require.Equal(t, "cc", string(p))
	for path, n := range s.asked {
		require.Equal(t, 1, n, path)
	}
}

func TestSiteErrors(t *testing.T) {
	s := newTree(t, fstest.MapFS{"b": {Data: []byte("bb")}})
	site := s.site(t, "/root/file", fewNames)
	_, err := site.Stat("none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = site.Open("none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"", "/b", "../b", "a/../b", "./b"} {
		_, err = site.Open(name)
		require.ErrorIs(t, err, fs.ErrInvalid, name)
	}

	s.refused["/root/a"] = http.StatusForbidden
	entries, err := site.ReadDir(".")
	require.NoError(t, err, "a store of objects says so of what is not there")
	require.Equal(t, "b:2", names(entries))
	s.refused["/root/b"] = http.StatusForbidden
	_, err = s.site(t, "/root/", fewNames).ReadDir(".")
	require.ErrorIs(t, err, fs.ErrPermission, "of everything: it is meant")
	s.refused["/root/b"] = http.StatusInternalServerError
	_, err = s.site(t, "/root/", fewNames).ReadDir(".")
	require.ErrorContains(t, err, "500", "b may be there")

	s.asked = map[string]int{}
	s.refused["/root/a"] = http.StatusInternalServerError
	_, err = s.site(t, "/root/", fewNames).ReadDir(".")
	require.ErrorContains(t, err, "500")
	require.Equal(t, map[string]int{"/root/a": 1}, s.asked, "a server that does not answer is asked for one name, not for all")

	_, err = NewSite(t.Context(), "ftp://h/x", nil, fewNames)
	require.ErrorContains(t, err, "scheme")
	_, err = NewSite(t.Context(), "http://h/x", &Options{Stall: -1}, fewNames)
	require.Error(t, err)
}

// Reads end with Close, and with the context.
func TestSiteClose(t *testing.T) {
	s := newTree(t, fstest.MapFS{"b": {Data: make([]byte, 1<<20)}})
	site := s.site(t, "/root/", fewNames)
	f, err := site.Open("b")
	require.NoError(t, err)
	require.NoError(t, site.Close())
	_, err = f.(io.ReaderAt).ReadAt(make([]byte, 10), 1<<19)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = site.Open("b")
	require.ErrorIs(t, err, fs.ErrClosed)

	ctx, cancel := context.WithCancel(t.Context())
	site, err = NewSite(ctx, s.URL+"/root/", nil, fewNames)
	require.NoError(t, err)
	defer site.Close()
	f, err = site.Open("b")
	require.NoError(t, err)
	cancel()
	_, err = f.(io.ReaderAt).ReadAt(make([]byte, 10), 1<<19)
	require.ErrorIs(t, err, context.Canceled)
}

// Warm opens side by side.
func TestSiteWarm(t *testing.T) {
	meet := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case meet <- true:
		case <-meet:
		case <-time.After(10 * time.Second):
			w.WriteHeader(http.StatusNotFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("x"))
	}))
	defer server.Close()
	site, err := NewSite(t.Context(), server.URL+"/", nil, Names{})
	require.NoError(t, err)
	defer site.Close()
	site.Warm([]string{"a", "b", "c", "d"})
	for _, name := range []string{"a", "b", "c", "d"} {
		_, err := site.Stat(name)
		require.NoError(t, err, "it met no other request")
	}
}

func TestBaseDir(t *testing.T) {
	for url, want := range map[string][2]string{
		"http://h":             {"", "http://h/"},
		"http://h/":            {"", "http://h/"},
		"http://h/a%20b":       {"a b", "http://h/a%20b/"},
		"http://h/d/x.y?k=v":   {"x.y", "http://h/d/x.y/?k=v"},
		"https://u:p@h/d/":     {"", "https://u:p@h/d/"},
		"http://h/d/a%2Fb.bin": {"a/b.bin", "http://h/d/a%2Fb.bin/"},
	} {
		base, err := Base(url)
		require.NoError(t, err)
		dir, err := Dir(url)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{base, dir}, url)
	}
	_, err := Base("http://h/%zz")
	require.Error(t, err)
	_, err = Dir(":")
	require.Error(t, err)
}
