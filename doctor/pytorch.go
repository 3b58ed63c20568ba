package doctor

import (
	"errors"
	"slices"
	"strings"

	"github.com/demi-weights/demi/internal/regular"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// pytorch looks at the names in the pickles of a file, and at its tensors.
func (e *examiner) pytorch(w *weights, f *regular.File) {
	names, nameErr := pytorch.UnknownGlobals(f, f.Size(), &pytorch.Options{Name: w.path})
	if len(names) == 0 && nameErr != nil && !modelName(w.path) && w.base() != "model.bin" && !errors.Is(nameErr, tensor.ErrTruncated) {
		e.report.Files--
		return // files in .bin, .pt and the like hold many things
	}
	e.globals(w, names)
	p, err := pytorch.NewFile(counted{f, &e.progress}, f.Size(), &pytorch.Options{Name: w.path, Lenient: true})
	if err != nil {
		if len(names) == 0 {
			e.refused(w.path, err)
		}
		return
	}
	w.take(p)
	if !e.Scan {
		return
	}
	if err := p.Verify(e.ctx); err != nil {
		e.checksum(w, err)
		return
	}
	e.values(w, p)
}

// globals notes what a pickle names. A file that is not by name a model is
// often the state of a training run, with classes of its trainer.
func (e *examiner) globals(w *weights, names []string) {
	slices.SortStableFunc(names, func(a, b string) int {
		return rankOf(a) - rankOf(b)
	})
	harmful := 0
	for harmful < len(names) && rankOf(names[harmful]) == 0 {
		harmful++
	}
	if harmful > 0 {
		e.add("pickle-code", Finding{File: w.path, Text: "the pickle names " + shardset.Listed(names[:harmful]) + ", which PyTorch would import and may call on loading"})
	}
	if harmful < len(names) {
		f := Finding{File: w.path, Text: "the pickle names " + shardset.Listed(names[harmful:])}
		if !modelName(w.path) {
			f.Severity = Note
		}
		e.add("pickle-class", f)
	}
}

// rankOf is 0 for names that run programs, read files or load code.
func rankOf(global string) int {
	module, name, _ := strings.Cut(global, ".")
	switch {
	case global == pytorch.Computed, strings.HasPrefix(global, "(extension"):
		return 0
	case slices.Contains(harmfulModules, module):
		return 0
	case (module == "builtins" || module == "__builtin__") && !slices.Contains(harmlessBuiltins, name):
		return 0
	case strings.HasPrefix(global, "torch.hub."), strings.HasPrefix(global, "torch.load"), strings.HasPrefix(global, "torch.utils.cpp_extension"),
		strings.HasPrefix(global, "numpy.testing"), strings.HasPrefix(global, "numpy.load"), strings.HasPrefix(global, "operator."), strings.HasPrefix(global, "functools."):
		return 0
	}
	return 1
}

// harmfulModules are those of Python's library with which a call can do
// anything.
var harmfulModules = []string{"_io", "_pickle", "aiohttp", "asyncio", "bdb", "cffi", "code", "codeop", "commands", "ctypes", "ensurepip", "ftplib", "http", "httplib",
	"imaplib", "importlib", "io", "multiprocessing", "nt", "os", "pathlib", "pdb", "pickle", "pip", "pkgutil", "platform", "poplib", "popen2", "posix", "profile", "pty",
	"pydoc", "requests", "runpy", "shutil", "smtplib", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "timeit", "trace", "types", "urllib", "urllib2",
	"venv", "webbrowser", "zipimport"}

var harmlessBuiltins = []string{"object", "complex", "slice", "range", "xrange", "long", "unicode", "Exception"}
