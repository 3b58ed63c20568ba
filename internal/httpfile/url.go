package httpfile

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/demi-weights/demi/tensor"
)

const hidden = "xxxxx"

// Redact returns the URL without what may be secret in it: user and password,
// the values of its query, its fragment. It is for messages. Of what is not a
// URL nothing is shown.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(not a URL)"
	}
	return redacted(u)
}

func redacted(u *url.URL) string {
	c := *u
	c.Fragment, c.RawFragment = "", ""
	if c.User != nil {
		c.User = url.User(hidden)
	}
	if c.Opaque != "" {
		c.Opaque = hidden
	}
	if c.RawQuery != "" {
		parts := strings.Split(c.RawQuery, "&")
		for i, part := range parts {
			parts[i] = redactedPair(part)
		}
		c.RawQuery = strings.Join(parts, "&")
	}
	return c.String()
}

// redactedPair shows the name in name=value, where there is no doubt that it is
// one.
func redactedPair(pair string) string {
	name, value, _ := strings.Cut(pair, "=")
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	}
	if strings.Trim(value, "=") == "" || len(name) > 32 || strings.ContainsFunc(name, odd) {
		return hidden
	}
	return name + "=" + hidden
}

// parseURL takes the URL of a file. Its errors show no part of it that may be
// secret.
func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, urlError{errors.New("not a URL")} // err has the text
	}
	if err := checkURL(u); err != nil {
		return nil, urlError{fmt.Errorf("%s: %w", redacted(u), err)}
	}
	return u, nil
}

// A urlError is an error of the class ErrURL.
type urlError struct{ error }

func (e urlError) Unwrap() error        { return e.error }
func (e urlError) Is(target error) bool { return target == ErrURL }

func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("scheme %s, wanted http or https", quote(u.Scheme))
	}
	if u.Hostname() == "" {
		return errors.New("URL without a host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %s, wanted 1 to 65535", port)
		}
	}
	return nil
}

// Join returns the URL of a file that another one names, such as a shard that
// an index at base names: name takes the place of what follows the last "/" in
// the path of base. Scheme, user, host and query are those of base, so the
// query, which may be a signature, goes to the host that it came from.
//
// name must be a file name, or a relative path of file names with "/" between
// them. One that leads elsewhere, also when a server takes escapes like "%2e"
// out of it, is tensor.ErrFormat: "..", an absolute path, a scheme, a host.
func Join(base, name string) (string, error) {
	u, err := parseURL(base)
	if err != nil {
		return "", err
	}
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("file name %s: %w: %w", quote(name), tensor.ErrFormat, err)
	}
	escaped := u.EscapedPath()
	escaped = escaped[:strings.LastIndexByte(escaped, '/')+1]
	if escaped == "" {
		escaped = "/"
	}
	escaped += (&url.URL{Path: name}).EscapedPath()
	if u.Path, err = url.PathUnescape(escaped); err != nil {
		return "", fmt.Errorf("%s: path does not unescape", redacted(u))
	}
	u.RawPath, u.Fragment, u.RawFragment = escaped, "", ""
	return u.String(), nil
}

func checkName(name string) error {
	for {
		if err := checkPlain(name); err != nil {
			return err
		}
		plain, err := url.PathUnescape(name)
		if err != nil || plain == name {
			return nil
		}
		name = plain
	}
}

func checkPlain(name string) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return errors.New("control characters, or not UTF-8")
	}
	if strings.ContainsAny(name, `:\`) {
		return errors.New(`has ":" or "\"`)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("not a relative path: a part is %q", part)
		}
	}
	return nil
}
