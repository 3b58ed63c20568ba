package format

import (
	"io/fs"
	"os"
	"sync"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/tensor"
)

// A mapping is a file in memory. It goes when it is closed and nobody holds a
// slice of it.
type mapping struct {
	mu     sync.Mutex
	mem    mmap.MMap
	users  int // slices that are held, and 1 until it is closed
	closed bool
}

func newMapping(file *os.File, size int64) (*mapping, error) {
	if int64(int(size)) != size {
		return nil, classed(tensor.ErrUnsupported, "a file of %d bytes is too large to be mapped", size)
	}
	mem, err := mmap.MapRegion(file, int(size), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, err
	}
	return &mapping{mem: mem, users: 1}, nil
}

// hold returns n bytes at off, until release is called.
func (m *mapping) hold(off, n int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fs.ErrClosed
	}
	m.users++
	return m.mem[off : off+n : off+n], nil
}

func (m *mapping) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users == 0 {
		m.mem.Unmap()
	}
}

func (m *mapping) close() {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	m.mu.Unlock()
	if !was {
		m.release()
	}
}

// Bytes returns the bytes of the tensor in the memory of the file, without a
// copy, if the file was opened with Options.Map and all blocks of the tensor
// are raw; else ok is false. They begin on a multiple of File.Align, are not to
// be written to, and are valid until release is called, which must be done
// once, also after Close. Nobody has checked them: Verify does.
func (t *Tensor) Bytes() (p []byte, release func(), ok bool) {
	in, e := &t.f.x.infos[t.i], &t.f.x.entries[t.i]
	if t.f.mapped == nil || !t.f.raw(t.i) {
		return nil, nil, false
	}
	p, err := t.f.mapped.hold(e.offset, in.Size)
	if err != nil {
		return nil, nil, false
	}
	return p, sync.OnceFunc(t.f.mapped.release), true
}

// raw reports whether all blocks of tensor i are.
func (f *File) raw(i int) bool {
	e := &f.x.entries[i]
	for k := e.first; k < e.first+tileCount(&f.x.infos[i]); k++ {
		if _, id, _ := f.x.blocks.at(k); id != codec.Raw {
			return false
		}
	}
	return true
}
