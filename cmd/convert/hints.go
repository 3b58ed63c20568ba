package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/demi-weights/demi"
)

// A hintError is an error with advice.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

func hinted(err error, hint string) error { return hintError{err, hint} }

// hint returns advice for the likely mistake, or "". Readers put what a file
// really is, such as a Git LFS pointer, into their errors themselves.
func hint(err error) string {
	var h hintError
	switch {
	case errors.As(err, &h):
		return h.hint
	case errors.Is(err, demi.ErrOverflow):
		return "BF16 has the range of F32 (--dtype bf16); or --on-overflow keep, saturate, ieee; or --keep 'regex=type'"
	case errors.Is(err, fs.ErrExist):
		return "choose another name, or --force to replace a file"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
