package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shown command is one that a page of the documents shows.
type shownCommand struct {
	text string
	said string // what stderr has to have: the line below that begins "demi: "
}

var (
	inlineCommand = regexp.MustCompile("`(demi [^`]*)`")
	blockCommand  = regexp.MustCompile(`^    (?:\$ )?((?:demi|go run \./cmd/convert) .*)$`)
	remark        = regexp.MustCompile(`\s{2,}.*| #.*`) // what is behind a command in a line
	shellWord     = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	// A stand-in is a word of a command that stands for something else.
	standIn = regexp.MustCompile(`^[.'\[]*(SRC|DST|REF|GOT|STORE|PLAN|DIR|FILE|N)\b|…|\.\.\.$|^\[flags\]|^\||[A-Za-z]\|[A-Za-z]`)
)

// shownSessions returns the commands of a page: those of a block one after
// another, which build on each other, and each of those within a text.
func shownSessions(t *testing.T, page string) (sessions [][]shownCommand) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var block []shownCommand
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := blockCommand.FindStringSubmatch(line); m != nil {
			block = append(block, shownCommand{text: remark.ReplaceAllString(m[1], "")})
			continue
		}
		if said, ok := strings.CutPrefix(line, "    demi: "); ok && len(block) > 0 && !strings.HasPrefix(said, "warning") {
			block[len(block)-1].said = said
		}
		if line != "" && !strings.HasPrefix(line, "    ") && len(block) > 0 {
			sessions, block = append(sessions, block), nil
		}
		var inline []shownCommand
		for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
			inline = append(inline, shownCommand{text: m[1]})
		}
		sessions = append(sessions, inline)
	}
	return append(sessions, block)
}

// words splits a command, as far as the documents have need of it.
func (c *shownCommand) words() (list []string) {
	text := strings.TrimPrefix(strings.TrimPrefix(c.text, "demi"), "go run ./cmd/convert")
	for _, w := range shellWord.FindAllString(text, -1) {
		list = append(list, strings.Trim(w, `'"`))
	}
	return list
}

// TestShownFlags: every command in the documents has a command and flags that
// there are.
func TestShownFlags(t *testing.T) {
	seen := 0
	for _, page := range docPages(t) {
		for _, session := range shownSessions(t, page) {
			for _, c := range session {
				if strings.Contains(c.text, "[flags]") || strings.HasPrefix(c.text, "demi v") && !strings.HasPrefix(c.text, "demi verify") {
					continue
				}
				seen++
				words := c.words()
				for i, w := range words { // numbers
					if w == "N" || w == "I" {
						words[i] = "1"
					}
				}
				root := newRoot(&app{stdout: io.Discard, stderr: io.Discard})
				cmd, rest, err := root.Find(words)
				require.NoError(t, err, "%s: %s", page, c.text)
				cmd.InitDefaultHelpFlag()
				cmd.InitDefaultVersionFlag()
				require.NoError(t, cmd.ParseFlags(rest), "%s: %s", page, c.text)
			}
		}
	}
	require.Greater(t, seen, 100)
}

// docPages returns the pages for users.
func docPages(t *testing.T) (pages []string) {
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "examples/*/README.md"} {
		list, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, list, pattern)
		pages = append(pages, list...)
	}
	return pages
}

// notRun are commands that cannot be run here, by a part of page and command, and
// why.
var notRun = map[string]string{
	"https://":                           "there is no network",
	"4g.safetensors":                     "the file has 4 GiB",
	"gpt3.safetensors":                   "the file has 700 GB",
	"big.safetensors":                    "the file has 2 GiB",
	"/shared/":                           "it is the storage of a cluster",
	"/scratch/":                          "it is the storage of a cluster",
	"run c.json":                         "its source has changed since: the scripts of tasks have that",
	"plan --list":                        "the two checkpoints of the guide have names of their own: the scripts of tasks have lists",
	"batch.md: demi run plan.json":       "its plan is the one of the row before",
	"batch.md: demi merge plan.json":     "its plan is the one of the row before",
	"reference.md: demi merge plan.json": "an example of its own, without the plan",
	"model.gguf --map":                   "exit 1 by intent, and the names of the two agree in the scripts of verify",
	"bad.demi":                           "the byte that is damaged depends on the store",
	"completion bash|":                   "one of several words",
	"original.gguf":                      "needs a program that quantises",
	"half.demi --min":                    "needs a store that another command of the guide has made",
	"half.safetensors -":                 "exit 1 by intent: the scripts of verify have limits",
}

