package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	machine := ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0fd0aa7"}, {Key: "vcs.time", Value: "2026-12-03T07:42:40Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v0.1.0", vcs("false"), "demi v0.1.0, commit 0fd0aa7, 2026-12-03T07:42:40Z"},
		{"v0.1.0+dirty", vcs("true"), "demi v0.1.0+dirty, commit 0fd0aa7 with changes, 2026-12-03T07:42:40Z"},
		{"v0.1.0", nil, "demi v0.1.0"}, // from the module cache
		{"(devel)", nil, "demi (devel)"},
		{"", nil, "demi"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}
		require.Equal(t, c.want+machine, newBuild(info).String())
	}
}
