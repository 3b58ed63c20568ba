package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Dir is a staging directory: files go into it, and it takes its final name
// when they are complete. Beside it lies a journal, which is locked while the
// Dir is used and says, if the process ends early, what the directory holds.
// The methods of a Dir may not be called by several goroutines at once.
type Dir struct {
	name    string // of the output
	into    string // the directory that Merge moves files to
	stage   string
	journal *os.File // nil after the end
	notes   [][]byte
	keep    bool // what cannot be committed stays
}

// maxJournal is the size up to which the journal of an earlier run is read.
const maxJournal = 1 << 30

// CreateDir makes the staging directory ".name.partial" beside name, or opens
// the one that a process has left which ended early: then Notes says what is in
// it. One that is in use is ErrBusy, and a directory of that name without a
// journal that is not empty is an error: it is somebody else's.
func CreateDir(name string) (*Dir, error) { return createDir(name, filepath.Clean(name)) }

// CreateFiles is CreateDir for several files that belong together and go where
// name would be, by Merge and not by Commit.
func CreateFiles(name string) (*Dir, error) {
	return createDir(name, filepath.Dir(filepath.Clean(name)))
}

// Inside is the name for CreateFiles whose staging directory and journal lie in
// the directory dir itself.
func Inside(dir string) string {
	dir = filepath.Clean(dir)
	return filepath.Join(dir, filepath.Base(dir))
}

// Staging returns the name of the staging directory for name.
func Staging(name string) string { return beside(name, ".partial") }

// Parts returns the name of the directory, beside name, for files that other
// processes write, and that will be put together to what has that name.
func Parts(name string) string { return beside(name, ".parts") }

// IsStaging reports whether an entry of the directory dir is what CreateFiles
// makes for Inside(dir), or Parts of it.
func IsStaging(dir, entry string) bool {
	name := Inside(dir)
	for _, path := range []string{beside(name, ".partial"), beside(name, ".journal"), Parts(name)} {
		if entry == filepath.Base(path) {
			return true
		}
	}
	return false
}

// Mounted reports whether dir is a directory into which files cannot be moved
// from beside it: it is a mount point, such as a volume of a container, or a
// symbolic link, or nothing can be written beside it.
func Mounted(dir string) bool {
	dir = filepath.Clean(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return false
	}
	if info, err := os.Lstat(dir); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err == nil
	}
	probe, err := os.CreateTemp(filepath.Dir(dir), ".demi-probe-*")
	if err != nil {
		return true
	}
	probe.Close()
	moved := filepath.Join(dir, filepath.Base(probe.Name()))
	if err := os.Rename(probe.Name(), moved); err != nil {
		os.Remove(probe.Name())
		return true
	}
	os.Remove(moved)
	return false
}

func createDir(name, into string) (*Dir, error) {
	name = filepath.Clean(name)
	d := &Dir{name: name, into: into, stage: beside(name, ".partial")}
	journal, err := openLocked(beside(name, ".journal"), false)
	if err == nil {
		d.journal = journal
		err = d.open()
	}
	if err == nil {
		return d, nil
	}
	if len(d.notes) == 0 {
		d.release()
	}
	d.close()
	return nil, fmt.Errorf("create %s: %w", name, err)
}

// Left reports whether a process has left, or is just using, a staging
// directory for name.
func Left(name string) bool {
	_, err := os.Lstat(beside(name, ".journal"))
	return err == nil
}

// Tidy removes what a process has left beside name that ended after its last
// step but one: the journal of a directory that is staged no more, or the other
// name of a file. It leaves alone what is in use.
func Tidy(name string) {
	name = filepath.Clean(name)
	stage := beside(name, ".partial")
	staged, err := os.Lstat(stage)
	if errors.Is(err, fs.ErrNotExist) && Left(name) {
		if journal, err := openLocked(beside(name, ".journal"), false); err == nil {
			(&Dir{journal: journal}).release()
		}
		return
	}
	if there, statErr := os.Lstat(name); err == nil && statErr == nil && staged.Mode().IsRegular() && os.SameFile(staged, there) {
		os.Remove(stage)
	}
}

// open reads the journal and makes the directory, or finds it.
func (d *Dir) open() error {
	if err := d.read(); err != nil {
		return err
	}
	err := mkdir(d.stage)
	if errors.Is(err, fs.ErrExist) {
		return d.check()
	}
	d.notes = nil // there is nothing that they could be about
	return errors.Join(err, truncate(d.journal, 0))
}

// read reads the journal, up to the last line that is whole.
func (d *Dir) read() error {
	info, err := d.journal.Stat()
	if err != nil || info.Size() > maxJournal {
		return errors.Join(err, truncate(d.journal, 0))
	}
	text, err := io.ReadAll(d.journal)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		d.notes = append(d.notes, line)
	}
	return truncate(d.journal, int64(len(text)))
}

