package main

import (
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// mostMemory is the limit of buffers where no one has set any: more makes
// nothing faster.
const mostMemory = 1 << 30

// defaultMemory returns the limit of buffers that holds without --max-memory:
// half of what the cgroup of the process may have, if it has a limit, for the
// program and the cache of files need some as well.
func defaultMemory() int64 { return halfOf(memlimit.FromCgroup) }

func halfOf(limit memlimit.Provider) int64 {
	n, err := limit()
	if err != nil || n == 0 { // there is none, or no cgroup
		return mostMemory
	}
	return int64(min(n/2, mostMemory))
}

// ownMemory is what the program may take beside what a limit is about.
const ownMemory = 16 << 20

// collectAt makes the garbage collector keep to a limit: without one it lets the
// heap become twice as large as what is in use.
func collectAt(limit int64) {
	debug.SetMemoryLimit(min(limit+ownMemory, debug.SetMemoryLimit(-1)))
}
