package pytorch

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/demi-weights/demi/tensor"
)

// A machine runs a pickle: a program that puts values on a stack. The opcodes
// are those of protocols 2 to 5 that the picklers of Python and of LibTorch
// write; nothing that they name is looked up outside of this package.
type machine struct {
	text    string
	pos     int // of the next byte
	at      int // of the opcode at hand
	stack   []any
	marks   []int // heights of the stack
	memo    []any
	sparse  map[uint32]any // memo entries that do not follow one another
	budget  *budget
	unknown func(name string) // takes classes that are not known; nil if they are errors
}

// A budget bounds what a pickle takes by its length, for a few opcodes can ask
// for much: the memory of its values, in bytes, and the work of going through
// them, in bytes that are looked at.
type budget struct{ memory, work, length int64 }

// What a byte of a pickle may take, and what each pickle may.
const (
	memoryFactor, memoryFloor = 32, 32 << 20
	workFactor, workFloor     = 64, 64 << 20
	object                    = 32 // of each value, and of a step on the way through it
)

func newBudget(length int) *budget {
	n := int64(length)
	return &budget{memoryFloor + memoryFactor*n, workFloor + workFactor*n, n}
}

// take pays for n bytes, and for the object that has them.
func (b *budget) take(n int) error {
	b.memory -= int64(n) + object
	if b.memory < 0 {
		return classed(tensor.ErrLimit, "pickle of %d bytes asks for more than %d bytes of memory", b.length, memoryFloor+memoryFactor*b.length)
	}
	return nil
}

// visit pays for a step that looks at n bytes.
func (b *budget) visit(n int) error {
	b.work -= int64(n) + object
	if b.work < 0 {
		return classed(tensor.ErrLimit, "pickle of %d bytes has values in values so many times that there is no end to them", b.length)
	}
	return nil
}

// errors of the machine, beside those that name a value.
var (
	errEnds  = errors.New("pickle ends in the middle of an opcode")
	errStack = errors.New("pickle takes a value that its stack does not have")
	errMark  = errors.New("pickle takes values from a mark that is not there")
)

// run runs the pickle to its end, and returns its value. Errors are about the
// opcode at m.at.
func (m *machine) run() (any, error) {
	for {
		m.at = m.pos
		op, err := m.byte()
		if err == nil && op == opStop {
			return m.finish()
		}
		if err == nil {
			err = m.step(op)
		}
		if err != nil {
			return nil, err
		}
	}
}

// finish returns the value that is left.
func (m *machine) finish() (any, error) {
	if len(m.stack) != 1 || len(m.marks) > 0 {
		return nil, fmt.Errorf("pickle leaves %d values and %d marks, want one value", len(m.stack), len(m.marks))
	}
	if rest := len(m.text) - m.pos; rest > 0 {
		return nil, fmt.Errorf("%d bytes after the end of the pickle", rest)
	}
	return m.stack[0], nil
}

// Opcodes, by Python's pickletools.
const (
	opMark           = '('
	opStop           = '.'
	opPop            = '0'
	opPopMark        = '1'
	opDup            = '2'
	opBinInt         = 'J'
	opBinInt1        = 'K'
	opBinInt2        = 'M'
	opNone           = 'N'
	opBinPersID      = 'Q'
	opReduce         = 'R'
	opBinString      = 'T'
	opShortBinString = 'U'
	opBinUnicode     = 'X'
	opAppend         = 'a'
	opBuild          = 'b'
	opGlobal         = 'c'
	opDict           = 'd'
	opAppends        = 'e'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opList           = 'l'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opSetItem        = 's'
	opTuple          = 't'
	opSetItems       = 'u'
	opEmptyDict      = '}'
	opEmptyList      = ']'
	opEmptyTuple     = ')'
	opBinFloat       = 'G'
	opBinBytes       = 'B'
	opShortBinBytes  = 'C'
	opProto          = 0x80
	opNewObj         = 0x81
	opTuple1         = 0x85
	opTuple2         = 0x86
	opTuple3         = 0x87
	opTrue           = 0x88
	opFalse          = 0x89
	opLong1          = 0x8a
	opLong4          = 0x8b
	opShortUnicode   = 0x8c
	opUnicode8       = 0x8d
	opBinBytes8      = 0x8e
	opEmptySet       = 0x8f
	opAddItems       = 0x90
	opFrozenSet      = 0x91
	opStackGlobal    = 0x93
	opMemoize        = 0x94
	opFrame          = 0x95
	opByteArray8     = 0x96
)