// check says whether the directory that is there is a staging directory.
func (d *Dir) check() error {
	info, err := os.Lstat(d.stage)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", d.stage)
	}
	entries, err := os.ReadDir(d.stage)
	if err == nil && len(entries) > 0 && len(d.notes) == 0 {
		err = fmt.Errorf("%s is not empty, and no journal says that it may be used: remove it", d.stage)
	}
	return err
}

// Path returns the name under which a file of the directory is reached until
// the directory has its name.
func (d *Dir) Path(file string) string { return filepath.Join(d.stage, file) }

// Notes returns what an earlier run has noted that ended early.
func (d *Dir) Notes() [][]byte { return d.notes }

// Note adds a line to the journal and makes it durable.
func (d *Dir) Note(line []byte) error {
	if d.journal == nil {
		return fs.ErrClosed
	}
	_, err := d.journal.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = write(d.journal, append(bytes.ReplaceAll(line, []byte{'\n'}, []byte{' '}), '\n'))
	}
	if err == nil {
		err = syncFile(d.journal)
	}
	if err != nil {
		return fmt.Errorf("journal of %s: %w", d.name, err)
	}
	return nil
}

// Reset empties the directory and the journal.
func (d *Dir) Reset() error {
	d.notes = nil
	entries, err := os.ReadDir(d.stage)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(d.Path(e.Name())))
	}
	err = errors.Join(err, truncate(d.journal, 0))
	if err != nil {
		return fmt.Errorf("create %s: %w", d.name, err)
	}
	return nil
}

// Commit gives the directory its name, at which there must be nothing or an
// empty directory. The files in it must be durable by themselves. After an
// error nothing at that name has changed and the staging directory is gone.
func (d *Dir) Commit() error {
	if d.journal == nil {
		return fs.ErrClosed
	}
	err := SyncDir(d.stage)
	if err == nil {
		// os.Rename replaces no directory, and Remove only an empty one.
		if info, statErr := os.Lstat(d.name); statErr == nil && info.IsDir() {
			os.Remove(d.name)
		}
		err = rename(d.stage, d.name)
	}
	if err == nil {
		if err = SyncDir(filepath.Dir(d.name)); err != nil {
			os.Rename(d.name, d.stage)
		}
	}
	if err != nil {
		if d.keep {
			d.close()
		}
		d.Abort()
		return fmt.Errorf("create %s: %w", d.name, err)
	}
	d.release()
	return nil
}

// KeepFailed says whether a staging directory that cannot be committed stays,
// with its journal, for a later run.
func (d *Dir) KeepFailed(keep bool) { d.keep = keep }

// Merge moves the files into the directory that is at the final name already,
// or that of CreateFiles, one after another in the order given, where they
// replace what has their names, and removes the old ones from it. If it is
// interrupted or fails, the journal stays, and so do the files that have not
// been moved.
func (d *Dir) Merge(files, old []string) error {
	if d.journal == nil {
		return fs.ErrClosed
	}
	if err := d.merge(files, old); err != nil {
		d.close()
		return fmt.Errorf("replace %s: %w", d.name, err)
	}
	d.Abort()
	return nil
}

func (d *Dir) merge(files, old []string) error {
	for _, file := range files {
		to := filepath.Join(d.into, file)
		if err := MkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		err := rename(d.Path(file), to)
		if errors.Is(err, fs.ErrNotExist) {
			if _, there := os.Lstat(to); there == nil {
				err = nil // an earlier run has moved it
			}
		}
		if err == nil {
			err = SyncDir(filepath.Dir(to))
		}
		if err != nil {
			return err
		}
	}
	for _, file := range old {
		if err := remove(filepath.Join(d.into, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return SyncDir(d.into)
}

// Abort removes the staging directory with all that is in it, and the journal.
// After the end it does nothing.
func (d *Dir) Abort() {
	if d.journal != nil {
		os.RemoveAll(d.stage)
		d.release()
	}
}

// Leave ends the use of the Dir and leaves all as it is, as the end of the
// process does.
func (d *Dir) Leave() { d.close() }

// release removes the journal.
func (d *Dir) release() {
	if d.journal != nil {
		d.drop()
		d.close()
	}
}

// drop removes the journal's name, while it is locked if the system can.
func (d *Dir) drop() {
	if !takeOpen {
		name := d.journal.Name()
		d.close()
		os.Remove(name)
		return
	}
	os.Remove(d.journal.Name())
}

func (d *Dir) close() {
	if d.journal != nil {
		d.journal.Close()
		d.journal = nil
	}
}
