package httpfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// A transfer is a range on its way: n bytes of p, which begins at byte off of
// the file, are there. The first one of a File may find that the file ends
// before p does: then p becomes shorter.
type transfer struct {
	p   []byte
	off int64
	n   int
}

// at is the byte of the file that comes next.
func (t *transfer) at() int64 { return t.off + int64(t.n) }

func (t *transfer) left() int64 { return int64(len(t.p) - t.n) }

// header is the value of Range.
func (t *transfer) header() string {
	return "bytes=" + strconv.FormatInt(t.at(), 10) + "-" + strconv.FormatInt(t.off+int64(len(t.p))-1, 10)
}

// fetch reads len(p) bytes, one or more, from byte off, all of them in the file.
func (f *File) fetch(p []byte, off int64) (int, error) {
	t := &transfer{p: p, off: off}
	err := f.complete(t)
	return t.n, err
}

// complete tries until all of t is there or nothing helps.
func (f *File) complete(t *transfer) error {
	fresh := false
	for failures := 0; ; {
		before := t.n
		err := f.try(t, fresh)
		var again *failure
		if !errors.As(err, &again) {
			return err
		}
		if again.moved {
			fresh = true // which cannot fail for the same reason
			continue
		}
		if t.n-before >= f.opts.BlockSize {
			failures = 0
		}
		failures++
		if err := f.pause(failures, again); err != nil {
			return err
		}
		fresh = failures > 1 // perhaps it is the place where the URL led
	}
}

// pause waits for the time of another try, or returns why there is none.
func (f *File) pause(failures int, again *failure) error {
	if again.after > f.opts.MaxRetryAfter {
		return fmt.Errorf("%w: %w, Retry-After of %v, the limit is %v", ErrWait, again.err, again.after, f.opts.MaxRetryAfter)
	}
	if failures > f.opts.Retries {
		return fmt.Errorf("given up at try %d: %w", failures, again.err)
	}
	f.retries.Add(1)
	d := f.opts.backoff(failures, again.after)
	if f.opts.OnWait != nil {
		f.opts.OnWait(d, again.err)
	}
	if err := f.time.wait(f.ctx, d); err != nil {
		return f.ended()
	}
	return nil
}

// An attempt is one try of a transfer, with all its redirects.
type attempt struct {
	*File
	*transfer
	ctx   context.Context
	alarm alarm // goes off when no byte came for a time
}

// try asks for what is missing of t. An error that is a *failure may pass.
func (f *File) try(t *transfer, fresh bool) error {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-f.ctx.Done():
		return f.ended()
	}
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	a := &attempt{f, t, ctx, f.time.alarm(f.opts.Stall, func() { cancel(ErrStalled) })}
	defer a.alarm.Stop()
	return a.reason(a.run(f.start(fresh)))
}

// reason is err, or what made the attempt end before it.
func (a *attempt) reason(err error) error {
	var again *failure
	if !errors.As(err, &again) {
		return err
	}
	if err := a.ended(); err != nil {
		return err
	}
	if context.Cause(a.ctx) == ErrStalled {
		return &failure{err: fmt.Errorf("%w: nothing for %v at byte %d", ErrStalled, a.opts.Stall, a.at())}
	}
	return err
}

func (a *attempt) run(from place) error {
	resp, at, err := a.follow(from)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusPartialContent && resp.StatusCode != http.StatusOK {
		defer drain(resp)
		return a.refused(resp, at)
	}
	defer resp.Body.Close()
	if err := a.accept(resp); err != nil {
		return err
	}
	a.remember(at)
	if a.isWhole {
		return nil
	}
	return a.receive(resp)
}

// start is where the File was last, or its URL.
func (f *File) start(fresh bool) place {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest == nil || fresh {
		return f.origin
	}
	return *f.latest
}

func (f *File) remember(at place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = nil
	if at.url != f.origin.url {
		at.remembered = true
		f.latest = &at
	}
}

// follow sends the request, and again to where redirects lead.
func (a *attempt) follow(at place) (*http.Response, place, error) {
	for range MaxRedirects + 1 {
		resp, err := a.send(at)
		if err != nil || !isRedirect(resp.StatusCode) {
			return resp, at, err
		}
		drain(resp)
		if at, err = at.next(resp); err != nil {
			return nil, at, err
		}
	}
	return nil, at, fmt.Errorf("%w: more than %d, the last to %s", ErrRedirect, MaxRedirects, redacted(at.url))
}

