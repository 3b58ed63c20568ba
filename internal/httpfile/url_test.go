package httpfile

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/demi-weights/demi/tensor"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"https://h/a/b":                         "https://h/a/b",
		"https://u:secret@h/a":                  "https://xxxxx@h/a",
		"https://secret@h:1/a":                  "https://xxxxx@h:1/a",
		"https://h/a?download=secret":           "https://h/a?download=xxxxx",
		"https://h/a?X-Sig=secret&e=12":         "https://h/a?X-Sig=xxxxx&e=xxxxx",
		"https://h/a?secret":                    "https://h/a?xxxxx",
		"https://h/a?secret==":                  "https://h/a?xxxxx",
		"https://h/a?secret=":                   "https://h/a?xxxxx",
		"https://h/a?b=c;secret":                "https://h/a?b=xxxxx",
		"https://h/a?sec.ret=secret":            "https://h/a?xxxxx",
		"https://h/a?b=c&&" + longSecret + "=1": "https://h/a?b=xxxxx&xxxxx&xxxxx",
		"https://h/a#secret":                    "https://h/a",
		"http:secret":                           "http:xxxxx",
		"https://h:secret/":                     "(not a URL)",
		"https://h/%zz?secret":                  "(not a URL)",
	} {
		require.Equal(t, want, Redact(in), in)
	}
}

const longSecret = "secretsecretsecretsecretsecretsecret"

// No message about a URL that cannot be opened has its secrets.
func TestOpenURL(t *testing.T) {
	for in, want := range map[string]string{
		"ftp://u:secret@h/a?b=secret": `ftp://xxxxx@h/a?b=xxxxx: scheme "ftp", wanted http or https`,
		"/a/b":                        `/a/b: scheme "", wanted http or https`,
		"http:///a":                   "http:///a: URL without a host",
		"https:secret":                "https:xxxxx: URL without a host",
		"http://u:sec/ret@h":          "not a URL",
		"http://h/%zz?secret":         "not a URL",
		"http://h/\x00secret":         "not a URL",
		"http://h:99999/a":            "http://h:99999/a: port 99999, wanted 1 to 65535",
		"http://h:0/a":                "http://h:0/a: port 0, wanted 1 to 65535",
		"":                            `: scheme "", wanted http or https`,
	} {
		_, err := Open(t.Context(), in, nil)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, ErrURL)
		_, err = Join(in, "a")
		require.EqualError(t, err, want)
	}
}

func TestJoin(t *testing.T) {
	for _, c := range []struct{ base, name, want string }{
		{"https://h/a/index.json", "b.x", "https://h/a/b.x"},
		{"https://h/a/", "b.x", "https://h/a/b.x"},
		{"https://h/index.json", "b/c.x", "https://h/b/c.x"},
		{"https://h", "b", "https://h/b"},
		{"https://u:p@h:1/a/i?sig=1&x=/y#f", "b", "https://u:p@h:1/a/b?sig=1&x=/y"},
		{"https://h/refs%2Fpr%2F1/i", "b", "https://h/refs%2Fpr%2F1/b"},
		{"https://h/a b/i", "c d", "https://h/a%20b/c%20d"},
		{"https://h/a/i", "b?c#d", "https://h/a/b%3Fc%23d"},
		{"https://h/a/i", "100%.x", "https://h/a/100%25.x"},
		{"https://h/a/i", "a%20b", "https://h/a/a%2520b"},
		{"https://h/a/i", "ä", "https://h/a/%C3%A4"},
		{"https://h/a/i", "..b", "https://h/a/..b"},
		{"https://h/a/i", "...", "https://h/a/..."},
	} {
		got, err := Join(c.base, c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, name := range []string{"", ".", "..", "../b", "a/../b", "a/..", "a/./b", "/b", "//h/b", "a//b", "a/", "http://h/b", "http:b", "C:b",
		`a\b`, `..\b`, "%2e%2e/b", "..%2fb", "%2E%2E%2Fb", "%252e%252e/b", "%2fb", "a%5c..", "a%3ab", "a\nb", "a\x00b", "a%00b", "\xff", "a%ffb"} {
		_, err := Join("https://h/a/i", name)
		require.ErrorContains(t, err, "file name ", name)
		require.ErrorIs(t, err, tensor.ErrFormat, name)
	}
}

// Whatever the name, what Join makes is below the directory of the base.
func TestJoinStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", ".", "/", `\`, ":", "%", "2e", "2f", "25", "?", "#", "@", "ä", " ", "http"})).Draw(t, "name"), "")
		got, err := Join("https://h/a/b%2Fc/i?q=1", name)
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Host != "h" || u.Scheme != "https" || u.RawQuery != "q=1" || u.Fragment != "" || u.User != nil {
			t.Fatal(got, err)
		}
		dir, file := path.Split(u.EscapedPath())
		if !strings.HasPrefix(dir, "/a/b%2Fc/") || file == "" || path.Clean(u.Path) != u.Path || u.Path != "/a/b/c/"+name {
			t.Fatal(got)
		}
	})
}
