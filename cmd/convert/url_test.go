package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// serve DIR VAR serves a directory until the end of the script, and sets VAR to
// the URL. The first element of a path says how: see served.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: serve DIR VAR")
	}
	s := httptest.NewServer(&served{dir: ts.MkAbs(args[0]), asked: map[string]int{}})
	ts.Defer(s.Close)
	ts.Setenv(args[1], s.URL)
}

// A served directory is behind /ok/. Behind other names are servers of other
// manners.
type served struct {
	dir   string
	mu    sync.Mutex
	asked map[string]int
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	n := s.asked[r.URL.Path]
	s.mu.Unlock()
	manner, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	authorized := r.Header.Get("Authorization") == "Bearer sesame"
	tag := `"1"`
	switch {
	case manner == "private" && !authorized:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case manner == "moved": // to another host, which must not see the token
		_, port, _ := strings.Cut(r.Host, ":")
		http.Redirect(w, r, "http://localhost:"+port+"/public/"+name, http.StatusFound)
		return
	case manner == "public" && authorized:
		w.WriteHeader(http.StatusTeapot)
		return
	case manner == "busy":
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case manner == "norange":
		r.Header.Del("Range")
	case manner == "changing" && n > 2:
		tag = `"2"`
	case manner == "flaky" && (n == 2 || n == 3):
		w.Header().Set("Retry-After", "0")
		w.WriteHeader([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[n%2])
		return
	case manner == "flaky" && n == 4:
		w = &cutter{w, 1000}
	}
	w.Header().Set("ETag", tag)
	f, err := os.Open(filepath.Join(s.dir, filepath.FromSlash(name)))
	info, errStat := f.Stat()
	if err != nil || errStat != nil || info.IsDir() {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	http.ServeContent(w, r, "", time.Time{}, f)
}

// A cutter ends the connection after some bytes of the body.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestTokenFor(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for url, want := range map[string]string{
		"https://huggingface.co/a/b/resolve/main/": "hf", "https://HuggingFace.co/x": "hf", "https://cdn.huggingface.co/x": "hf",
		"http://huggingface.co/x": "", "https://huggingface.co.example/x": "", "https://nothuggingface.co/x": "", "https://example.org/x": "",
	} {
		require.Equal(t, want, tokenFor(url, env("HF_TOKEN", "hf")), url)
		require.Equal(t, "d", tokenFor(url, env("HF_TOKEN", "hf", "DEMI_TOKEN", "d")), url)
	}
	require.Equal(t, "http://xxxxx@h/x?sig=xxxxx", shown("http://u:p@h/x?sig=abc"))
	require.Equal(t, "a?sig=abc", shown("a?sig=abc"))
}

// A long pause is told once, however many requests make it; short ones, and
// those of a quiet run, are not.
func TestWaitingTell(t *testing.T) {
	var b strings.Builder
	w := &waiting{app: &app{stderr: &b, progress: "auto"}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { w.tell(90*time.Second, errors.New("503 from \x1b there")) })
	}
	wg.Wait()
	w.tell(longWait-1, errors.New("short"))
	require.Equal(t, "demi: waiting 1m30s, then trying again: 503 from \\x1b there\n", b.String())
	w.tell(2*time.Minute, errors.New("later"))
	require.Contains(t, b.String(), "waiting 2m0s, then trying again: later\n")

	quiet := &app{stderr: &b, quiet: true}
	n := b.Len()
	(&waiting{app: quiet}).tell(time.Minute, errors.New("x"))
	require.Equal(t, n, b.Len())
}
