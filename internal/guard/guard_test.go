package guard

import (
	"runtime/debug"
	"testing"
)

// TestNew: the memory is usable, what lies around it is not.
func TestNew(t *testing.T) {
	if !Supported {
		t.Skip("no guard pages here")
	}
	b := New(t, 100)
	b[0], b[len(b)-1] = 1, 2
	if len(b) < 100 || len(b)%100 == 0 {
		t.Errorf("%d bytes", len(b))
	}
	for _, beyond := range []uintptr{^uintptr(0), uintptr(len(b))} {
		if !faults(b, beyond) {
			t.Errorf("offset %d can be read", int(beyond))
		}
	}
}

func faults(b []byte, off uintptr) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	sink = peek(b, off)
	return false
}

var sink byte
