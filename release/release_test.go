package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// commitTime is that of the commit which the tests make.
var commitTime = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// git runs git as a machine that nobody has configured.
func git(t *testing.T, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	date := commitTime.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e",
		"GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// tagged returns a repository whose one commit, v0.9.1, is this tree as it is
// now, but for what a build does not read.
func tagged(t *testing.T) string {
	repo := filepath.Join(t.TempDir(), "repo")
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != ".." && (name == "testdata" || name == "interop" || name == "docs" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".safetensors") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(repo, path[len(".."):])
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o666)
	}))
	git(t, repo, "init", "-q")
	git(t, repo, "add", "-A", "-f")
	git(t, repo, "commit", "-q", "-m", "all")
	git(t, repo, "tag", "v0.9.1")
	return repo
}

// made makes a release and returns its directory.
func made(t *testing.T, repo string, targets []target) (*release, string) {
	r := &release{repo: repo, targets: targets, log: new(bytes.Buffer)}
	out := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, r.publish(t.Context(), out))
	return r, out
}

// A file is what the tests look at of a file in an archive.
type file struct {
	data []byte
	mode fs.FileMode
	at   time.Time
}

// readArchive returns the files of base.tar.gz or base.zip.
func readArchive(t *testing.T, base string) map[string]file {
	if _, err := os.Stat(base + ".zip"); err == nil {
		return readZip(t, base+".zip")
	}
	return readTar(t, base+".tar.gz")
}

func readTar(t *testing.T, name string) map[string]file {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.Equal(t, gzip.Header{OS: 255}, zr.Header, "neither a name nor a time")
	files := map[string]file{}
	var names []string
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Zero(t, h.Uid+h.Gid)
		require.Empty(t, h.Uname+h.Gname)
		data, err := io.ReadAll(tr)
		require.NoError(t, err)
		names = append(names, h.Name)
		files[h.Name] = file{data, h.FileInfo().Mode(), h.ModTime.UTC()}
	}
	require.True(t, slices.IsSorted(names))
	return files
}

func readZip(t *testing.T, name string) map[string]file {
	r, err := zip.OpenReader(name)
	require.NoError(t, err)
	defer r.Close()
	files := map[string]file{}
	for _, f := range r.File {
		rc, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		files[f.Name] = file{data, f.Mode(), f.Modified.UTC()}
	}
	return files
}

// contents is the list of an archive, with a manual page for each command of
// the reference.
func contents(t *testing.T, dir, program string) []string {
	list := []string{program, "LICENSE", "README.md", "THIRD_PARTY_LICENSES", "completions/_demi", "completions/demi.bash", "completions/demi.fish", "completions/demi.ps1"}
	text, err := os.ReadFile("../docs/reference.md")
	require.NoError(t, err)
	for _, command := range regexp.MustCompile(`(?m)^## (demi.*)$`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, "man/man1/"+strings.ReplaceAll(command[1], " ", "-")+".1")
	}
	require.Greater(t, len(list), 12)
	for i := range list {
		list[i] = dir + "/" + list[i]
	}
	slices.Sort(list)
	return list
}

// TestRelease makes a release of this tree, looks at all of it, and makes it
// again of a clone at another place: every byte is the same.
func TestRelease(t *testing.T) {
	targets := []target{{"linux", "amd64"}, {"windows", "arm64"}}
	if testing.Short() {
		targets = targets[:1]
	}
	repo := tagged(t)
	r, out := made(t, repo, targets)
	require.Equal(t, "v0.9.1", r.version)
	var archives []string
	for _, x := range targets {
		dir := "demi-v0.9.1-" + x.String()
		files := readArchive(t, filepath.Join(out, dir))
		checkFiles(t, dir, x.program(), files)
		archives = append(archives, dir+map[bool]string{false: ".tar.gz", true: ".zip"}[x.goos == "windows"])
	}
	checkSums(t, out, archives...)

	clone := filepath.Join(t.TempDir(), "a clone with a longer path")
	git(t, "", "clone", "-q", repo, clone)
	require.NoError(t, os.WriteFile(filepath.Join(clone, "doc.go"), []byte("not committed"), 0o666))
	again, other := made(t, clone, targets)
	require.Contains(t, again.log.(*bytes.Buffer).String(), "left out:\n M doc.go\n")
	sums, err := os.ReadFile(filepath.Join(out, sumsName))
	require.NoError(t, err)
	repeated, err := os.ReadFile(filepath.Join(other, sumsName))
	require.NoError(t, err)
	require.Equal(t, string(sums), string(repeated))
	require.ErrorContains(t, again.publish(t.Context(), other), "exists")
}

