package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An outputCase is a command that writes an output, and what is there before.
type outputCase struct {
	src, dst string
	flags    []string
	old      map[string]string
}

var outputCases = []outputCase{
	{"model.safetensors", "out.safetensors", nil, nil},
	{"model.safetensors", "out.safetensors", []string{"--force"}, map[string]string{"out.safetensors": "precious"}},
	{"model.gguf", "out.gguf", nil, nil},
	{"model.safetensors", "out.demi", []string{"--level", "small"}, nil},
	{"model.gguf", "out.demi", []string{"--force"}, map[string]string{"out.demi": "precious"}},
	{"sharded", "out", []string{"--max-shard-size", "700KB"}, nil},
	{"sharded", "out", []string{"--max-shard-size", "1000KB", "--to", "demi"}, nil},
	{"sharded", "out", []string{"--force"}, map[string]string{"out/model.safetensors": tinyFile, "out/mine": "mine"}},
	{"model.safetensors", "out.safetensors", []string{"--max-shard-size", "700KB"}, nil},
}

// tinyFile is a safetensors file.
const tinyFile = "\x40\x00\x00\x00\x00\x00\x00\x00" + `{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}          ` + "abcd"

// lay writes the old files of a case.
func (x *outputCase) lay(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range x.old {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return dir
}

func (x *outputCase) args(t *testing.T, dir string) []string {
	charlm, err := filepath.Abs("../../testdata/charlm")
	require.NoError(t, err)
	return append([]string{filepath.Join(charlm, x.src), filepath.Join(dir, x.dst), "--dtype", "bf16", "--json"}, x.flags...)
}

// TestDiskIsFull: the error is one of I/O that names the output, what was there
// is there, and nothing is left.
func TestDiskIsFull(t *testing.T) {
	for way, full := range fullDisks(t) {
		for _, x := range outputCases {
			dir := x.lay(t)
			want := listing(t, dir)
			cmd := demiCommand(t, x.args(t, dir)...)
			// The script runs the command with a small disk at $0 and then lists it.
			script := full + `; "$@"; code=$?; cd "$0" && find . -type f | LC_ALL=C sort | xargs -r sha256sum; exit $code`
			sh := exec.Command("sh", append([]string{"-c", script, dir}, cmd.Args...)...)
			if way == "tmpfs" {
				sh.SysProcAttr = ownMounts
			}
			out, err := sh.Output()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s: %v: %s", way, x, out)
			require.Equal(t, classIO.Code, exit.ExitCode(), "%s: %v: %s%s", way, x, out, exit.Stderr)
			require.Contains(t, string(out), `"class": "io"`)
			require.Contains(t, string(exit.Stderr), "out")
			require.Regexp(t, "no space left on device|file too large", string(exit.Stderr))
			_, left, found := strings.Cut(string(out), "\n}\n") // behind the JSON document
			require.True(t, found, "%s", out)
			require.Equal(t, want, left, "%s: %v", way, x)
			require.NoError(t, os.RemoveAll(dir))
		}
	}
}

// listing is what the script prints of a directory.
func listing(t *testing.T, dir string) string {
	cmd := exec.Command("sh", "-c", "find . -type f | LC_ALL=C sort | xargs -r sha256sum")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// ownMounts lets a process mount what nobody else sees.
var ownMounts = &syscall.SysProcAttr{
	Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
	UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
	GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
}

// fullDisks returns shell commands that make the disk at $0 small. A limit on
// the size of files is possible everywhere, and ends a write just so; a file
// system of its own only where containers may be made.
func fullDisks(t *testing.T) map[string]string {
	ways := map[string]string{"limit": "ulimit -f 1000"} // in units of 512 bytes
	tmpfs := `old=$(mktemp -d) && cp -r "$0/." "$old" && mount -t tmpfs -o size=500k tmpfs "$0" && cp -r "$old/." "$0" && rm -r "$old"`
	try := exec.Command("sh", "-c", tmpfs, t.TempDir())
	try.SysProcAttr = ownMounts
	if err := try.Run(); err == nil {
		ways["tmpfs"] = tmpfs
	}
	t.Log(ways)
	return ways
}

// chmodDirs sets the mode of a directory and of those in it.
func chmodDirs(t *testing.T, dir string, mode fs.FileMode) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	}))
}

// TestReadOnlyDirectory is the same for directories in which nothing may be
// made.
func TestReadOnlyDirectory(t *testing.T) {
	for _, x := range outputCases {
		dir := x.lay(t)
		want := listing(t, dir)
		chmodDirs(t, dir, 0o555)
		out, err := outputUnprivileged(demiCommand(t, x.args(t, dir)...))
		chmodDirs(t, dir, 0o777)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v: %s", x, out)
		require.Equal(t, classIO.Code, exit.ExitCode(), "%v: %s%s", x, out, exit.Stderr)
		require.Contains(t, string(out), `"class": "io"`)
		require.Contains(t, string(out), `"retryable": false`)
		require.Contains(t, string(exit.Stderr), "permission denied")
		require.Contains(t, string(exit.Stderr), filepath.Join(dir, x.dst))
		require.Equal(t, want, listing(t, dir), "%v", x)
	}
}

// TestWritableVolume: a directory that may be written to gets the output, also
// where nothing can be made beside it, as with a volume of a container.
func TestWritableVolume(t *testing.T) {
	x := outputCase{"sharded", "out", nil, nil}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "out"), 0o777))
	require.NoError(t, os.Chmod(dir, 0o555))
	out, err := outputUnprivileged(demiCommand(t, x.args(t, dir)...))
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, err, "%s", out)
	require.FileExists(t, filepath.Join(dir, "out", "model.safetensors"))
	require.NotContains(t, listing(t, dir), ".partial")
	require.NotContains(t, listing(t, dir), ".journal")
}

// outputUnprivileged runs a command for which the permissions of files count,
// whoever runs the test: root does without its right to ignore them.
func outputUnprivileged(cmd *exec.Cmd) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its loss
		err = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_OVERRIDE, 0, 0, 0)
		if err == nil || errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			out, err = cmd.Output()
		}
	}()
	<-done
	return out, err
}
