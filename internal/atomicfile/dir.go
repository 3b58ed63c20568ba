package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A Dir is a staging directory: files go into it, and it takes its final name
// when they are complete. Its methods may not be called by several goroutines
// at once.
type Dir struct {
	stage string // "" after Commit or Abort
	name  string
}

// CreateDir makes a staging directory beside name, which must not exist or be
// an empty directory by the time of Commit.
func CreateDir(name string) (*Dir, error) {
	parent, base := filepath.Split(filepath.Clean(name))
	base = base[:min(len(base), 200)] // leave room for the suffix under the usual limit of 255 bytes
	for range 100 {
		stage := fmt.Sprintf("%s.%s.%08x.partial", parent, base, rand.Uint32())
		err := os.Mkdir(stage, 0o777)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", name, err)
		}
		return &Dir{stage, filepath.Clean(name)}, nil
	}
	return nil, fmt.Errorf("create %s: no free name for a staging directory", name)
}

// Path returns the name under which a file of the directory is reached until
// Commit.
func (d *Dir) Path(file string) string { return filepath.Join(d.stage, file) }

// Commit gives the directory its name. The files in it must be durable by
// themselves. After an error nothing at that name has changed and the staging
// directory is gone.
func (d *Dir) Commit() error {
	if d.stage == "" {
		return fs.ErrClosed
	}
	err := SyncDir(d.stage)
	if err == nil {
		// os.Rename replaces no directory, and Remove only an empty one.
		if info, statErr := os.Lstat(d.name); statErr == nil && info.IsDir() {
			os.Remove(d.name)
		}
		err = os.Rename(d.stage, d.name)
	}
	if err != nil {
		d.Abort()
		return fmt.Errorf("create %s: %w", d.name, err)
	}
	d.stage = ""
	return SyncDir(filepath.Dir(d.name))
}

// Abort removes the staging directory with all that is in it. After Commit it
// does nothing.
func (d *Dir) Abort() {
	if d.stage != "" {
		os.RemoveAll(d.stage)
		d.stage = ""
	}
}
