package pytorch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/demi-weights/demi/tensor"
)

// Computed stands, in the result of UnknownGlobals, for a name that a pickle
// does not have as text.
const Computed = "(a name that the pickle computes)"

// UnknownGlobals returns the names of the classes and functions that the
// pickles of a file name and that this package does not know, as
// "module.name", sorted, each once: what Python would import and call. It goes
// through the opcodes, those that PyTorch does not write among them, and runs
// none. The pickles are all entries in .pkl of a zip archive, or else those
// that the file begins with, as PyTorch wrote before 1.6.
//
// Names that were found come back beside an error as well: one of the archive,
// or of a pickle that cannot be followed to its end.
func UnknownGlobals(r io.ReaderAt, size int64, opts *Options) ([]string, error) {
	if opts == nil {
		opts = &Options{}
	}
	f := &File{name: opts.Name, r: r, size: max(size, 0)}
	g := &globalFinder{seen: make(map[string]bool)}
	err := f.eachPickle(opts.maxHeader(), g.find)
	return g.names(), err
}

// eachPickle calls find with each text of pickles and its offset in the file.
func (f *File) eachPickle(limit uint64, find func(text string, pickles int) (at int, err error)) error {
	found := func(e *entry, pickles int) error {
		text, err := f.readText(e)
		if err != nil {
			return err
		}
		if at, err := find(text, pickles); err != nil {
			return f.fail("", e.data+int64(at), tensor.ErrFormat, "%v", err)
		}
		return nil
	}
	head, err := f.readRange(0, min(f.size, 32))
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(head, []byte(localMagic)) {
		pickles := 1
		if bytes.Contains(head, []byte(legacyMagic)) {
			pickles = 5 // magic, version, system, object, keys of storages
		}
		return found(&entry{size: min(f.size, int64(limit))}, pickles)
	}
	if err := f.readArchive(limit); err != nil {
		return err
	}
	var errs []error
	for i := range f.entries {
		e := &f.entries[i]
		if !strings.HasSuffix(e.name, ".pkl") {
			continue
		}
		err := f.stored(e)
		if err == nil && uint64(e.size) > limit {
			err = f.fail("", e.data, tensor.ErrLimit, "pickle of %d bytes, the limit is %d", e.size, limit)
		}
		if err == nil {
			err = found(e, 1)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// A globalFinder goes through the opcodes of pickles and collects names.
type globalFinder struct {
	machine // its text and place alone
	seen    map[string]bool
	last    [2]string // the last two strings that were pushed
	texts   int       // how many of the last values were strings, at most 2
	strings map[uint64]string
	puts    uint64 // memo entries
}

func (g *globalFinder) names() (list []string) {
	for name := range g.seen {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// find goes through so many pickles that a text begins with. It returns the
// offset of the opcode that cannot be followed, with the reason.
func (g *globalFinder) find(text string, pickles int) (at int, err error) {
	g.machine = machine{text: text}
	for range pickles {
		g.strings, g.puts, g.texts = make(map[uint64]string), 0, 0
		for op := byte(0); op != opStop; {
			g.at = g.pos
			if op, err = g.byte(); err == nil {
				err = g.pass(op)
			}
			if err != nil {
				return g.at, err
			}
		}
	}
	return 0, nil
}

// Opcodes that the machine does not run, by Python's pickletools.
const (
	opFloat     = 'F'
	opInt       = 'I'
	opLong      = 'L'
	opString    = 'S'
	opUnicode   = 'V'
	opGet       = 'g'
	opPut       = 'p'
	opPersID    = 'P'
	opInst      = 'i'
	opExt1      = 0x82
	opExt2      = 0x83
	opExt4      = 0x84
	opNewObjEx  = 0x92
	opBuffer    = 0x97
	opReadOnly  = 0x98
	noArguments = "(.012NRQabd}el]ost)u"
)

// pass goes over an opcode and what belongs to it.
func (g *globalFinder) pass(op byte) error {
	switch op {
	case opGlobal, opInst:
		return g.global(op)
	case opStackGlobal:
		g.fromStack()
		return nil
	case opExt1, opExt2, opExt4:
		return g.extension(op)
	case opMemoize, opPut, opBinPut, opLongBinPut:
		return g.put(op)
	case opGet, opBinGet, opLongBinGet:
		return g.get(op)
	case opBinUnicode, opShortUnicode, opUnicode8, opBinString, opShortBinString, opUnicode, opString:
		return g.str(op)
	case opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8, opLong1, opLong4:
		g.texts = 0
		return g.skip(op)
	}
	if op != opProto && op != opFrame {
		g.texts = 0
	}
	return g.rest(op)
}

// rest goes over the opcodes that push no name.
func (g *globalFinder) rest(op byte) error {
	switch {
	case strings.IndexByte(noArguments, op) >= 0, op >= opTuple1 && op <= opFalse, op == opNewObj, op == opNewObjEx,
		op >= opEmptySet && op <= opFrozenSet, op == opBuffer, op == opReadOnly:
		return nil
	case op == opFloat, op == opInt, op == opLong, op == opPersID:
		_, err := g.line()
		return err
	case op == opProto, op == opBinInt1, op == opBinInt2, op == opBinInt, op == opBinFloat, op == opFrame:
		_, err := g.uint(width(op))
		return err
	}
	return fmt.Errorf("%#02x is no opcode of a pickle", op)
}

// skip goes over a length and so many bytes.
func (g *globalFinder) skip(op byte) error {
	n, err := g.uint(width(op))
	if err == nil {
		_, err = g.bytes(n)
	}
	return err
}

func (g *globalFinder) str(op byte) (err error) {
	var s string
	if op == opUnicode || op == opString {
		s, err = g.line()
		s = strings.Trim(s, `'"`)
	} else {
		var n uint64
		if n, err = g.uint(width(op)); err == nil {
			s, err = g.bytes(n)
		}
	}
	g.push(s)
	return err
}

func (g *globalFinder) push(s string) {
	g.last[0], g.last[1] = g.last[1], s
	g.texts = min(g.texts+1, 2)
}

// number reads the index of a memo entry.
func (g *globalFinder) number(op byte) (uint64, error) {
	if op != opGet && op != opPut {
		return g.uint(width(op))
	}
	s, err := g.line()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(s, 10, 64)
}

func (g *globalFinder) put(op byte) (err error) {
	n := g.puts
	if op != opMemoize {
		n, err = g.number(op)
	}
	g.puts++
	if g.texts > 0 {
		g.strings[n] = g.last[1]
	} else {
		delete(g.strings, n)
	}
	return err
}

func (g *globalFinder) get(op byte) error {
	n, err := g.number(op)
	if s, ok := g.strings[n]; ok {
		g.push(s)
	} else {
		g.texts = 0
	}
	return err
}

// global reads the two lines of a name.
func (g *globalFinder) global(op byte) error {
	module, err := g.line()
	if err != nil {
		return err
	}
	name, err := g.line()
	if err == nil {
		g.note(module, name)
	}
	g.texts = 0
	return err
}

// fromStack takes a name from the last two values.
func (g *globalFinder) fromStack() {
	if g.texts == 2 {
		g.note(g.last[0], g.last[1])
	} else {
		g.seen[Computed] = true
	}
	g.texts = 0
}

// extension reads a number that Python's copyreg has a name for.
func (g *globalFinder) extension(op byte) error {
	n, err := g.uint(1 << (op - opExt1))
	g.seen[fmt.Sprintf("(extension %d of copyreg)", n)] = true
	g.texts = 0
	return err
}

// note notes a name if it is not known.
func (g *globalFinder) note(module, name string) {
	const most = 1000 // a hostile file does not get to write a book
	if _, err := new(machine).find(module, name); err != nil && len(g.seen) < most {
		g.seen[shown(module+"."+name)] = true
	}
}

// shown is a name as it can be printed, the first 100 bytes of it.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		name = name[:most] + "..."
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}
