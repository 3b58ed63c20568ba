package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/httpfile"
)

// open opens a checkpoint on this machine or behind a URL; ctx counts as long
// as it is read.
func (a *app) open(ctx context.Context, path string) (c *demi.Checkpoint, err error) {
	o := demi.OpenOptions{Lenient: a.lenient, Dequantize: demi.Dequantize(a.dequant)}
	if demi.IsURL(path) {
		c, err = demi.OpenURL(ctx, path, &demi.URLOptions{OpenOptions: o, Token: tokenFor(path, os.Getenv), OnWait: (&waiting{app: a}).tell})
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

// longWait is that of which its user is told.
const longWait = 5 * time.Second

// A waiting tells on stderr of long pauses: of those that several requests make
// at the same time, once.
type waiting struct {
	app *app
	mu  sync.Mutex
	end time.Time // of the pause that was told
}

func (w *waiting) tell(d time.Duration, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := time.Now().Add(d)
	if w.app.quiet || d < longWait || end.Before(w.end.Add(longWait)) {
		return
	}
	w.end = end
	begin := ""
	if w.app.progress == "auto" && w.app.terminal() {
		begin = "\r\x1b[K" // in place of the progress, which comes back
	}
	fmt.Fprintf(w.app.stderr, "%sdemi: waiting %v, then trying again: %s\n", begin, d.Round(time.Second), printableLines(why.Error()))
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
