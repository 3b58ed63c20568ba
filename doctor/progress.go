package doctor

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/demi-weights/demi/tensor"
)

// workerMemory is what a goroutine of Scan needs of buffers: a block of values,
// and a tile of a store, stored and decoded.
const workerMemory = 1 << 20

// limit lowers the goroutines of a scan to what the memory allows.
func (o *Options) limit() error {
	if !o.Scan || o.MaxMemory <= 0 {
		return nil
	}
	if o.MaxMemory < workerMemory {
		return fmt.Errorf("%w: a memory limit of %d bytes; one worker needs %d", tensor.ErrLimit, o.MaxMemory, workerMemory)
	}
	o.Workers = int(min(int64(o.Workers), o.MaxMemory/workerMemory))
	return nil
}

// A progress adds up what a scan has read.
type progress struct {
	report func(Progress)
	mu     sync.Mutex
	now    Progress
	until  int64 // Done at the end of the file that is read
}

// begin finds out how much there is to read below a path.
func (p *progress) begin(path string) {
	if p.report == nil {
		return
	}
	p.now.Total += scanSize(path)
	entries, _ := os.ReadDir(path) // what cannot be listed is told elsewhere
	for _, e := range entries {
		at := filepath.Join(path, e.Name())
		p.now.Total += scanSize(at)
		if e.IsDir() && isPipeline(path) {
			below, _ := os.ReadDir(at)
			for _, b := range below {
				p.now.Total += scanSize(filepath.Join(at, b.Name()))
			}
		}
	}
}

func isPipeline(path string) bool {
	_, err := os.Stat(filepath.Join(path, pipelineFile))
	return err == nil
}

// scanSize is how much a scan reads of a file: twice what has checksums.
func scanSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	switch kindOfName(path) {
	case "":
		return 0
	case demiKind, pytorchKind:
		return 2 * info.Size()
	}
	return info.Size()
}

// file begins a file, and end ends it.
func (p *progress) file(path string) {
	p.now.File = path
	p.until = p.now.Done + scanSize(path)
}

func (p *progress) end() { p.read(p.until) }

// read adds n bytes, of those that the file has left.
func (p *progress) read(n int64) {
	if p.report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Done = min(p.now.Done+n, p.until)
	p.report(p.now)
}

// A counted file tells the progress what is read of it.
type counted struct {
	io.ReaderAt
	p *progress
}

func (c counted) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, off)
	c.p.read(int64(n))
	return n, err
}
