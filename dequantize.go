package demi

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/internal/dequant"
	"github.com/demi-weights/demi/tensor"
)

// A Dequantize says whether quantised tensors are read as they are stored, or
// as the FP32 values that they stand for.
type Dequantize string

// The ways to read quantised tensors. Those that can be decoded are FP8 (E4M3
// and E5M2, of both kinds) with a scale beside them: one value, one a row, one
// a block of 128 or 32; and of ggml's types Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL,
// IQ4_XS, TQ1_0, TQ2_0, MXFP4 and NVFP4. Others stay what they are, with a
// warning.
const (
	// DequantizeNone copies them byte for byte. It is the default.
	DequantizeNone Dequantize = "none"
	// DequantizeScaled decodes them; an FP8 tensor without a scale is
	// tensor.ErrUnsupported, for the weights could be many times too large.
	DequantizeScaled Dequantize = "scaled"
	// DequantizeAll takes the values of FP8 tensors without a scale as well.
	DequantizeAll Dequantize = "all"
)

// ParseDequantize reads the name of a way; "" is DequantizeNone.
func ParseDequantize(s string) (Dequantize, error) {
	switch d := Dequantize(strings.ToLower(s)); d {
	case "":
		return DequantizeNone, nil
	case DequantizeNone, DequantizeScaled, DequantizeAll:
		return d, nil
	}
	return "", fmt.Errorf("unknown way to dequantize %q (none, scaled, all)", s)
}

// dequantized makes the quantised tensors of c F32.
func (c *Checkpoint) dequantized(how Dequantize) error {
	how, err := ParseDequantize(string(how))
	if err != nil || how == DequantizeNone {
		return err
	}
	src, err := dequant.New(c.src, dequant.Options{Unscaled: how == DequantizeAll})
	if err != nil {
		return err
	}
	c.quantized, c.way = src, how
	c.setSource(src)
	if names := src.Scales(); len(names) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("%s %s: %s", english.Plural(len(names), "scale", ""),
			english.PluralWord(len(names), "is multiplied in and no longer a tensor", "are multiplied in and no longer tensors"), someOf(names)))
	}
	if names := src.Kept(); len(names) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("%s as stored, of a type that cannot be decoded: %s", english.Plural(len(names), "quantised tensor stays", "quantised tensors stay"), someOf(names)))
	}
	return nil
}

// someOf lists up to three names.
func someOf(names []string) string {
	text := fmt.Sprintf("%q", names[:min(len(names), 3)])
	text = strings.ReplaceAll(text[1:len(text)-1], `" "`, `", "`)
	if len(names) > 3 {
		text += ", …"
	}
	return text
}

// stored returns the source with the tensors as they are stored.
func (c *Checkpoint) stored() tensor.Source {
	if c.quantized != nil {
		return c.quantized.Under()
	}
	return c.src
}

// origin returns what the reasons of a tensor begin with: the type that it was
// decoded from.
func (c *Checkpoint) origin(name string) string {
	if c.quantized == nil {
		return ""
	}
	return c.quantized.From(name)
}

// decoded reports whether tensors were decoded and none stays quantised; of a
// pipeline, among those of the component in dir, unless dir is "".
func (c *Checkpoint) decoded(dir string) bool {
	if c.quantized == nil {
		return false
	}
	of := func(name string) bool { return len(c.components) == 0 || dir == "" || strings.HasPrefix(name, dir+"/") }
	if slices.ContainsFunc(c.quantized.Kept(), of) {
		return false
	}
	return slices.ContainsFunc(c.quantized.Tensors(), func(in tensor.Info) bool { return of(in.Name) && c.origin(in.Name) != "" })
}

// dropQuantization takes the members "quantization_config" out of a
// configuration and leaves every other byte: loaders would look for scales that
// are no longer there. Text that is not JSON comes back as it is.
func dropQuantization(text []byte) []byte {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	var out []byte
	done, before := 0, 0 // before: the end of the token before
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return append(out, text[done:]...)
		}
		if err != nil {
			return text
		}
		kind, n := dec.StackIndex(dec.StackDepth())
		if kind == '{' && n%2 == 1 && tok.String() == "quantization_config" {
			if err := dec.SkipValue(); err != nil {
				return text
			}
			from, to := before, int(dec.InputOffset())
			if rest := bytes.TrimLeft(text[to:], " \t\r\n"); n == 1 && len(rest) > 0 && rest[0] == ',' {
				to = len(text) - len(rest) + 1 // the first member: the comma behind it goes as well
			}
			out, done = append(out, text[done:from]...), to
			before = to
			continue
		}
		before = int(dec.InputOffset())
	}
}
