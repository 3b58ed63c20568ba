package main

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/httpfile"
)

// open opens a checkpoint on this machine or behind a URL; ctx counts as long
// as it is read.
func (a *app) open(ctx context.Context, path string) (c *demi.Checkpoint, err error) {
	o := demi.OpenOptions{Lenient: a.lenient, Dequantize: demi.Dequantize(a.dequant)}
	if demi.IsURL(path) {
		c, err = demi.OpenURL(ctx, path, &demi.URLOptions{OpenOptions: o, Token: tokenFor(path, os.Getenv)})
		err = denied(err, path)
	} else if c, err = demi.Open(path, &o); errors.Is(err, fs.ErrNotExist) && strings.Contains(path, "://") {
		err = usagef("%s: of URLs, those of http and https can be read", shown(path))
	}
	if err != nil {
		return nil, sourceError(err)
	}
	a.warn(c.Warnings())
	return opened(c), nil
}

// opened is a hook for tests, which break what has been opened.
var opened = func(c *demi.Checkpoint) *demi.Checkpoint { return c }

// tokenFor returns the token for a URL: DEMI_TOKEN, which its user has set for
// this program, else HF_TOKEN, which others use as well, for its own hosts.
func tokenFor(path string, getenv func(string) string) string {
	if t := getenv("DEMI_TOKEN"); t != "" {
		return t
	}
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if host == "huggingface.co" || strings.HasSuffix(host, ".huggingface.co") {
		return getenv("HF_TOKEN")
	}
	return ""
}

func denied(err error, path string) error {
	if errors.Is(err, fs.ErrPermission) && tokenFor(path, os.Getenv) == "" {
		return hinted(err, "if the server wants a token, put it into DEMI_TOKEN (HF_TOKEN for huggingface.co)")
	}
	return err
}

// shown returns a path as it may be printed: a URL, of any scheme, without its
// secrets.
func shown(path string) string {
	if strings.Contains(path, "://") {
		return httpfile.Redact(path)
	}
	return path
}
