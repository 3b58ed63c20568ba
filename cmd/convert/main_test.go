package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"demi": main, "demi-that-panics": mainThatPanics})
}

// TestScripts runs the program as its users do. Each script is headed by what
// it guards.
func TestScripts(t *testing.T) {
	charlm, err := filepath.Abs("../../testdata/charlm")
	require.NoError(t, err)
	dequant, err := filepath.Abs("../../testdata/dequant")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CHARLM", charlm)
			e.Setenv("DEQUANT", dequant)
			e.Setenv("TORCH", filepath.Join(filepath.Dir(charlm), "pytorch", "torch-2.6"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"makest": makeSafetensors, "truncate": truncate, "json": checkJSON, "maketorch": makeTorch, "lines": countLines, "poke": poke, "serve": serve,
			"sameplaces": samePlaces, "samehash": sameHash, "st": writeST, "bits": compareBits, "raw": writeRaw,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "race": // which maps terabytes
				return overhead > 1, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// makest FILE HEADER BYTES writes a safetensors file of a header as it is
// given and that many zero bytes.
func makeSafetensors(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: makest FILE HEADER BYTES")
	}
	var n int64
	_, err := fmt.Sscan(args[2], &n)
	ts.Check(err)
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(args[1])))
	head = append(head, args[1]...)
	name := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(name, head, 0o666))
	ts.Check(os.Truncate(name, int64(len(head))+n))
}

// truncate FILE BYTES shortens or lengthens a file.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	var n int64
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// poke FILE OFFSET HEX writes bytes into a file; a negative offset counts from
// its end.
func poke(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: poke FILE OFFSET HEX")
	}
	raw, err := hex.DecodeString(args[2])
	ts.Check(err)
	text := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(text)
	}
	copy(text[at:], raw)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o666))
}

// json FILE PATH WANT compares one value of a JSON document, at a path such as
// "error.class" or "tensors.0.stats.count".
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH WANT")
	}
	v := jsonValue(ts, args[0], args[1])
	if got := fmt.Sprint(v); (got == args[2]) == neg {
		ts.Fatalf("%s is %s", args[1], got)
	}
}

// samehash FILE PATH OTHER compares a value of a JSON document with the SHA-256
// of another file.
func sameHash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: samehash FILE PATH OTHER")
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(ts.ReadFile(args[2]))))
	if got := jsonValue(ts, args[0], args[1]); got != want {
		ts.Fatalf("%s is %v, that of %s is %s", args[1], got, args[2], want)
	}
}

// jsonValue returns the value at a path of a document.
func jsonValue(ts *testscript.TestScript, file, path string) (v any) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i := 0
			_, err := fmt.Sscan(key, &i)
			ts.Check(err)
			v = x[i]
		default:
			ts.Fatalf("nothing at %q in %s", key, path)
		}
	}
	return v
}

// lines FILE MAX checks that a text has at most so many lines.
func countLines(ts *testscript.TestScript, _ bool, args []string) {
	limit := 0
	_, err := fmt.Sscan(args[1], &limit)
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); n > limit {
		ts.Fatalf("%d lines", n)
	}
}

// sameplaces SRC DST checks that each file of DST holds the tensors of one file
// of SRC, in the order of the files.
func samePlaces(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sameplaces SRC DST")
	}
	src, dst := tensorsByFile(ts, args[0]), tensorsByFile(ts, args[1])
	if diff := cmp.Diff(src, dst); diff != "" {
		ts.Fatalf("the files hold other tensors (-%s +%s):\n%s", args[0], args[1], diff)
	}
}

// tensorsByFile returns the sorted names of the tensors in each file.
func tensorsByFile(ts *testscript.TestScript, path string) (files [][]string) {
	c, err := demi.Open(ts.MkAbs(path), nil)
	ts.Check(err)
	defer c.Close()
	number := map[string]int{}
	for i, s := range c.Sections() {
		number[s.File] = i
	}
	files = make([][]string, len(number))
	for t := range c.Tensors() {
		file, _ := t.Place()
		files[number[file]] = append(files[number[file]], t.Info().Name)
	}
	for _, names := range files {
		slices.Sort(names)
	}
	return files
}

