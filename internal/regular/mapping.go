package regular

import (
	"fmt"
	"os"
	"sync"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/demi-weights/demi/tensor"
)

// A Mapping is a file in memory. A nil Mapping is one that there is not: all
// that it has is no bytes.
type Mapping struct {
	lease
	mem []byte // the header of the slice is never changed
}

func newMapping(file *os.File, size int64) *Mapping {
	if size <= 0 || int64(int(size)) != size {
		return nil
	}
	mem, err := mmap.MapRegion(file, int(size), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil
	}
	m := &Mapping{mem: mem}
	m.free = mem.Unmap
	return m
}

// Hold returns n bytes at off, until Release is called; after Close it fails
// with fs.ErrClosed.
func (m *Mapping) Hold(off, n int64) ([]byte, error) {
	size := int64(len(m.mem))
	if off < 0 || n < 0 || off > size || n > size-off {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", tensor.ErrTruncated, n, off, size)
	}
	if err := m.enter(); err != nil {
		return nil, err
	}
	return m.mem[off : off+n : off+n], nil
}

// Release ends what Hold began.
func (m *Mapping) Release() { m.leave() }

// Bytes is Hold with a release that may be called more than once; ok is false
// if there are no such bytes.
func (m *Mapping) Bytes(off, n int64) (p []byte, release func(), ok bool) {
	if m == nil {
		return nil, nil, false
	}
	p, err := m.Hold(off, n)
	if err != nil {
		return nil, nil, false
	}
	return p, sync.OnceFunc(m.leave), true
}

func (m *Mapping) close() {
	if m != nil {
		m.end() // unmapping what is mapped does not fail
	}
}