// step runs one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case opProto, opFrame:
		return m.frame(op)
	case opNone, opTrue, opFalse:
		return m.constant(op)
	case opBinInt, opBinInt1, opBinInt2, opBinFloat:
		return m.number(op)
	case opLong1, opLong4:
		return m.long(op)
	case opBinUnicode, opShortUnicode, opUnicode8, opBinString, opShortBinString, opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8:
		return m.str(op)
	case opEmptyDict:
		return m.pushNew(&dict{}, 64)
	case opEmptyList, opEmptyTuple, opEmptySet:
		return m.pushNew(&seq{kind: kindOf(op)}, 0)
	case opList, opTuple, opFrozenSet:
		return m.fromMark(op)
	case opTuple1, opTuple2, opTuple3:
		return m.tuple(int(op-opTuple1) + 1)
	case opAppend, opAppends, opAddItems:
		return m.extend(op)
	case opDict, opSetItem, opSetItems:
		return m.setItems(op)
	case opBinGet, opLongBinGet:
		return m.get(op)
	case opBinPut, opLongBinPut, opMemoize:
		return m.put(op)
	}
	return m.stepObject(op)
}

// stepObject runs the opcodes that move or make objects.
func (m *machine) stepObject(op byte) error {
	switch op {
	case opMark:
		return m.mark()
	case opPop, opPopMark, opDup:
		return m.shuffle(op)
	case opGlobal, opStackGlobal:
		return m.global(op)
	case opReduce, opNewObj:
		return m.call(op)
	case opBuild:
		return m.build()
	case opBinPersID:
		return m.persistent()
	}
	return classed(tensor.ErrUnsupported, "opcode %q (%#02x) is not one that PyTorch writes", rune(op), op)
}

func (m *machine) constant(op byte) error {
	if op == opNone {
		return m.push(nil)
	}
	return m.push(op == opTrue)
}

// bytes returns the next n bytes.
func (m *machine) bytes(n uint64) (string, error) {
	if n > uint64(len(m.text)-m.pos) {
		return "", errEnds
	}
	s := m.text[m.pos : m.pos+int(n)]
	m.pos += int(n)
	return s, nil
}

// width is the size of the number behind an opcode: a value, a length or an
// index of the memo.
func width(op byte) int {
	switch op {
	case opBinInt2:
		return 2
	case opBinInt, opLong4, opBinUnicode, opBinString, opBinBytes, opLongBinGet, opLongBinPut:
		return 4
	case opBinFloat, opUnicode8, opBinBytes8, opByteArray8, opFrame:
		return 8
	}
	return 1
}

func (m *machine) byte() (byte, error) {
	s, err := m.bytes(1)
	if err != nil {
		return 0, err
	}
	return s[0], nil
}

// uint reads a little-endian number of n bytes.
func (m *machine) uint(n int) (v uint64, err error) {
	s, err := m.bytes(uint64(n))
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | uint64(s[i])
	}
	return v, err
}

// push puts a value on the stack; none is larger than an interface.
func (m *machine) push(v any) error {
	const most = 1 << 20 // Python's own picklers stay below some thousands
	if len(m.stack) >= most {
		return classed(tensor.ErrLimit, "pickle has more than %d values on its stack", most)
	}
	m.stack = append(m.stack, v)
	return nil
}