// TestShownCommands runs the commands in the documents, in a directory that has
// what they speak of.
func TestShownCommands(t *testing.T) {
	made := makeGuide(t)
	ran := 0
	used := map[string]bool{}
	for _, page := range docPages(t) {
		for _, session := range shownSessions(t, page) {
			dir := ""
			for _, c := range session {
				if !c.runnable(page, used) {
					continue
				}
				if dir == "" {
					dir = filepath.Join(t.TempDir(), "d")
					require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
					repo, err := filepath.Abs("../..")
					require.NoError(t, err)
					require.NoError(t, os.Symlink(filepath.Join(repo, "testdata"), filepath.Join(dir, "testdata")))
				}
				ran++
				c.run(t, page, dir)
			}
		}
	}
	require.Greater(t, ran, 50)
	for part := range notRun {
		require.True(t, used[part], "no document has %q any more", part)
	}
}

// runnable tells whether a command can be run: it has no stand-ins and is no mere
// name, such as "demi advise" in a sentence.
func (c *shownCommand) runnable(page string, used map[string]bool) bool {
	listed := false
	for part := range notRun {
		if strings.Contains(page+": "+c.text, part) {
			used[part], listed = true, true
		}
	}
	if listed {
		return false
	}
	words := c.words()
	cmd, rest, err := newRoot(&app{stdout: io.Discard, stderr: io.Discard}).Find(words)
	if err != nil || slices.ContainsFunc(words, standIn.MatchString) {
		return false
	}
	cmd.InitDefaultVersionFlag()
	return cmd.ParseFlags(rest) != nil || cmd.Flags().NArg() > 0 || slices.Contains(words, "--version")
}

// run runs a command as a shell does. An output that an earlier command of
// another session would have made must not be there.
func (c *shownCommand) run(t *testing.T, page, dir string) {
	t.Helper()
	cmd, rest, err := newRoot(&app{stdout: io.Discard, stderr: io.Discard}).Find(c.words())
	require.NoError(t, err)
	cmd.InitDefaultVersionFlag()
	if cmd.ParseFlags(rest) == nil && (!cmd.HasParent() || cmd.Name() == "plan") && cmd.Flags().NArg() == 2 && c.said == "" {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, cmd.Flags().Arg(1))))
	}
	text := c.text
	if rest, ok := strings.CutPrefix(text, "go run ./cmd/convert"); ok {
		text = "demi" + rest
	}
	if each := strings.ReplaceAll(text, " I", " $i"); each != text { // the index of each task
		text = "for i in $(seq 0 15); do " + each + " || exit; done"
	}
	shell := exec.Command("sh", "-c", text)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "HOME="+dir)
	var stderr bytes.Buffer
	shell.Stderr = &stderr
	err = shell.Run()
	if c.said != "" {
		require.Error(t, err, "%s: %s", page, c.text)
		require.Contains(t, stderr.String(), c.said, "%s: %s", page, c.text)
		return
	}
	require.NoError(t, err, "%s: %s: %s", page, c.text, stderr.String())
}

// makeGuide makes the files that the documents speak of.
func makeGuide(t *testing.T) (dir string) {
	dir = t.TempDir()
	from := func(parts ...string) string {
		return filepath.Join(append([]string{"..", "..", "testdata"}, parts...)...)
	}
	for name, source := range map[string]string{
		"model.safetensors": from("charlm", "model.safetensors"),
		"model.gguf":        from("charlm", "model.gguf"),
		"pytorch_model.bin": from("pytorch", "torch-2.6", "plain2.bin"),
		"run.ckpt":          from("pytorch", "torch-2.6", "lightning.ckpt"),
		"fp8.safetensors":   from("dequant", "float8.safetensors"),
	} {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o666))
	}
	for _, name := range []string{"model", "llama"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(from("charlm", "sharded"))))
	}
	shards, err := filepath.Glob(from("charlm", "sharded", "*"))
	require.NoError(t, err)
	for _, shard := range shards {
		text, err := os.ReadFile(shard)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(shard)), text, 0o666))
	}
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12345\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pointer.safetensors"), []byte(pointer), 0o666))
	for dst, dtype := range map[string]string{"small.demi": "bf16", "x.demi": "bf16", "m.demi": "bf16", "model.demi": "bf16", "small.safetensors": "bf16", "model-bf16.safetensors": "bf16"} {
		out, err := demiCommand(t, filepath.Join(dir, "model.safetensors"), filepath.Join(dir, dst), "--dtype", dtype, "-q").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir
}
