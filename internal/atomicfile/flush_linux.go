package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// startFlush asks the system to begin to write what f has in the page cache,
// and does not wait for it. It is of use only if it works.
func startFlush(f *os.File) {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
