package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"runtime"

	"github.com/demi-weights/demi/internal/fault"
)

// What follows asks the system to change something that a run after this one
// will find. Removal of what a failed run leaves is not among it.

func openFile(path string) (*os.File, error) {
	if err := fault.On(fault.Open, path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o666)
}

func mkdir(path string) error {
	if err := fault.On(fault.Mkdir, path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o777)
}

// MkdirAll makes a directory, and those that it is in, where they are missing.
func MkdirAll(path string) error {
	if err := fault.On(fault.Mkdir, path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o777)
}

func reserve(f *os.File, size int64) error {
	if err := fault.On(fault.Reserve, f.Name()); err != nil {
		return err
	}
	return allocate(f, size)
}

func truncate(f *os.File, size int64) error {
	if err := fault.On(fault.Truncate, f.Name()); err != nil {
		return err
	}
	return f.Truncate(size)
}

func write(f *os.File, p []byte) (int, error) {
	if err := fault.On(fault.Write, f.Name()); err != nil {
		return 0, err
	}
	return f.Write(p)
}

func writeAt(f *os.File, p []byte, off int64) (int, error) {
	if err := fault.On(fault.Write, f.Name()); err != nil {
		return 0, err
	}
	return f.WriteAt(p, off)
}

func syncFile(f *os.File) error {
	if err := fault.On(fault.Sync, f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

func rename(from, to string) error {
	if err := fault.On(fault.Rename, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Rename gives a file another name, in the place of what has it.
func Rename(from, to string) error { return rename(from, to) }

// Overwrite puts bytes into a file, in the place of others, and makes them
// durable. A process that ends early leaves the old ones or the new ones, as
// far as a write of their length is one step.
func Overwrite(name string, p []byte, off int64) error {
	f, err := openFile(name)
	if err != nil {
		return err
	}
	if _, err = writeAt(f, p, off); err == nil {
		err = syncFile(f)
	}
	return errors.Join(err, f.Close())
}

func link(from, to string) error {
	if err := fault.On(fault.Link, to); err != nil {
		return err
	}
	return os.Link(from, to)
}

func remove(path string) error {
	if err := fault.On(fault.Remove, path); err != nil {
		return err
	}
	return os.Remove(path)
}

// SyncDir makes the names in a directory durable, where the system can.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be opened for that
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = syncFile(d)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
		err = nil // file systems without it, such as some network ones
	}
	return errors.Join(err, d.Close())
}
