package httpfile

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// A File is a file at a URL. Its methods may be called by several goroutines at
// once.
type File struct {
	given  string // the URL
	name   string // the URL without secrets, for errors
	origin place
	auth   string // the Authorization header, "" for none
	opts   Options
	time   timing
	client *http.Client
	own    *http.Transport // nil with Options.Client

	ctx    context.Context // of all requests; ends with Close
	cancel context.CancelCauseFunc
	slots  chan struct{} // one for each request at a time

	version *version // nil until the first answer
	whole   []byte   // all of the file, if version.size bytes came at once
	isWhole bool
	cache   cache

	requests, retries, received atomic.Int64

	mu     sync.Mutex
	latest *place // where the URL led the last time, nil if nowhere else
}

var _ io.ReaderAt = (*File)(nil)

// Stats are counts since Open.
type Stats struct {
	Requests int64 // sent: those that were redirected or failed, too
	Retries  int64 // after a failure
	Bytes    int64 // of the file received, also more than once
}

// Open asks for the first block of the file at an http or https URL, and knows
// its size from the answer. Close ends what Open begins.
//
// ctx counts as long as the File is used: when it ends, all reads fail with its
// error.
//
// The file is the version that is opened. Where the server sends a strong ETag,
// or else Last-Modified, another version is ErrChanged; without either, only
// another size is. Small files (MaxWhole) may come from any server, larger ones
// from one that sends ranges only, else the error is ErrNoRange.
//
// Redirects are followed. Where they lead is remembered, and found anew from
// the URL when it answers no more, as signed URLs do once they expire. The
// token goes to the host of the URL only, and never from https to http.
func Open(ctx context.Context, rawURL string, opts *Options) (*File, error) {
	return open(ctx, rawURL, opts, realTime)
}

func open(ctx context.Context, rawURL string, opts *Options, clock timing) (*File, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	f := &File{given: rawURL, name: redacted(u), time: clock}
	if f.opts, err = opts.filled(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	f.auth = authorization(f.opts.Token, u.User)
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	f.origin = place{url: u, trusted: true}
	f.setClient()
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.slots = make(chan struct{}, f.opts.MaxParallel)
	if err := f.readFirst(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// authorization is what net/http makes of a user in a URL (RFC 7617), or the
// token (RFC 6750).
func authorization(token string, user *url.Userinfo) string {
	if token != "" {
		return "Bearer " + token
	}
	if user == nil {
		return ""
	}
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}

// setClient makes a client that does not follow redirects by itself.
func (f *File) setClient() {
	client := http.Client{}
	if f.opts.Client != nil {
		client = *f.opts.Client
	} else {
		f.own = newTransport(f.opts.MaxParallel)
		client.Transport = f.own
	}
	client.Transport = noRedirects{client.Transport}
	f.client = &client
}

// readFirst makes the first block the first in the cache.
func (f *File) readFirst() error {
	t := &transfer{p: make([]byte, f.opts.BlockSize)}
	if err := f.complete(t); err != nil {
		return &Error{URL: f.name, Off: 0, Len: int64(f.opts.BlockSize), Err: err}
	}
	f.cache.init(f.opts.BlockSize, f.version.size, f.fetch)
	if !f.isWhole {
		f.cache.put(0, t.p)
	}
	return nil
}

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.version.size }

// URL returns the URL that was opened. It may have secrets in it: Redact is for
// messages.
func (f *File) URL() string { return f.given }

// ETag returns the strong entity tag, in its quotes, that all answers must
// have, or "" if the server sent none.
func (f *File) ETag() string { return f.version.etag }

// Stats returns the counts up to now.
func (f *File) Stats() Stats {
	return Stats{Requests: f.requests.Load(), Retries: f.retries.Load(), Bytes: f.received.Load()}
}

// Close ends the reads that are going on, and all later ones, with
// fs.ErrClosed. It returns nil.
func (f *File) Close() error {
	f.cancel(fs.ErrClosed)
	if f.own != nil {
		f.own.CloseIdleConnections()
	}
	return nil
}

// ReadAt reads len(p) bytes from byte off, less only with an error: io.EOF at
// the end of the file, any other one in an *Error. The n bytes before the error
// are those of the file. What is beyond n in p may be anything.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.fail(p, off, errors.New("negative offset"))
	}
	if err := f.ended(); err != nil {
		return 0, f.fail(p, off, err)
	}
	left := max(f.version.size-off, 0)
	short := int64(len(p)) > left
	if short {
		p = p[:left]
	}
	if n, err = f.read(p, off); err != nil {
		return n, f.fail(p, off, err)
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

func (f *File) fail(p []byte, off int64, err error) error {
	return &Error{URL: f.name, Off: off, Len: int64(len(p)), Err: err}
}

// read reads a part of the file.
func (f *File) read(p []byte, off int64) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case f.isWhole:
		return copy(p, f.whole[off:]), nil
	case len(p) >= cacheBlocks*f.opts.BlockSize:
		return f.fetch(p, off)
	}
	return f.cache.read(p, off)
}

// ended is why no more requests are made, nil while they are.
func (f *File) ended() error {
	err, cause := f.ctx.Err(), context.Cause(f.ctx)
	if err == nil || cause == err || cause == fs.ErrClosed {
		return cause
	}
	return fmt.Errorf("%w: %w", err, noEOF(cause))
}
