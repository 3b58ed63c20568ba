//go:build !linux

package atomicfile

import "os"

func startFlush(*os.File) {}
