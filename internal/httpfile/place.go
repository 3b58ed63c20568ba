package httpfile

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A place is where a request goes.
type place struct {
	url        *url.URL // without user and fragment
	trusted    bool     // gets the Authorization header
	remembered bool     // a redirect led here at an earlier time
}

// redirectHeader is what Location becomes under noRedirects.
const redirectHeader = "Demi-Location"

// noRedirects renames the header Location, so that an http.Client sees no
// redirect. With http.ErrUseLastResponse it would still parse the header, and
// show what is in it in an error.
type noRedirects struct{ under http.RoundTripper }

// RoundTrip is that of http.RoundTripper.
func (t noRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.under
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	resp.Header.Set(redirectHeader, resp.Header.Get("Location"))
	resp.Header.Del("Location")
	return resp, nil
}

// next is where a redirect leads. Once the header is dropped it stays dropped.
func (p place) next(resp *http.Response) (place, error) {
	location := resp.Header.Get(redirectHeader)
	u, err := p.url.Parse(location)
	if location == "" || err != nil {
		return place{}, fmt.Errorf("%w: %d from %s to no URL", ErrRedirect, resp.StatusCode, redacted(p.url))
	}
	if err := checkURL(u); err != nil {
		return place{}, fmt.Errorf("%w: from %s to %s: %w", ErrRedirect, redacted(p.url), redacted(u), err)
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return place{url: u, trusted: p.trusted && sameHost(p.url, u), remembered: p.remembered}, nil
}

// sameHost says whether what was meant for from may go to to: scheme, host and
// port are the same, or http at its usual port became https at its own.
func sameHost(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return port(from) == port(to)
	}
	return from.Scheme == "http" && port(from) == "80" && port(to) == "443"
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// drain closes the body of an answer that is not the file. A short one is read,
// so that its connection can be used again.
func drain(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}