// TestArchives: what is in an archive, and nothing else, decides on its bytes.
func TestArchives(t *testing.T) {
	program, text := entry{"demi", []byte("binary"), true}, entry{"man/man1/a", bytes.Repeat([]byte("text "), 1000), false}
	for _, zipped := range []bool{false, true} {
		name, err := writeArchive(filepath.Join(t.TempDir(), "x"), zipped, []entry{text, program}, commitTime)
		require.NoError(t, err)
		require.Equal(t, map[string]file{"x/demi": {program.data, 0o755, commitTime}, "x/man/man1/a": {text.data, 0o644, commitTime}},
			readArchive(t, filepath.Join(filepath.Dir(name), "x")))
		again, err := writeArchive(filepath.Join(t.TempDir(), "x"), zipped, []entry{program, text}, commitTime.In(time.FixedZone("east", 9*3600)))
		require.NoError(t, err)
		one, err := os.ReadFile(name)
		require.NoError(t, err)
		two, err := os.ReadFile(again)
		require.NoError(t, err)
		require.True(t, bytes.Equal(one, two), name)
	}
}

// checkSums holds a directory against its checksums.
func checkSums(t *testing.T, dir string, names ...string) {
	sums, err := readSums(filepath.Join(dir, sumsName))
	require.NoError(t, err)
	require.Equal(t, names, slices.Sorted(maps.Keys(sums)))
	for name, sum := range sums {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		h := sha256.Sum256(data)
		require.Equal(t, hex.EncodeToString(h[:]), sum)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, len(names)+1)
}

// checkFiles looks at what is in an archive.
func checkFiles(t *testing.T, dir, program string, files map[string]file) {
	require.Equal(t, contents(t, dir, program), slices.Sorted(maps.Keys(files)))
	for name, f := range files {
		mode := fs.FileMode(0o644)
		if name == dir+"/"+program {
			mode = 0o755
		}
		require.Equal(t, mode, f.mode, name)
		require.Equal(t, commitTime, f.at, name)
		require.False(t, bytes.Contains(f.data, []byte("demi-release-")), "%s has the path of the clone in it", name)
	}
	text := func(name string) string { return string(files[dir+"/"+name].data) }
	require.Contains(t, text("man/man1/demi.1"), `"2026-01-02" "demi v0.9.1"`)
	require.Contains(t, text("completions/demi.bash"), "complete ")
	require.Contains(t, text("completions/_demi"), "#compdef demi")
	binary := filepath.Join(t.TempDir(), program)
	require.NoError(t, os.WriteFile(binary, files[dir+"/"+program].data, 0o777))
	checkLicences(t, binary, text("THIRD_PARTY_LICENSES"))
	if strings.HasSuffix(dir, runtime.GOOS+"-"+runtime.GOARCH) {
		version, err := exec.Command(binary, "--version").CombinedOutput()
		require.NoError(t, err)
		require.Regexp(t, `^demi v0\.9\.1, commit [0-9a-f]{40}, 2026-01-02T03:04:06Z, go1\S+ `+runtime.GOOS+"/"+runtime.GOARCH+"\n$", string(version))
	}
}

// checkLicences holds the licences against the modules that the toolchain has
// recorded in the binary.
func checkLicences(t *testing.T, binary, licences string) {
	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	require.Greater(t, len(info.Deps), 5)
	for _, d := range append(info.Deps, &debug.Module{Path: "Go", Version: info.GoVersion}) {
		require.Contains(t, licences, "=\n"+d.Path+" "+d.Version+": LICENSE", "a module that is linked")
	}
	require.NotContains(t, licences, "github.com/stretchr/testify", "is not linked")
}
