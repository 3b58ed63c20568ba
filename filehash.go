package demi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/demi-weights/demi/internal/ordered"
)

// hashBuffer is how much of a file is read and hashed at once, in bytes.
const hashBuffer = 1 << 20

// HashFiles reads the files of checkpoints, several at once, and returns the
// SHA-256 of each in hexadecimal digits: for each checkpoint in the order of its
// Sections, and none if its files are not the operating system's. A file that is
// not as large as when it was opened is tensor.ErrChanged. The phase of its
// Progress is "hash", without tensors.
//
// The files of a conversion are written by several goroutines and not front to
// back, so their hashes cannot be had on the way: they cost reading again,
// mostly from the memory of the system.
func HashFiles(ctx context.Context, o *RunOptions, checkpoints ...*Checkpoint) (sums [][]string, err error) {
	run := o.withDefaults()
	workers, err := run.workers(hashBuffer)
	if err != nil {
		return nil, err
	}
	h := &fileHasher{buffers: make([][]byte, workers), meter: &progress{run.Progress, Progress{Phase: "hash"}}}
	var files []*Section
	for _, c := range checkpoints {
		for i := range c.sections {
			files = append(files, &c.sections[i])
			h.meter.now.Total += c.sections[i].Size
		}
	}
	all := make([]string, len(files))
	err = ordered.Map(ctx, int64(len(files)), workers, workers, func(ctx context.Context, w int, i int64) (string, error) {
		return h.file(ctx, w, files[i])
	}, func(i int64, sum string) error {
		all[i] = sum
		return nil
	})
	for _, c := range checkpoints {
		sums, all = append(sums, all[:len(c.sections)]), all[len(c.sections):]
	}
	return sums, err
}

// A fileHasher is one run of HashFiles.
type fileHasher struct {
	buffers [][]byte // of the workers
	mu      sync.Mutex
	meter   *progress
}

func (h *fileHasher) file(ctx context.Context, worker int, s *Section) (string, error) {
	f, err := os.Open(s.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, at := sha256.New(), int64(0)
	p := grow(&h.buffers[worker], hashBuffer)
	for ctx.Err() == nil {
		n, err := f.Read(p)
		sum.Write(p[:n])
		at += int64(n)
		h.add(int64(n))
		if err == io.EOF && at == s.Size {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err == io.EOF || at > s.Size {
			return "", changedFile(s.File, "it has %d bytes or more, and had %d", at, s.Size)
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", s.File, err)
		}
	}
	return "", ctx.Err()
}

func (h *fileHasher) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.meter.add(n, "")
}
