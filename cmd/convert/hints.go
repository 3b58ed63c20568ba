package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/internal/sniff"
	"github.com/demi-weights/demi/tensor"
)

// A hintError is an error with advice.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

func hinted(err error, hint string) error { return hintError{err, hint} }

// hint returns advice for the likely mistake. The first row that applies
// decides.
func hint(err error) string {
	var h hintError
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case errors.As(err, &h):
		return h.hint
	case is(demi.ErrOverflow):
		return "BF16 has the range of F32 (--dtype bf16); or --on-overflow keep, saturate, ieee; or --keep 'regex=type'"
	case is(demi.ErrNaN):
		return "demi inspect --scan says where they are; --on-nan keep lets them pass"
	case is(demi.ErrTargetSize):
		return "demi advise says what keeps tensors wide; a larger --max-rel-err, --dtype bf16 or f16 have no such limits"
	case is(demi.ErrBusy):
		return "wait until the other process has ended, or choose another name"
	case is(fs.ErrExist):
		return "choose another name, or --force to replace it"
	case is(syscall.ENOSPC):
		return "make room and run the same command again"
	case is(fs.ErrPermission):
		return "look at the permissions of the file and of its directory"
	case is(tensor.ErrLimit) && fileError(err) == nil:
		return "give more with --max-memory, or leave it out"
	case is(tensor.ErrChanged):
		return "leave the source alone while it is read, and run the same command again"
	}
	return classHint(err)
}

// classHint is advice for all failures of a class.
func classHint(err error) string {
	switch c := classify(err); c.Name {
	case classInput.Name:
		return fileHint(fileError(err))
	case classUsage.Name:
		return "demi --help has the commands and their flags"
	case classIO.Name:
		if c.Retry {
			return "the same command may succeed later; nothing was left at the output"
		}
		return "look at the paths, and at the rights of whoever runs the program"
	case classInternal.Name:
		return "report it; the same command with --cpu generic or -j 1 may get round it"
	case "signal":
		return "the same command goes on: files of a set that were complete are kept"
	}
	return ""
}

// fileHint says what to do about a file that is not what it should be.
func fileHint(e *tensor.FileError) string {
	if e == nil || isDir(e.File) {
		return "name the file that is meant; demi inspect FILE says what is in it"
	}
	if errors.Is(e, tensor.ErrLimit) {
		return "files that libraries write and read stay below this limit: compare the file with where it comes from; if it is whole, its writer has to cut it into shards"
	}
	if errors.Is(e, tensor.ErrUnsupported) {
		return "demi inspect SRC says what is in a checkpoint, docs/formats.md what a format can hold"
	}
	if strings.HasSuffix(e.File, ".json") {
		return "get the files that the index names, and all of them from one place; or name a file that is whole in itself"
	}
	if f, err := os.Open(e.File); err == nil {
		defer f.Close()
		head := make([]byte, sniff.Size)
		n, _ := io.ReadFull(f, head)
		if what, hint := sniff.Sniff(head[:n]); what != sniff.Safetensors && what != sniff.GGUF && what != sniff.Demi && what != sniff.PyTorch && hint != "" {
			return hint
		}
	}
	return "compare the size and the hash of the file with those of where it comes from, and get it again"
}

// argumentsError is the error for a wrong number of arguments: want of them,
// which what names.
func argumentsError(cmd *cobra.Command, what string, want int, args []string) error {
	err := usagef("%s takes %s, and was given %s", cmd.CommandPath(), what, english.Plural(len(args), "argument", ""))
	set := 0
	for _, a := range args {
		if shardStem(a) != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return hinted(err, "a pattern such as model-*.safetensors becomes all files that match: name one shard or the directory, and the whole set is read")
	case len(args) > want:
		for _, a := range args {
			if _, e := demi.ParseTarget(a); e == nil && !exists(a) {
				return hinted(err, fmt.Sprintf("types are flags: --dtype %s", a))
			}
		}
		return hinted(err, "quote names with spaces and patterns of the shell")
	case len(args) == 1 && want == 2 && exists(args[0]):
		return hinted(err, fmt.Sprintf("%s is missing; demi inspect %s shows what is in it", what[strings.LastIndexByte(what, ' ')+1:], args[0]))
	}
	return hinted(err, cmd.CommandPath()+" --help has examples")
}

// near is how many letters may differ where another name is offered.
const near = 2

// flagError is the error for a flag that cannot be read.
func flagError(cmd *cobra.Command, err error) error {
	e := usageError{err}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return e
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: near} // it knows how to look for names that are near
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if list := flags.SuggestionsFor(unknown.GetSpecifiedName()); len(list) > 0 {
		return hinted(e, "did you mean --"+strings.Join(list, ", --")+"?")
	}
	return hinted(e, cmd.CommandPath()+" --help lists the flags")
}

// shardStem returns the name of the set that a shard belongs to, with its
// directory; "" for other names.
func shardStem(path string) string {
	kind := shardset.Kind{Ext: filepath.Ext(path)}
	stem, _, _, ok := kind.ParseShardName(path)
	if !ok {
		return ""
	}
	return stem
}

// outputHint adds advice to the error about DST.
func outputHint(err error, src, dst string) error {
	switch stem := shardStem(dst); {
	case err == nil || !errors.Is(err, demi.ErrOutput):
		return err
	case stem != "" && stem == shardStem(src):
		return hinted(err, "a pattern may have made a shard of SRC the output: name one shard or the directory, and as DST a new name without a number")
	case stem != "":
		return hinted(err, fmt.Sprintf("leave the number out: %s%s, with --max-shard-size for a set of that name", filepath.Base(stem), filepath.Ext(dst)))
	case errors.Is(err, fs.ErrNotExist):
		return hinted(err, fmt.Sprintf("make the directory first: mkdir -p %s", filepath.Dir(dst)))
	}
	return hinted(err, "DST is a new file that ends in .safetensors, .gguf or .demi, or a new directory, outside of SRC")
}

// planHint adds advice to the error of a plan that changes the container.
func planHint(err error, o demi.Options, from demi.Format) error {
	if errors.Is(err, tensor.ErrUnsupported) && !o.ContainerOnly && o.Format != "" && o.Format != from {
		return hinted(err, "--container-only moves tensors and metadata all the same")
	}
	return err
}

// sourceHint adds advice to the error of a SRC that is not there.
func sourceHint(cmd *cobra.Command, err error, src, dst string) error {
	if !errors.Is(err, fs.ErrNotExist) || exists(src) {
		return err
	}
	commands := cmd.Root().SuggestionsFor(src)
	switch {
	case len(commands) > 0:
		return hinted(err, "if it is to be a command: demi "+commands[0])
	case exists(dst):
		return hinted(err, "the source comes first: demi SRC DST")
	}
	return hinted(err, "SRC is a file, any shard of a set, an index or a directory; its path begins at the current directory")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