// pushNew is push for a value that takes n bytes and an object.
func (m *machine) pushNew(v any, n int) error {
	if err := m.budget.take(n); err != nil {
		return err
	}
	return m.push(v)
}

// mark notes the height of the stack.
func (m *machine) mark() error {
	const most = 10_000 // Python gives up at some hundreds
	if len(m.marks) >= most {
		return classed(tensor.ErrLimit, "pickle has more than %d marks on its stack", most)
	}
	m.marks = append(m.marks, len(m.stack))
	return nil
}

// floor is the height of the stack at the last mark.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// pop takes the last n values off the stack. They are valid until the next
// push.
func (m *machine) pop(n int) ([]any, error) {
	height := len(m.stack) - n
	if height < m.floor() {
		return nil, errStack
	}
	top := m.stack[height:]
	m.stack = m.stack[:height]
	return top, nil
}

// popMark is pop for all values above the last mark, which goes, too.
func (m *machine) popMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, errMark
	}
	top := m.stack[m.floor():]
	m.stack = m.stack[:m.floor()]
	m.marks = m.marks[:len(m.marks)-1]
	return top, nil
}

func (m *machine) top() (any, error) {
	if len(m.stack) == m.floor() {
		return nil, errStack
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) shuffle(op byte) error {
	switch {
	case op == opPopMark, op == opPop && len(m.marks) > 0 && len(m.stack) == m.floor():
		_, err := m.popMark()
		return err
	case op == opPop:
		_, err := m.pop(1)
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	return m.push(v)
}

// frame reads the version of the protocol, or a frame's length, which only
// serves those who read from a pipe.
func (m *machine) frame(op byte) error {
	if op == opProto {
		v, err := m.byte()
		if err == nil && v > 5 {
			return classed(tensor.ErrUnsupported, "pickle has protocol %d, known are those up to 5", v)
		}
		return err
	}
	n, err := m.uint(width(op))
	if err == nil && n > uint64(len(m.text)-m.pos) {
		return fmt.Errorf("frame of %d bytes, %d are left", n, len(m.text)-m.pos)
	}
	return err
}

func (m *machine) number(op byte) error {
	v, err := m.uint(width(op))
	if err != nil {
		return err
	}
	switch op {
	case opBinInt:
		return m.pushNew(int64(int32(v)), 0)
	case opBinFloat:
		return m.pushNew(math.Float64frombits(swap(v)), 0)
	case opBinInt1:
		return m.push(int64(v)) // Go has the small ones ready
	}
	return m.pushNew(int64(v), 0)
}

func swap(v uint64) (out uint64) {
	for range 8 {
		out, v = out<<8|v&0xff, v>>8
	}
	return out
}

// long reads an integer of any length in two's complement, little-endian.
func (m *machine) long(op byte) error {
	n, err := m.uint(width(op))
	if err != nil {
		return err
	}
	s, err := m.bytes(n)
	if err != nil {
		return err
	}
	if len(s) <= 8 {
		return m.pushNew(shortLong(s), 0)
	}
	if err := m.budget.take(2 * len(s)); err != nil {
		return err
	}
	p := []byte(s)
	slices.Reverse(p)
	v := new(big.Int).SetBytes(p)
	if p[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(p))))
	}
	if v.IsInt64() {
		return m.push(v.Int64())
	}
	return m.push(v)
}

func shortLong(s string) int64 {
	var v uint64
	for i := range len(s) {
		v |= uint64(s[i]) << (8 * i)
	}
	unused := 64 - 8*len(s)
	return int64(v<<unused) >> unused
}

// str reads a string or bytes. Both share the memory of the pickle.
func (m *machine) str(op byte) error {
	n, err := m.uint(width(op))
	if err != nil {
		return err
	}
	s, err := m.bytes(n)
	if err != nil {
		return err
	}
	switch op {
	case opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8:
		return m.pushNew(raw(s), 0)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("string %s is not UTF-8", quote(s))
	}
	return m.pushNew(s, 0)
}

