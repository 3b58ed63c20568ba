package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// lock locks f against other lock calls: a byte far behind its end.
func lock(f *os.File) error {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrBusy
	}
	return err
}

// links returns the number of names that a file has: one, as far as can be
// seen.
func links(fs.FileInfo) uint64 { return 1 }

// takeOpen reports whether a file can take its name while it is open, and so
// locked.
const takeOpen = false