// demiCommand returns a command that runs this test binary as the program.
func demiCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("demi") // testscript.Main puts it there
	require.NoError(t, err)
	return exec.Command(path, args...)
}

// sparse writes a safetensors file of one F32 tensor of zeros that takes no
// room on the disk.
func sparse(t *testing.T, name string, size int64) {
	t.Helper()
	header := fmt.Sprintf(`{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size)
	head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	require.NoError(t, os.WriteFile(name, head, 0o666))
	require.NoError(t, os.Truncate(name, int64(len(head))+size))
}

func TestPanicIsExit70(t *testing.T) {
	var out, errs strings.Builder
	a := &app{stdout: &out, stderr: &errs, json: true}
	code := a.execute(context.Background(), &cobra.Command{Args: cobra.ArbitraryArgs, Run: func(*cobra.Command, []string) { panic("oops") }})
	require.Equal(t, 70, code)
	require.Contains(t, errs.String(), "panic: oops")
	require.Contains(t, errs.String(), "main_test.go", "where it came from")
	require.Contains(t, out.String(), `"class": "internal"`)
}

func TestClassesOfErrors(t *testing.T) {
	require.Equal(t, classInternal, classify(fmt.Errorf("w: %w", newPanic("x"))))
	require.Equal(t, classIO, classify(syscall.ENOSPC))
	require.Equal(t, class{"signal", 143, true}, classify(signalError{syscall.SIGTERM}))
	require.Equal(t, classIO, classify(context.Canceled))
}

// U44 (colibri#1026, #1027; Automodel#3261; ik_llama#601): what was killed left a
// file that was taken for whole.
//
// TestKilled kills a conversion at twenty moments and runs it again each time:
// the end is that of a run that nothing disturbed, and nothing else is left.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src.safetensors")
	manyTensors(t, src, 48, 1<<20)
	args := func(dst string, to string) []string {
		return []string{src, dst, "--dtype", "bf16", "--to", to, "--max-shard-size", "4MB", "-q"}
	}
	for _, to := range []string{"safetensors", "gguf", "demi"} {
		whole, dst := filepath.Join(dir, "whole-"+to), filepath.Join(dir, "dst-"+to)
		more := []string{"--container-only"}
		started := time.Now()
		out, err := demiCommand(t, append(args(whole, to), more...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		took := time.Since(started)
		for i := range 20 {
			cmd := demiCommand(t, append(args(dst, to), more...)...)
			require.NoError(t, cmd.Start())
			time.Sleep(took * time.Duration(i+1) / 22)
			require.NoError(t, cmd.Process.Kill())
			cmd.Wait() // it may have been faster
			if _, err := os.Stat(dst); err == nil {
				require.NoError(t, os.RemoveAll(dst))
			}
		}
		out, err = demiCommand(t, append(args(dst, to), more...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, dirHashes(t, whole), dirHashes(t, dst))
		left, err := filepath.Glob(filepath.Join(dir, ".*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func manyTensors(t *testing.T, name string, n int, size int64) {
	t.Helper()
	var text strings.Builder
	for i := range int64(n) {
		fmt.Fprintf(&text, `,"w%02d":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}`, i, size/4, i*size, (i+1)*size)
	}
	header := "{" + text.String()[1:] + "}"
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...))
	require.NoError(t, err)
	p := make([]byte, size)
	for i := range n {
		for k := 0; k < len(p); k += 4 {
			binary.LittleEndian.PutUint32(p[k:], 0x3c000000+uint32(i*7919+k*2654435761)&0x1ffffff)
		}
		_, err = f.Write(p)
		require.NoError(t, err)
	}
}

func dirHashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	sums := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return sums
}
