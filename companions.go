package demi

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/tensor"
)

// copyCompanions copies the files that lie beside the source and make a
// directory of weights a model: configuration, tokenizer, licence. Weights,
// indexes of weights, directories and hidden files stay where they are.
func copyCompanions(dst *atomicfile.Dir, c *Checkpoint, p *Plan) error {
	if len(c.sections) == 0 {
		return nil
	}
	from := filepath.Dir(c.sections[0].File)
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !companionFile(name) {
			continue
		}
		path := filepath.Join(from, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue // directories, and links to nothing
		}
		if err := copyCompanion(dst.Path(name), path, p); err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
	}
	return nil
}

func companionFile(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case strings.HasPrefix(name, "."), FormatOf(name) != "", strings.HasSuffix(name, indexSuffix):
		return false
	case ext == ".json":
		return true
	}
	return !slices.Contains(foreignExtensions, ext)
}

// maxConfig is the size up to which a config.json is corrected.
const maxConfig = 16 << 20

func copyCompanion(to, from string, p *Plan) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	defer out.Abort()
	var r io.Reader = in
	if dtype := p.newDType(); filepath.Base(from) == "config.json" && dtype != tensor.Invalid {
		text, err := io.ReadAll(io.LimitReader(in, maxConfig))
		if err != nil {
			return err
		}
		r = io.MultiReader(bytes.NewReader(correctDType(text, dtype)), in)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, r, make([]byte, atomicfile.WriteSize)); err != nil {
		return err
	}
	return out.Commit()
}

// newDType returns the type that most floating-point elements of the output
// have, or Invalid if the plan changes no tensor.
func (p *Plan) newDType() tensor.DType {
	count := map[tensor.DType]int64{}
	changed, best := false, tensor.Invalid
	for i := range p.Tensors {
		t := &p.Tensors[i]
		changed = changed || t.Converted()
		if d := t.Out.DType; d.IsFloat() {
			if count[d] += t.Out.Elements(); best == tensor.Invalid || count[d] > count[best] {
				best = d
			}
		}
	}
	if !changed {
		return tensor.Invalid
	}
	return best
}

var torchNames = map[tensor.DType]string{
	tensor.F64: "float64", tensor.F32: "float32", tensor.F16: "float16", tensor.BF16: "bfloat16",
}

// correctDType replaces the values of "torch_dtype" and "dtype" in a
// configuration, wherever they name a floating-point type, and leaves every
// other byte. Text that is not JSON comes back as it is.
func correctDType(text []byte, d tensor.DType) []byte {
	var out []byte
	done := 0
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	key := ""
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return append(out, text[done:]...)
		}
		if err != nil {
			return text
		}
		kind, n := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && n%2 == 1 && tok.Kind() == '"'
		if (key == "torch_dtype" || key == "dtype") && !isName && tok.Kind() == '"' && floatName(tok.String()) {
			end := int(dec.InputOffset())
			start := bytes.LastIndexByte(text[:end-1], '"') // no type has a quotation mark in its name
			out = append(append(out, text[done:start]...), '"')
			if strings.HasPrefix(tok.String(), "torch.") {
				out = append(out, "torch."...)
			}
			out = append(append(out, torchNames[d]...), '"')
			done = end
		}
		key = ""
		if isName {
			key = tok.String()
		}
	}
}

func floatName(s string) bool {
	d, err := tensor.ParseDType(s)
	return err == nil && d.IsFloat()
}
