package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools are what a build needs on this machine; no trace of them may be in what
// it makes.
type tools struct {
	src       string // the clone that is built
	env       []string
	goroot    string
	modcache  string
	goVersion string
}

// clone takes the commit that is checked out, with the tags that its version
// comes from. What is not committed is left out, and said.
func (r *release) clone(ctx context.Context, dir, cache string) error {
	changed, err := command(ctx, r.repo, nil, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		fmt.Fprintf(r.log, "not committed, and so left out:\n%s", changed)
	}
	root, err := filepath.Abs(r.repo)
	if err != nil {
		return err
	}
	if _, err := command(ctx, "", nil, "git", "clone", "-q", "-c", "core.autocrlf=false", root, dir); err != nil {
		return err
	}
	r.src = dir
	// one flag at least: else those of "go env -w" would count
	r.env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOOS=", "GOARCH=")
	if cache != "" {
		r.env = append(r.env, "GOCACHE="+cache)
	}
	text, err := command(ctx, dir, r.env, "go", "env", "-json", "GOROOT", "GOMODCACHE", "GOVERSION")
	if err != nil {
		return err
	}
	var env struct{ GOROOT, GOMODCACHE, GOVERSION string }
	err = json.Unmarshal(text, &env)
	r.goroot, r.modcache, r.goVersion = env.GOROOT, env.GOMODCACHE, env.GOVERSION
	return err
}

// on is the environment of a build for a platform.
func (r *release) on(t target) []string {
	return append(r.env[:len(r.env):len(r.env)], "GOOS="+t.goos, "GOARCH="+t.goarch)
}

// build makes a binary that needs nothing else, and that says of this machine
// nothing but the version of its toolchain.
func (r *release) build(ctx context.Context, t target, binary string) error {
	_, err := command(ctx, r.src, r.on(t), "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", binary, "./cmd/convert")
	return err
}

// documents returns what all archives have: the texts of the repository, and
// what the program itself writes.
func (r *release) documents(ctx context.Context, demi, man string) (list []entry, err error) {
	for _, name := range []string{"LICENSE", "README.md"} {
		if list, err = appendFile(list, name, filepath.Join(r.src, name)); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct{ shell, file string }{
		{"bash", "demi.bash"}, {"zsh", "_demi"}, {"fish", "demi.fish"}, {"powershell", "demi.ps1"},
	} {
		text, err := command(ctx, "", nil, demi, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{"completions/" + c.file, text, false})
	}
	if _, err := command(ctx, "", nil, demi, "man", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	for _, page := range pages {
		if list, err = appendFile(list, "man/man1/"+filepath.Base(page), page); err != nil {
			return nil, err
		}
	}
	return list, err
}

func appendFile(list []entry, name, file string) ([]entry, error) {
	data, err := os.ReadFile(file)
	return append(list, entry{name, data, false}), err
}

// command runs a program and returns what it prints; env nil is that of this
// process.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
