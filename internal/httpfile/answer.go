package httpfile

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A version is what tells whether the file is still the one that was opened:
// its size, and the first of these that the server sends.
type version struct {
	size     int64
	etag     string // strong
	modified string // Last-Modified, as it was sent
	weak     string // an entity tag that promises less
}

func versionOf(h http.Header, size int64) *version {
	v := &version{size: size}
	tag := h.Get("ETag")
	switch modified := h.Get("Last-Modified"); {
	case isStrong(tag):
		v.etag = tag
	case modified != "":
		v.modified = modified
	default:
		v.weak = tag
	}
	return v
}

// isStrong says whether tag is an entity tag of RFC 9110 section 8.8.3 without
// the W/ of a weak one.
func isStrong(tag string) bool {
	return len(tag) >= 2 && tag[0] == '"' && strings.IndexByte(tag[1:], '"') == len(tag)-2
}

// ask makes a request conditional: a server need not send what will be refused.
func (v *version) ask(h http.Header) {
	if v.etag != "" {
		h.Set("If-Range", v.etag)
	}
	if _, err := http.ParseTime(v.modified); err == nil {
		h.Set("If-Unmodified-Since", v.modified)
	}
}

// check refuses the answer of another version.
func (v *version) check(h http.Header) error {
	name, was := "ETag", v.etag+v.weak
	if v.modified != "" {
		name, was = "Last-Modified", v.modified
	}
	if is := h.Get(name); was != "" && is != was {
		return changed("%s was %s, is %s", name, quote(was), quote(is))
	}
	return nil
}

// A contentRange is what an answer of 206 has: the first byte, the last one,
// and the size of the file.
type contentRange struct{ first, last, size int64 }

func rangeOf(h http.Header) (r contentRange, err error) {
	values := h.Values("Content-Range")
	if len(values) != 1 {
		return r, badAnswer("%d Content-Range, content type %s", len(values), quote(h.Get("Content-Type")))
	}
	unit, rest, _ := strings.Cut(values[0], " ")
	span, size, _ := strings.Cut(rest, "/")
	first, last, _ := strings.Cut(span, "-")
	if strings.EqualFold(unit, "bytes") && number(&r.first, first) && number(&r.last, last) && number(&r.size, size) &&
		r.first <= r.last && r.last < r.size {
		return r, nil
	}
	return r, badAnswer("Content-Range %s", quote(values[0]))
}

// number takes decimal digits alone.
func number(n *int64, s string) bool {
	u, err := strconv.ParseUint(s, 10, 63)
	*n = int64(u)
	return err == nil
}

// check refuses the answer to another range than the n bytes from off, or to
// the end of the file if that comes first.
func (r contentRange) check(off, n, length int64) error {
	if want := min(n, r.size-off); r.first != off || r.last-r.first+1 != want {
		return badAnswer("bytes %d-%d of %d, wanted %d from byte %d", r.first, r.last, r.size, n, off)
	}
	if want := r.last - r.first + 1; length >= 0 && length != want {
		return badAnswer("%d bytes long, its range is %d", length, want)
	}
	return nil
}

// checkEncoding refuses bytes that are not those of the file.
func checkEncoding(resp *http.Response) error {
	for _, e := range resp.Header.Values("Content-Encoding") {
		if e != "" && !strings.EqualFold(e, "identity") {
			return badAnswer("content encoding %s, none was asked for", quote(e))
		}
	}
	if resp.Uncompressed {
		return badAnswer("compressed, which was not asked for")
	}
	return nil
}

// isEmpty says whether an answer of 416 means a file of no bytes, in which
// there is no range to ask for.
func isEmpty(resp *http.Response) bool {
	return resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && resp.Header.Get("Content-Range") == "bytes */0"
}

// isBusy says whether a status passes by itself.
func isBusy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter is the wait that a server asks for: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	s := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(s, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// endless refuses an answer whose end cannot be told from a broken connection.
func endless(resp *http.Response) error {
	if resp.ContentLength < 0 && resp.ProtoMajor < 2 && len(resp.TransferEncoding) == 0 {
		return fmt.Errorf("%w, nor the length of the file", ErrNoRange)
	}
	return nil
}
