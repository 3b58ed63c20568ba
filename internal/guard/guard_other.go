//go:build !(linux || darwin)

package guard

import "testing"

// Supported tells whether this system has guard pages.
const Supported = false

// New returns plain memory.
func New(_ testing.TB, n int) []byte { return make([]byte, n) }
