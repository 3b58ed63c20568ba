//go:build unix

package safetensors_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used of the processors, in its own code: a
// machine with other work does not change it much.
func cpuTime() time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano())
}
