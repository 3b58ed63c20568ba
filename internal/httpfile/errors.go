package httpfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/demi-weights/demi/tensor"
)

// The classes of error that a caller may want to tell apart with errors.Is.
// Besides, an answer of 401 or 403 is fs.ErrPermission, one of 404 or 410 is
// fs.ErrNotExist, and a File that was closed answers fs.ErrClosed.
var (
	// ErrNoRange is a server that does not send parts of a file, and a file that
	// is too large to be read whole.
	ErrNoRange = errors.New("server does not send ranges")
	// ErrChanged is a file that is not the one that was opened.
	ErrChanged = fmt.Errorf("%w on the server", tensor.ErrChanged)
	// ErrBadAnswer is an answer that is not the one to the question: another
	// range or length, an encoding that was not asked for.
	ErrBadAnswer = errors.New("wrong answer of the server")
	// ErrStalled is a server that sent nothing for Options.Stall.
	ErrStalled = errors.New("server stalled")
	// ErrWait is a server that asks to come again later than
	// Options.MaxRetryAfter.
	ErrWait = errors.New("server asks for a long wait")
	// ErrURL is text that is no URL of a file.
	ErrURL = errors.New("no URL of a file")
	// ErrRedirect is a redirect that is not followed.
	ErrRedirect = errors.New("redirect not followed")
)

// An Error says which bytes of which file could not be read. Err has the
// reason; it is never io.EOF or io.ErrUnexpectedEOF, which readers take for the
// end of the file.
type Error struct {
	URL string // as it was opened, without secrets (see Redact)
	Off int64  // in bytes
	Len int64  // in bytes
	Err error
}

// Error reads "https://host/name: bytes 0-65535: ...".
func (e *Error) Error() string {
	return fmt.Sprintf("%s: bytes %d-%d: %v", e.URL, e.Off, e.Off+max(e.Len, 1)-1, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A StatusError is an answer other than the file.
type StatusError struct {
	Status int    // such as 404
	URL    string // that answered, after redirects, without secrets
}

// Error reads "404 Not Found from https://host/name".
func (e *StatusError) Error() string {
	status := strings.TrimSpace(strconv.Itoa(e.Status) + " " + http.StatusText(e.Status))
	return status + " from " + e.URL
}

// Is says whether target is the class of e in io/fs.
func (e *StatusError) Is(target error) bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == fs.ErrPermission
	case http.StatusNotFound, http.StatusGone:
		return target == fs.ErrNotExist
	}
	return false
}

// A failure is an error after which a try may be made again.
type failure struct {
	err   error
	after time.Duration // what Retry-After says, 0 if nothing
	moved bool          // a remembered place answers no more: start over from the URL, at once
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// sendError is the error of a request that had no answer. net/http puts the
// whole URL into its errors, secrets included: that part is left out.
func sendError(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var (
		certificate *tls.CertificateVerificationError
		lookup      *net.DNSError
		malformed   textproto.ProtocolError
	)
	if errors.As(err, &malformed) {
		return &failure{err: badAnswer("malformed header")} // the error has its text
	}
	if errors.As(err, &certificate) || errors.As(err, &lookup) && lookup.IsNotFound {
		return err // the same the next time
	}
	return &failure{err: noEOF(err)}
}

// noEOF takes io.EOF out of the chain of err: here it is a broken connection,
// and not the end of the file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("connection ended: %v", err)
	}
	return err
}

// badAnswer makes an error of the class ErrBadAnswer.
func badAnswer(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadAnswer}, args...)...)
}

// changed makes an error of the class ErrChanged.
func changed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrChanged}, args...)...)
}

// quote quotes what a server sent, as much of it as fits a message.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