func (a *attempt) send(to place) (*http.Response, error) {
	req := (&http.Request{Method: http.MethodGet, URL: to.url, Host: to.url.Host, Header: http.Header{}}).WithContext(a.ctx)
	req.Header.Set("Range", a.header())
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "demi")
	if a.auth != "" && to.trusted {
		req.Header.Set("Authorization", a.auth)
	}
	if a.version != nil {
		a.version.ask(req.Header)
	}
	a.requests.Add(1)
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, sendError(err)
	}
	a.alarm.Reset(a.opts.Stall)
	return resp, nil
}

// refused is the error of an answer without bytes of the file.
func (a *attempt) refused(resp *http.Response, at place) error {
	status := &StatusError{Status: resp.StatusCode, URL: redacted(at.url)}
	switch {
	case isBusy(resp.StatusCode):
		return &failure{err: status, after: retryAfter(resp.Header, a.time.now())}
	case a.version == nil && isEmpty(resp):
		return a.keepWhole(nil, resp)
	case a.version != nil && (resp.StatusCode == http.StatusPreconditionFailed || resp.StatusCode == http.StatusRequestedRangeNotSatisfiable):
		return fmt.Errorf("%w: %w, size was %d", ErrChanged, status, a.version.size)
	case at.remembered:
		return &failure{err: status, moved: true}
	}
	return status
}

// accept checks an answer with bytes, all but the bytes. The first one says
// which version is read from then on.
func (a *attempt) accept(resp *http.Response) error {
	if err := checkEncoding(resp); err != nil {
		return err
	}
	if a.version != nil {
		if err := a.version.check(resp.Header); err != nil {
			return err
		}
	}
	if resp.StatusCode == http.StatusOK {
		return a.acceptWhole(resp)
	}
	return a.acceptRange(resp)
}

func (a *attempt) acceptRange(resp *http.Response) error {
	r, err := rangeOf(resp.Header)
	if err != nil {
		return err
	}
	if a.version != nil && r.size != a.version.size {
		return changed("size was %d, is %d", a.version.size, r.size)
	}
	if err := r.check(a.at(), a.left(), resp.ContentLength); err != nil {
		return err
	}
	if a.version == nil {
		a.version = versionOf(resp.Header, r.size)
		a.p = a.p[:min(int64(len(a.p)), r.size)]
	}
	return nil
}

// acceptWhole reads a file that came whole, which a small one may on Open.
func (a *attempt) acceptWhole(resp *http.Response) error {
	if a.version != nil {
		return fmt.Errorf("%w any more", ErrNoRange)
	}
	if resp.ContentLength > MaxWhole {
		return fmt.Errorf("%w, and the file has %d bytes", ErrNoRange, resp.ContentLength)
	}
	if err := endless(resp); err != nil {
		return err
	}
	var whole bytes.Buffer
	_, err := io.Copy(&whole, io.LimitReader(&meter{a, resp.Body}, MaxWhole+1))
	if err != nil {
		return &failure{err: noEOF(err)}
	}
	if whole.Len() > MaxWhole {
		return fmt.Errorf("%w, and the file has more than %d bytes", ErrNoRange, MaxWhole)
	}
	return a.keepWhole(whole.Bytes(), resp)
}

func (f *File) keepWhole(p []byte, resp *http.Response) error {
	f.whole, f.isWhole = p, true
	f.version = versionOf(resp.Header, int64(len(p)))
	return nil
}

// receive reads the body into p. Bytes beyond the range say that the answer was
// not what it claimed.
func (a *attempt) receive(resp *http.Response) error {
	body := &meter{a, resp.Body}
	n, err := io.ReadFull(body, a.p[a.n:])
	a.n += n
	if err != nil {
		return &failure{err: fmt.Errorf("at byte %d: %w", a.at(), noEOF(err))}
	}
	if resp.ContentLength >= 0 {
		return nil // net/http ends the body there
	}
	if more, _ := io.ReadFull(body, make([]byte, 1)); more > 0 {
		err := badAnswer("goes on at byte %d, where its range ends", a.at())
		a.n -= n // who knows what they are
		return err
	}
	return nil
}

// A meter counts bytes and puts the alarm off.
type meter struct {
	*attempt
	r io.Reader
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 {
		m.received.Add(int64(n))
		m.alarm.Reset(m.opts.Stall)
	}
	return n, err
}
