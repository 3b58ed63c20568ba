//go:build !linux

package atomicfile

import "os"

func allocate(f *os.File, size int64) error { return f.Truncate(size) }
