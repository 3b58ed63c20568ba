package httpfile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// The defaults of Options, and what cannot be set.
const (
	DefaultRetries       = 5
	DefaultBackoff       = 500 * time.Millisecond
	DefaultMaxBackoff    = 30 * time.Second
	DefaultMaxRetryAfter = 5 * time.Minute
	DefaultStall         = 30 * time.Second
	DefaultBlockSize     = 64 << 10
	DefaultMaxParallel   = 8

	// MaxWhole is the largest file, in bytes, that is read whole from a server
	// that does not send ranges.
	MaxWhole = 1 << 20
	// MaxRedirects is how many redirects are followed, one after another.
	MaxRedirects = 10
)

const (
	cacheBlocks  = 16
	aheadBlocks  = cacheBlocks / 2 // the longest read-ahead
	maxBlockSize = 64 << 20
)

// Options are those of Open. A nil *Options and the zero value mean the
// defaults.
type Options struct {
	// Client sends the requests; its Transport, Jar and Timeout count, redirects
	// are followed by this package. A Timeout cuts long answers, which are then
	// resumed. The default is a client of the File's own, with HTTP/2 and without
	// a proxy: no variable of the environment is read.
	Client *http.Client
	// Token is sent as "Authorization: Bearer Token", only to the scheme, host
	// and port of the URL. It wins over a user and a password in the URL.
	Token string
	// Retries is how many failures of a read are tried again before it fails. A
	// try that brings a block or more starts the count anew. 0 means
	// DefaultRetries, less than 0 none.
	Retries int
	// Backoff is the wait before the first retry. It doubles for each further
	// one, to MaxBackoff; a random part of up to a half is taken off. 0 means
	// DefaultBackoff, DefaultMaxBackoff.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for with
	// Retry-After: a longer one is ErrWait. 0 means DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration
	// OnWait, if not nil, is told before each wait how long it is, and of what
	// failure. Several goroutines may call it at once.
	OnWait func(d time.Duration, why error)
	// Stall is how long a try waits for the next byte. 0 means DefaultStall.
	Stall time.Duration
	// BlockSize is the unit, in bytes, of the cache, which has 16 blocks. Reads
	// of 16 blocks or more do not go through it. 0 means DefaultBlockSize, the
	// most is 64 MiB.
	BlockSize int
	// MaxParallel is a limit on the requests of a File at one time. 0 means
	// DefaultMaxParallel.
	MaxParallel int
}

// filled returns o with the defaults in place of zeros, or what is wrong in it.
func (o *Options) filled() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	setDefault(&d.Retries, DefaultRetries)
	setDefault(&d.Backoff, DefaultBackoff)
	setDefault(&d.MaxBackoff, DefaultMaxBackoff)
	setDefault(&d.MaxRetryAfter, DefaultMaxRetryAfter)
	setDefault(&d.Stall, DefaultStall)
	setDefault(&d.BlockSize, DefaultBlockSize)
	setDefault(&d.MaxParallel, DefaultMaxParallel)
	return d, d.check()
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// check does not show the token in its errors.
func (o *Options) check() error {
	if o.BlockSize < 0 || o.BlockSize > maxBlockSize {
		return fmt.Errorf("block size %d, the limits are 1 and %d", o.BlockSize, maxBlockSize)
	}
	if o.MaxParallel < 0 {
		return fmt.Errorf("%d requests at one time, the least is 1", o.MaxParallel)
	}
	if o.Backoff < 0 || o.MaxBackoff < 0 || o.MaxRetryAfter < 0 || o.Stall < 0 {
		return fmt.Errorf("a time below 0: backoff %v to %v, retry after %v, stall %v", o.Backoff, o.MaxBackoff, o.MaxRetryAfter, o.Stall)
	}
	if i := strings.IndexFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("token has a character at byte %d that no token has", i)
	}
	return nil
}

// backoff is the wait after the given number of failures in a row; after, if that
// is longer.
func (o *Options) backoff(failures int, after time.Duration) time.Duration {
	d := min(o.Backoff, o.MaxBackoff)
	for i := 1; i < failures && d < o.MaxBackoff; i++ {
		d = min(2*d, o.MaxBackoff)
	}
	return max(d-rand.N(d/2+1), after)
}

// newTransport is the transport of a File without Options.Client.
func newTransport(conns int) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// timing is the clock; tests have their own.
type timing struct {
	now   func() time.Time
	wait  func(context.Context, time.Duration) error
	alarm func(time.Duration, func()) alarm
}

// An alarm is a *time.Timer that calls a function.
type alarm interface {
	Reset(time.Duration) bool
	Stop() bool
}

var realTime = timing{
	now:   time.Now,
	wait:  wait,
	alarm: func(d time.Duration, f func()) alarm { return time.AfterFunc(d, f) },
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