func kindOf(op byte) seqKind {
	switch op {
	case opEmptyList, opList:
		return listKind
	case opEmptySet, opFrozenSet:
		return setKind
	}
	return tupleKind
}

const slot = 16 // bytes of a value in a container

func (m *machine) fromMark(op byte) error {
	items, err := m.popMark()
	if err != nil {
		return err
	}
	return m.pushNew(&seq{kindOf(op), slices.Clone(items)}, slot*len(items))
}

func (m *machine) tuple(n int) error {
	items, err := m.pop(n)
	if err != nil {
		return err
	}
	return m.pushNew(&seq{tupleKind, slices.Clone(items)}, slot*n)
}

// operands takes the items of an opcode off the stack, n of them or (if n is
// 0) those above the mark, and returns the container below, which stays.
func (m *machine) operands(n int) (items []any, container any, err error) {
	if n > 0 {
		items, err = m.pop(n)
	} else {
		items, err = m.popMark()
	}
	if err == nil {
		container, err = m.top()
	}
	return items, container, err
}

func (m *machine) extend(op byte) error {
	n := 0
	if op == opAppend {
		n = 1
	}
	items, to, err := m.operands(n)
	if err != nil {
		return err
	}
	if err := m.budget.take(2 * slot * len(items)); err != nil {
		return err
	}
	switch to := to.(type) {
	case *inert:
		return nil
	case *seq:
		if to.kind != tupleKind {
			to.items = append(to.items, items...)
			return nil
		}
	}
	return fmt.Errorf("pickle appends to a value of type %s", typeName(to))
}

func (m *machine) setItems(op byte) error {
	if op == opDict {
		items, err := m.popMark()
		if err != nil {
			return err
		}
		d := &dict{}
		if err := m.fillPairs(d, items); err != nil {
			return err
		}
		return m.pushNew(d, 64)
	}
	n := 0
	if op == opSetItem {
		n = 2
	}
	items, to, err := m.operands(n)
	if err != nil {
		return err
	}
	switch to := to.(type) {
	case *inert:
		return nil
	case *dict:
		return m.fillPairs(to, items)
	}
	return fmt.Errorf("pickle sets items of a value of type %s", typeName(to))
}

// fillPairs adds keys and values, which alternate.
func (m *machine) fillPairs(d *dict, items []any) error {
	if len(items)%2 != 0 {
		return errors.New("the last key of a dictionary has no value")
	}
	for i := 0; i < len(items); i += 2 {
		if err := m.set(d, items[i], items[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// set adds an item, and pays for it with the growth of slices and the index.
func (m *machine) set(d *dict, key, val any) error {
	if err := m.budget.take(6 * slot); err != nil {
		return err
	}
	return d.set(key, val)
}

func (m *machine) get(op byte) error {
	n, err := m.uint(width(op))
	if err != nil {
		return err
	}
	if n < uint64(len(m.memo)) {
		return m.push(m.memo[n])
	}
	v, ok := m.sparse[uint32(n)]
	if !ok {
		return fmt.Errorf("pickle takes memo %d, which is not set", n)
	}
	return m.push(v)
}

// put notes the last value: memo numbers that follow one another, as picklers
// write them, in a slice, others in a map.
func (m *machine) put(op byte) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	n := uint64(len(m.memo) + len(m.sparse))
	if op != opMemoize {
		if n, err = m.uint(width(op)); err != nil {
			return err
		}
	}
	if n < uint64(len(m.memo)) {
		m.memo[n] = v
		return nil
	}
	if n == uint64(len(m.memo)) && len(m.sparse) == 0 {
		m.memo = append(m.memo, v)
		return m.budget.take(slot)
	}
	if m.sparse == nil {
		m.sparse = make(map[uint32]any)
	}
	m.sparse[uint32(n)] = v
	return m.budget.take(4 * slot)
}
