package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/batch"
	"github.com/demi-weights/demi/internal/httpfile"
	"github.com/demi-weights/demi/internal/ordered"
	"github.com/demi-weights/demi/tensor"
)

// A class is a kind of failure: its exit code, and whether the same command
// may succeed later without anything having been changed.
type class struct {
	Name  string
	Code  int
	Retry bool
}

var (
	classLimit      = class{"limit", 1, false}
	classUsage      = class{"usage", 2, false}
	classInput      = class{"input", 3, false}
	classIO         = class{"io", 4, true}
	classExists     = class{"exists", 5, false}
	classIncomplete = class{"incomplete", 4, true}
	classInternal   = class{"internal", 70, false}
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// inputError is an error about the source that has no class of its own, such
// as a file that is not there.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// errViolated is a result that breaks a limit; it has been reported already.
var errViolated = errors.New("a limit is violated")

// signalError is the end of the work by a signal.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return "stopped by signal: " + e.String() }

func (e signalError) code() int {
	switch e.Signal {
	case syscall.SIGTERM:
		return 143
	case syscall.SIGHUP:
		return 129
	}
	return 130
}

func newPanic(v any) error { return &ordered.PanicError{Value: v, Stack: debug.Stack()} }

// classify is the one table of failures. The first row that applies decides.
func classify(err error) class {
	var signal signalError
	var panicked *ordered.PanicError
	var usage usageError
	var input inputError
	var failure *batch.Failure
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(syscall.EPIPE):
		return class{"pipe", 141, false}
	case errors.As(err, &signal):
		return class{"signal", signal.code(), true}
	case errors.As(err, &panicked):
		return classInternal
	case errors.As(err, &usage), is(demi.ErrOutput, httpfile.ErrURL):
		return classUsage
	case errors.As(err, &failure): // which was classified when it came up
		return class{failure.Class, failure.Exit, failure.Retry}
	case is(demi.ErrIncomplete):
		return classIncomplete
	case is(fs.ErrExist):
		return classExists
	case is(errViolated, errFault, demi.ErrOverflow, demi.ErrNaN, demi.ErrTargetSize):
		return classLimit
	case fileError(err) != nil && is(tensor.ErrLimit):
		return classInput
	case is(tensor.ErrLimit):
		return classLimit
	case is(tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrChanged):
		return classInput
	case errors.As(err, &input):
		return classInput
	}
	if is(httpfile.ErrNoRange, httpfile.ErrRedirect, fs.ErrPermission, syscall.EROFS, syscall.ENAMETOOLONG, syscall.ENOTDIR) {
		return class{classIO.Name, classIO.Code, false}
	}
	return classIO
}

// fileError returns the place of an error, or nil.
func fileError(err error) *tensor.FileError {
	var e *tensor.FileError
	errors.As(err, &e)
	return e
}

// sourceError marks an error of opening the source: what is not there, or may
// not be read, is bad input.
func sourceError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return inputError{err}
	}
	return err
}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
