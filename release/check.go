package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// checkBinary holds a binary against what a release promises: it is of this
// platform and of the commit without changes, needs no other file, and tells
// nothing of the machine that built it.
func (r *release) checkBinary(t target, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	want := map[string]string{"GOOS": t.goos, "GOARCH": t.goarch, "CGO_ENABLED": "0", "vcs.modified": "false", "-trimpath": "true"}
	for _, s := range info.Settings {
		if value, ok := want[s.Key]; ok && value != s.Value {
			return fmt.Errorf("%s is %q, want %q", s.Key, s.Value, value)
		}
		delete(want, s.Key)
	}
	if len(want) > 0 {
		return fmt.Errorf("the toolchain has not recorded %v", want)
	}
	if info.Main.Version != r.version {
		return fmt.Errorf("version %q, want %q", info.Main.Version, r.version)
	}
	if t.goos == "linux" {
		if err := checkStatic(binary); err != nil {
			return err
		}
	}
	return checkPaths(binary, r.src, r.goroot, r.modcache)
}

// checkStatic refuses a binary of Linux that wants an interpreter or a library.
func checkStatic(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is not static: it names an interpreter")
		}
	}
	libraries, err := f.ImportedLibraries()
	if err == nil && len(libraries) > 0 {
		return fmt.Errorf("it is not static: it needs %v", libraries)
	}
	return err
}

// checkPaths refuses a file in which one of the paths is.
func checkPaths(file string, paths ...string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if p != "" && bytes.Contains(data, []byte(p)) {
			return fmt.Errorf("it has the path %s of this machine in it", p)
		}
	}
	return nil
}
