package httpfile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// otherName is the address of a server by another name of the same machine.
func otherName(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }

// The token goes to the host of the URL only: not to another port or name, not
// after that either, if the way leads back.
func TestToken(t *testing.T) {
	for name, c := range map[string]struct {
		hops []string // URLs; H is the first host, O another one
		want []bool   // whether the token comes with each request
	}{
		"same host":        {[]string{"H/a", "/b", "H/c"}, []bool{true, true, true, true}},
		"other port":       {[]string{"O/a"}, []bool{true, false}},
		"other name":       {[]string{"N/a"}, []bool{true, false}},
		"there and back":   {[]string{"O/a", "H/b"}, []bool{true, false, false}},
		"on from there":    {[]string{"O/a", "/b"}, []bool{true, false, false}},
		"user of redirect": {[]string{"U/b"}, []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := newSite(t, 2*blockLen), newSite(t, 2*blockLen)
			var got []string
			hop := 0
			answer := func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header.Get("Authorization"))
				if hop == len(c.hops) {
					s.right(w, r)
					return
				}
				to := strings.NewReplacer("H", s.URL, "O", other.URL, "N", otherName(s.URL),
					"U", strings.Replace(s.URL, "://", "://me:pw@", 1)).Replace(c.hops[hop])
				hop++
				http.Redirect(w, r, to, []int{301, 302, 303, 307, 308}[hop%5])
			}
			s.always, other.always = answer, answer
			f, _, err := openURL(t, s.URL, &Options{Token: "secret"})
			require.NoError(t, err)
			s.checkRead(t, f, blockLen, 9) // from where the redirects led
			require.Len(t, got, len(c.want)+1)
			for i, want := range append(c.want, c.want[len(c.want)-1]) {
				require.Equal(t, want, got[i] == "Bearer secret")
				require.Equal(t, want, got[i] != "")
			}
		})
	}
}

// Nor does it go from https to http.
func TestTokenDowngrade(t *testing.T) {
	s := newSite(t, 2*blockLen)
	secure := httptest.NewTLSServer(http.RedirectHandler(s.URL+"/a?sig=secret", http.StatusFound))
	defer secure.Close()
	f, _, err := openURL(t, secure.URL, &Options{Token: "secret", Client: secure.Client()})
	require.NoError(t, err)
	s.checkRead(t, f, blockLen, 9)
	for _, r := range s.seen {
		require.Empty(t, r.Header.Get("Authorization"))
		require.Empty(t, r.Referer())
	}
	secure.Client().CloseIdleConnections()
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"http://a/x", "http://a/y", true},
		{"http://a", "http://A:80", true},
		{"https://a", "https://a:443", true},
		{"http://a", "https://a", true},
		{"http://a:80", "https://a:443", true},
		{"https://a", "http://a", false},
		{"https://a:443", "http://a:443", false},
		{"https://a:80", "http://a:80", false},
		{"http://a:443", "https://a:443", false},
		{"http://a", "https://a:444", false},
		{"http://a", "http://a:81", false},
		{"http://a", "http://b", false},
		{"http://a", "http://a.b", false},
		{"http://a", "http://b.a", false},
	} {
		from, err := url.Parse(c.from)
		require.NoError(t, err)
		to, err := url.Parse(c.to)
		require.NoError(t, err)
		require.Equal(t, c.want, sameHost(from, to), "%s %s", c.from, c.to)
	}
}

// A signed URL that expires is asked for anew, once: then its refusal stands.
func TestExpired(t *testing.T) {
	s, store := newSite(t, 4*largeLen), newSite(t, 4*largeLen)
	signature := 1
	s.always = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("%s/store?sig=%d", store.URL, signature), http.StatusFound)
	}
	code := 403
	store.always = func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("sig") != fmt.Sprint(signature) {
			status(code)(w, r)
			return
		}
		store.right(w, r)
	}
	f, clock := s.open(t, nil)
	store.checkRead(t, f, 0, largeLen)
	require.Len(t, s.seen, 1) // remembered
	for i, expired := range []int{400, 401, 403, 404, 410} {
		signature++
		code = expired
		store.checkRead(t, f, largeLen, largeLen)
		require.Len(t, s.seen, i+2)
	}
	s.always, code = http.RedirectHandler(store.URL+"/store?sig=old", http.StatusFound).ServeHTTP, 403
	signature++
	_, err := f.ReadAt(make([]byte, largeLen), 0)
	require.ErrorContains(t, err, s.URL+"/dir/file: bytes 0-1048575: 403 Forbidden from "+store.URL+"/store?sig=xxxxx")
	require.Len(t, s.seen, 7)
	require.Empty(t, clock.waits)
}

// A place that breaks twice is looked for anew.
func TestPlaceBreaks(t *testing.T) {
	s, first, second := newSite(t, 2*blockLen), newSite(t, 2*blockLen), newSite(t, 2*blockLen)
	s.faults[0] = http.RedirectHandler(first.URL, http.StatusFound).ServeHTTP
	s.always = http.RedirectHandler(second.URL, http.StatusFound).ServeHTTP
	f, clock := s.open(t, nil)
	first.always = status(503)
	s.checkRead(t, f, blockLen, 9)
	require.Len(t, clock.waits, 2)
	require.Len(t, second.ranges(), 1)
	require.Equal(t, int64(6), f.Stats().Requests)
}

func TestRedirectRefused(t *testing.T) {
	for location, want := range map[string]string{
		"":                       " to no URL",
		"http://a:secret":        " to no URL",
		"%zz":                    " to no URL",
		"ftp://a/b?c=secret":     `to ftp://a/b?c=xxxxx: scheme "ftp", wanted http or https`,
		"file:///secret/../etc":  `scheme "file"`,
		"http:secret":            "URL without a host",
		"https://:80/":           "URL without a host",
		"http://u:secret@/?c=no": "to http://xxxxx@/?c=xxxxx: URL without a host",
	} {
		s := newSite(t, 10)
		s.always = func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Location"] = []string{location}
			w.WriteHeader(307)
		}
		_, clock, err := openURL(t, s.URL+"/a?sig=secret", nil)
		require.ErrorIs(t, err, ErrRedirect, location)
		require.ErrorContains(t, err, "from "+s.URL+"/a?sig=xxxxx to ")
		require.ErrorContains(t, err, want)
		if strings.Contains(location, "=secret") || strings.Contains(location, ":secret") {
			require.NotContains(t, err.Error(), "secret")
		}
		require.Empty(t, clock.waits)
	}
}

// Ten redirects are followed, eleven are not.
func TestRedirectLimit(t *testing.T) {
	s := newSite(t, 10)
	for i := range 10 {
		s.faults[i] = http.RedirectHandler(fmt.Sprintf("/%d", i), http.StatusFound).ServeHTTP
	}
	f, _ := s.open(t, nil)
	require.Equal(t, int64(11), f.Stats().Requests)
	s.always = http.RedirectHandler("/loop", http.StatusFound).ServeHTTP
	_, _, err := openURL(t, s.URL, nil)
	require.ErrorIs(t, err, ErrRedirect)
	require.ErrorContains(t, err, "more than 10, the last to "+s.URL+"/loop")
	require.Len(t, s.seen, 22)
}
