// Package hfconfig finds the element types that a model's config.json names,
// and puts others in their place. It leaves every other byte as it is.
package hfconfig

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/tensor"
)

// MaxSize is the size in bytes up to which callers should read a config.json.
const MaxSize = 16 << 20

// A Value is the name of a floating-point type in a configuration: the value of
// a member "torch_dtype" or "dtype".
type Value struct {
	Path       string // the names on the way to it: "text_config.torch_dtype"
	Text       string // as it is written: "bfloat16" or "torch.bfloat16"
	DType      tensor.DType
	Start, End int // in the text, the quotation marks included
}

// DTypes returns the values of all members torch_dtype and dtype that name F64,
// F32, F16 or BF16, at any depth, in the order of the text. The error is for
// text that is not one JSON value; it wraps tensor.ErrFormat.
func DTypes(text []byte) (values []Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	key := ""
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, &tensor.FileError{Offset: dec.InputOffset(), Err: fmt.Errorf("%w: not valid JSON: %w", tensor.ErrFormat, err)}
		}
		kind, n := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && n%2 == 1 && tok.Kind() == '"'
		if (key == "torch_dtype" || key == "dtype") && !isName && tok.Kind() == '"' {
			if d, err := tensor.ParseDType(tok.String()); err == nil && d.IsFloat() {
				end := int(dec.InputOffset())
				start := bytes.LastIndexByte(text[:end-1], '"') // no type has a quotation mark in its name
				path := strings.Join(slices.Collect(dec.StackPointer().Tokens()), ".")
				values = append(values, Value{path, tok.String(), d, start, end})
			}
		}
		key = ""
		if isName {
			key = tok.String()
		}
	}
}

var torchNames = map[tensor.DType]string{
	tensor.F64: "float64", tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16",
}

// Name returns PyTorch's name of F64, F32, F16 or BF16; "" for other types.
func Name(d tensor.DType) string { return torchNames[d] }

// Replace returns a copy of text in which each of the values, which are in the
// order of DTypes, names d, with "torch." before it where it had that.
func Replace(text []byte, values []Value, d tensor.DType) (out []byte) {
	done := 0
	for _, v := range values {
		out = append(append(out, text[done:v.Start]...), '"')
		if strings.HasPrefix(v.Text, "torch.") {
			out = append(out, "torch."...)
		}
		out = append(append(out, torchNames[d]...), '"')
		done = v.End
	}
	return append(out, text[done:]...)
}
