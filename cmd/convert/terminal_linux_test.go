package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files")

// terminal returns the two ends of a new terminal of that many columns: what the
// program writes to, and where that can be read.
func terminal(t *testing.T, columns uint16) (program, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	fd := int(reader.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	return program, reader
}

// hostileFile has names and types that would break tables: very long ones, wide
// letters, controls.
func hostileFile(t *testing.T, name string) {
	t.Helper()
	header := `{"__metadata__":{"\u001b[2Jkey":"\u0007value"},` +
		`"model.layers.0.` + strings.Repeat("very_long.", 30) + `weight":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},` +
		`"\u001b[31mred\nline\u202e":{"dtype":"F32","shape":[16],"data_offsets":[64,128]},` +
		`"` + strings.Repeat("重み", 40) + `":{"dtype":"F32","shape":[16],"data_offsets":[128,192]},` +
		`"t":{"dtype":"TYPE\u001b[0m` + strings.Repeat("X", 60) + `","shape":[16],"data_offsets":[192,200]}}`
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	require.NoError(t, os.WriteFile(name, append(file, make([]byte, 200)...), 0o666))
}

// TestGolden compares what the program prints, to the byte, in a terminal of 80
// columns, there under NO_COLOR, and in a pipe.
func TestGolden(t *testing.T) {
	dir := t.TempDir()
	weights, err := os.ReadFile("../../testdata/charlm/model.safetensors")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o666))
	hostileFile(t, filepath.Join(dir, "hostile.safetensors"))
	for name, args := range map[string]string{
		"convert":         "model.safetensors small.safetensors --dtype bf16 --keep norm=keep -f",
		"convert-v":       "model.safetensors small.safetensors --dtype f16 -v -f",
		"exact":           "model.safetensors exact.safetensors -f",
		"plan":            "plan model.safetensors out.safetensors",
		"inspect":         "inspect model.safetensors",
		"inspect-scan":    "inspect --scan model.safetensors",
		"hostile":         "hostile.safetensors h.safetensors --lenient --dtype bf16 -f",
		"hostile-plan":    "plan hostile.safetensors p.safetensors --lenient --dtype bf16",
		"hostile-inspect": "inspect hostile.safetensors --lenient",
		"hostile-v":       "hostile.safetensors h.safetensors --lenient --dtype bf16 -f -v",
		"error":           "hostile.safetensors h.safetensors --dtype bf16 -f",
	} {
		t.Run(name, func(t *testing.T) {
			pipe := runIn(t, dir, args, 0)
			golden(t, name+".pipe", pipe)
			wide := runIn(t, dir, args, 80)
			golden(t, name+".80", wide)
			require.Equal(t, wide, runIn(t, dir, args, 80, "NO_COLOR=1"))
			require.Equal(t, pipe, runIn(t, dir, args, 0, "NO_COLOR=1"))
			for line := range strings.Lines(wide) {
				require.NotContains(t, line, "\x1b")
				if strings.Contains(args, "plan ") && !strings.HasPrefix(line, "demi: ") {
					require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), 80, line)
				}
			}
			if !strings.Contains(args, "plan") && !strings.Contains(args, "inspect") && !strings.Contains(args, "-v") {
				require.LessOrEqual(t, strings.Count(pipe, "\n"), 10)
			}
		})
	}
}

// runIn runs the program in a directory and returns what it prints: on stdout
// and, after that, on stderr, which is a pipe. Columns 0 make stdout one too.
func runIn(t *testing.T, dir, args string, columns uint16, env ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := demiCommand(t, strings.Fields(args)...)
	cmd.Dir, cmd.Stderr, cmd.Stdout = dir, &errs, &out
	cmd.Env = append(os.Environ(), env...)
	if columns == 0 {
		_ = cmd.Run() // one of the cases fails, as its text says
		return out.String() + errs.String()
	}
	program, reader := terminal(t, columns)
	cmd.Stdout = program
	require.NoError(t, cmd.Start())
	require.NoError(t, program.Close())
	_, _ = io.Copy(&out, reader) // ends in EIO when no one has the other end any more
	_ = cmd.Wait()
	return strings.ReplaceAll(out.String(), "\r\n", "\n") + errs.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, name)
}

// TestProgressInATerminal: stderr that is a terminal shows progress on one line
// that it clears, each shorter than the terminal; one that is dumb, nothing.
func TestProgressInATerminal(t *testing.T) {
	dir := t.TempDir()
	sparse(t, filepath.Join(dir, "big.safetensors"), 1<<30)
	for _, dumb := range []bool{false, true} {
		program, reader := terminal(t, 40)
		cmd := demiCommand(t, "big.safetensors", "small.safetensors", "--dtype", "bf16", "-f", "--max-memory", "2MiB")
		cmd.Dir, cmd.Stderr = dir, program
		cmd.Env = append(os.Environ(), "TERM=xterm")
		if dumb {
			cmd.Env = append(os.Environ(), "TERM=dumb")
		}
		require.NoError(t, cmd.Start())
		require.NoError(t, program.Close())
		raw, _ := io.ReadAll(reader)
		require.NoError(t, cmd.Wait())
		if dumb {
			require.Empty(t, string(raw))
			continue
		}
		lines := strings.Split(string(raw), "\r\x1b[K")
		require.Greater(t, len(lines), 2)
		require.Empty(t, lines[0])
		require.Empty(t, lines[len(lines)-1], "the line is cleared in the end")
		for _, line := range lines[1 : len(lines)-1] {
			require.Regexp(t, `^convert \d+ % of 1\.1 GB`, line)
			require.Less(t, len(line), 40)
		}
	}
}
