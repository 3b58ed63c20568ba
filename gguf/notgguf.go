package gguf

import (
	"fmt"

	"github.com/demi-weights/demi/internal/sniff"
)

// notGGUF says what a file is that does not begin as a GGUF file does.
func notGGUF(head []byte) string {
	what, hint := sniff.Sniff(head)
	if what == "" {
		return fmt.Sprintf("file begins with %q, a GGUF file with %q", head[:min(len(head), len(magic))], magic)
	}
	return fmt.Sprintf("file is %s, want a GGUF file: %s", what, hint)
}
