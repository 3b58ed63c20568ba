package main

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// A build is what the Go toolchain has recorded of how this program was built.
// Nothing else knows a version: a release is built from a clone of its commit,
// whose tag is the version.
type build struct {
	version  string // of the tag, or a pseudo-version; "(devel)" without a repository
	commit   string // "" if not known
	date     string // of the commit, RFC 3339; "" if not known
	modified bool   // files differ from the commit
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{}
	}
	return newBuild(info)
}

func newBuild(info *debug.BuildInfo) build {
	b := build{version: info.Main.Version}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.time":
			b.date = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

// program names the program in documents: "demi v0.1.0".
func program() string { return strings.TrimSpace("demi " + thisBuild().version) }

// String is what --version prints.
func (b build) String() string {
	parts := []string{strings.TrimSpace("demi " + b.version)}
	if b.commit != "" {
		commit := "commit " + b.commit
		if b.modified {
			commit += " with changes"
		}
		parts = append(parts, commit)
	}
	if b.date != "" {
		parts = append(parts, b.date)
	}
	return strings.Join(append(parts, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH), ", ")
}
