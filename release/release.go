package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// A release is what is to be made of the commit that is checked out.
type release struct {
	repo    string // a clone, with its tags
	targets []target
	sbom    func(ctx context.Context, binary string) ([]byte, error) // nil: none is made
	log     io.Writer

	tools          // where things are on this machine
	version string // of the tag, or a pseudo-version
	commit  time.Time
	common  []entry // of all archives
}

// publish makes the directory out, which appears when it is complete.
func (r *release) publish(ctx context.Context, out string) error {
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists: remove it, or name another directory with -o", out)
	}
	stage, err := os.MkdirTemp(filepath.Dir(filepath.Clean(out)), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := r.make(ctx, stage, ""); err != nil {
		return err
	}
	if err := os.Chmod(stage, 0o755); err != nil {
		return err
	}
	return os.Rename(stage, out)
}

// compare makes the release again, with another clone and an empty cache of the
// compiler, and says whether its files are those that the checksums are of.
func (r *release) compare(ctx context.Context, sums string) error {
	want, err := readSums(sums)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "demi-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o777); err != nil {
		return err
	}
	if err := r.make(ctx, out, filepath.Join(tmp, "cache")); err != nil {
		return err
	}
	got, err := readSums(filepath.Join(out, sumsName))
	if err != nil {
		return err
	}
	return r.compareSums(got, want, sums)
}

func (r *release) compareSums(got, want map[string]string, of string) error {
	differ := 0
	for _, name := range sortedNames(got) {
		switch want[name] {
		case got[name]:
			fmt.Fprintln(r.log, "the same:", name)
		case "":
			fmt.Fprintf(r.log, "not in %s: %s\n", of, name)
			differ++
		default:
			fmt.Fprintf(r.log, "differs: %s: SHA-256 %s, want %s\n", name, got[name], want[name])
			differ++
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d files are not those of %s (built here with %s: is it the toolchain of the release?)", differ, len(got), of, r.goVersion)
	}
	return nil
}

// make writes all files of the release to a directory that is there. The
// compiler keeps what it has built in cache; "" stands for the usual place.
func (r *release) make(ctx context.Context, out, cache string) error {
	tmp, err := os.MkdirTemp("", "demi-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := r.clone(ctx, filepath.Join(tmp, "src"), cache); err != nil {
		return err
	}
	host := filepath.Join(tmp, "host", "demi")
	if err := r.build(ctx, target{runtime.GOOS, runtime.GOARCH}, host); err != nil {
		return err
	}
	if err := r.stamps(host); err != nil {
		return err
	}
	if r.common, err = r.documents(ctx, host, filepath.Join(tmp, "man")); err != nil {
		return err
	}
	for _, t := range r.targets {
		if err := r.makeTarget(ctx, t, out, filepath.Join(tmp, t.String(), t.program())); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return writeSums(out)
}

// stamps reads version and time from a binary: the toolchain knows them from
// the repository, and so nothing else has to.
func (r *release) stamps(binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	r.version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			r.commit, err = time.Parse(time.RFC3339, s.Value)
		}
	}
	if err == nil && (r.version == "" || r.commit.IsZero()) {
		err = fmt.Errorf("%s has no version and date of a commit", binary)
	}
	return err
}

// makeTarget makes archive and bill of materials of one platform.
func (r *release) makeTarget(ctx context.Context, t target, out, binary string) error {
	if err := r.build(ctx, t, binary); err != nil {
		return err
	}
	if err := r.checkBinary(t, binary); err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	licences, err := r.licences(ctx, t)
	if err != nil {
		return err
	}
	base := filepath.Join(out, "demi-"+r.version+"-"+t.String())
	entries := append([]entry{{t.program(), program, true}, {"THIRD_PARTY_LICENSES", licences, false}}, r.common...)
	name, err := writeArchive(base, t.goos == "windows", entries, r.commit)
	if err != nil {
		return err
	}
	if r.sbom != nil {
		bill, err := r.sbom(ctx, binary)
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+".cdx.json", bill, 0o666); err != nil {
			return err
		}
	}
	return r.report(name, len(program))
}

func (r *release) report(archive string, program int) error {
	info, err := os.Stat(archive)
	if err == nil {
		fmt.Fprintf(r.log, "%s: %d bytes, program %d\n", filepath.Base(archive), info.Size(), program)
	}
	return err
}
