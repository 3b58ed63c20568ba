package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wantsInterpreter writes the least file of ELF that is not static.
func wantsInterpreter(t *testing.T) string {
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(h.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, h))
	require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)}))
	name := filepath.Join(t.TempDir(), "demi")
	require.NoError(t, os.WriteFile(name, b.Bytes(), 0o666))
	return name
}

func TestChecksRefuse(t *testing.T) {
	require.ErrorContains(t, checkStatic(wantsInterpreter(t)), "names an interpreter")
	require.ErrorContains(t, checkPaths(wantsInterpreter(t), "none", "\x7fELF"), "has the path \x7fELF of this machine")

	test, err := os.Executable()
	require.NoError(t, err)
	require.Error(t, new(release).checkBinary(target{runtime.GOOS, runtime.GOARCH}, test), "it is not built as releases are")
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o666)) // the example of FIPS 180-2
	require.NoError(t, writeSums(dir))
	sums, err := readSums(filepath.Join(dir, sumsName))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}, sums)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), []byte("abc  file\n"), 0o666))
	_, err = readSums(filepath.Join(dir, "bad"))
	require.ErrorContains(t, err, `"abc  file\n" is no line`)

	var log bytes.Buffer
	r := &release{log: &log}
	require.NoError(t, r.compareSums(map[string]string{"a": "1"}, map[string]string{"a": "1", "b": "2"}, "S"))
	require.ErrorContains(t, r.compareSums(map[string]string{"a": "1", "b": "2", "c": "3"}, map[string]string{"a": "1", "b": "3"}, "S"), "2 of 3 files")
	require.Equal(t, "the same: a\nthe same: a\ndiffers: b: SHA-256 2, want 3\nnot in S: c\n", log.String())
}

func TestLicencesOfAModule(t *testing.T) {
	root := t.TempDir()
	sub := filepath.Join(root, "a", "b")
	require.NoError(t, os.MkdirAll(sub, 0o777))
	require.ErrorContains(t, collectLicences(map[string]string{}, "m v1", root, sub), "no licence")
	for _, name := range []string{"Licence-MIT", "NOTICE", "license.go", "a/COPYING.txt", "a/b/copyright"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte("the text of "+name+"\n\n"), 0o666))
	}
	texts := map[string]string{}
	require.NoError(t, collectLicences(texts, "m v1", root, sub))
	require.Error(t, collectLicences(texts, "m v1", sub, root), "is outside")
	all, err := joinLicences(texts)
	require.NoError(t, err)
	var at int
	for _, name := range []string{"Licence-MIT", "NOTICE", "a/COPYING.txt", "a/b/copyright"} {
		i := strings.Index(string(all), "\nm v1: "+name+"\n"+strings.Repeat("=", 80)+"\n\nthe text of "+name+"\n")
		require.Greater(t, i, at, name)
		at = i
	}
	require.Len(t, texts, 4)
}

func TestBillWithoutTools(t *testing.T) {
	got, err := withoutTools([]byte(`{"metadata": {"tools": [{"name": "n", "hashes": [1]}]}, "version": 1, "a": "<&"}`))
	require.NoError(t, err)
	require.Equal(t, "{\n  \"a\": \"<&\",\n  \"metadata\": {\n    \"tools\": [\n      {\n        \"name\": \"n\"\n      }\n    ]\n  },\n  \"version\": 1\n}\n", string(got))
	_, err = withoutTools([]byte(`{"metadata": {}}`))
	require.ErrorContains(t, err, "metadata.tools")
}

func TestUsage(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"x"}, nil), `unexpected argument "x"`)
	require.ErrorContains(t, run(t.Context(), []string{"-targets", "linux"}, nil), `"linux" is no platform`)
	require.ErrorContains(t, run(t.Context(), []string{"-compare", filepath.Join(t.TempDir(), "none")}, nil), "none")
}
