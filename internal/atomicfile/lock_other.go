//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package atomicfile

import (
	"io/fs"
	"os"
)

const noFollow = 0

// lock does nothing: two processes that write the same output are not kept
// apart here, and the one that ends first wins.
func lock(*os.File) error { return nil }

// links returns the number of names that a file has: one, as far as can be
// seen.
func links(fs.FileInfo) uint64 { return 1 }

// takeOpen reports whether a file can take its name while it is open, and so
// locked.
const takeOpen = true
