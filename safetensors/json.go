package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A reader reads strict JSON (RFC 7493: valid UTF-8, no lone surrogates, no
// name twice in an object) from memory. Its errors are about the text alone;
// offset says where.
type reader struct {
	dec  *jsontext.Decoder
	text []byte
}

// maxDepth is how deep arrays and objects may be nested: the limit of the
// reference's JSON library.
const maxDepth = 127

const space = " \t\r\n" // of JSON

func newReader(text []byte) *reader {
	return &reader{dec: jsontext.NewDecoder(bytes.NewBuffer(text)), text: text}
}

// offset is that of the byte after the last value.
func (r *reader) offset() int64 { return r.dec.InputOffset() }

// A textError is one about the JSON text, at a byte of it.
type textError struct {
	offset int64
	twice  bool   // a member of an object comes twice
	name   string // of that member
	err    error
}

func (e *textError) Error() string { return e.err.Error() }
func (e *textError) Unwrap() error { return e.err }

// syntax makes an error of the decoder one of ours.
func (r *reader) syntax(err error) error {
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &textError{offset: int64(len(r.text)), err: errors.New("JSON ends too early")}
	}
	if s.Err == jsontext.ErrDuplicateName {
		name := s.JSONPointer.LastToken()
		return &textError{s.ByteOffset, true, name, fmt.Errorf("duplicate field %q", name)}
	}
	return &textError{offset: s.ByteOffset, err: fmt.Errorf("not valid JSON: %w", s.Err)}
}

// locate returns where in the text err is: where the decoder says or, for
// other errors, after the last value.
func (r *reader) locate(err error) int64 {
	var t *textError
	if errors.As(err, &t) {
		return t.offset
	}
	return r.offset()
}

// begin reads the opening of an object '{' or an array '['.
func (r *reader) begin(kind jsontext.Kind, what string) error {
	if got := r.dec.PeekKind(); got != kind && got != 0 {
		return fmt.Errorf("%s is %s, want %s", what, kindName(got), kindName(kind))
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.syntax(err)
	}
	if r.dec.StackDepth() > maxDepth {
		return fmt.Errorf("arrays and objects are nested deeper than %d", maxDepth)
	}
	return nil
}

// end reads the closing of the object or array if it comes next.
func (r *reader) end() (bool, error) {
	if k := r.dec.PeekKind(); k != '}' && k != ']' {
		return false, nil
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return false, r.syntax(err)
	}
	return true, nil
}

// object reads an object; member reads the value of each key.
func (r *reader) object(what string, member func(key string) error) error {
	if err := r.begin('{', what); err != nil {
		return err
	}
	for {
		if done, err := r.end(); done || err != nil {
			return err
		}
		key, err := r.str("key")
		if err != nil {
			return err
		}
		if err := member(string(key)); err != nil {
			return err
		}
	}
}

// str reads a string; the bytes are valid until the next read.
func (r *reader) str(what string) ([]byte, error) {
	if got := r.dec.PeekKind(); got != '"' && got != 0 {
		return nil, fmt.Errorf("%s is %s, want a string", what, kindName(got))
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.syntax(err)
	}
	return unquote(raw), nil
}

// unquote returns the text of a JSON string that the decoder has passed.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// count reads an integer of 0 and more, in digits alone.
func (r *reader) count(what string) (uint64, error) {
	if got := r.dec.PeekKind(); got != '0' && got != 0 {
		return 0, fmt.Errorf("%s has %s, want integers", what, kindName(got))
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return 0, r.syntax(err)
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s has %s, which does not fit 64 bits", what, shorten(raw))
	}
	if err != nil {
		return 0, fmt.Errorf("%s has %s, want integers of 0 and more", what, shorten(raw))
	}
	return n, nil
}

// skip reads a value of any kind, within the bounds of the reference's JSON
// library: nesting and numbers of 64-bit floats.
func (r *reader) skip() error {
	depth := r.dec.StackDepth()
	for {
		tok, err := r.dec.ReadToken()
		if err != nil {
			return r.syntax(err)
		}
		if r.dec.StackDepth() > maxDepth {
			return fmt.Errorf("arrays and objects are nested deeper than %d", maxDepth)
		}
		if tok.Kind() == '0' {
			if _, err := strconv.ParseFloat(tok.String(), 64); err != nil {
				return fmt.Errorf("number %s does not fit a float", shorten([]byte(tok.String())))
			}
		}
		if r.dec.StackDepth() <= depth {
			return nil
		}
	}
}

// rest returns what comes after the value, without white space.
func (r *reader) rest() []byte {
	return bytes.Trim(r.text[r.offset():], space)
}

func shorten(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return fmt.Sprintf("%s… (%d characters)", raw[:most], len(raw))
	}
	return string(raw)
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	return "nothing"
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}
