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

// maxCompanion is the size up to which a file beside the source is taken to
// belong to the model: vocabularies have some 35 MB.
const maxCompanion = 64 << 20

// findCompanions returns the files that lie beside the source and make a
// directory of weights a model: configuration, tokenizer, licence. Weights,
// indexes of weights, directories and hidden files are not among them, large
// files neither, but with a warning. One that cannot be read is an error now
// and not at the end.
func findCompanions(c *Checkpoint, warn func(string)) (paths []string, err error) {
	if len(c.sections) == 0 {
		return nil, nil
	}
	from := filepath.Dir(c.sections[0].File)
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		info, err := os.Stat(path)
		switch {
		case !companionFile(e.Name()) || err != nil || !info.Mode().IsRegular(): // also links to nothing
			continue
		case info.Size() > maxCompanion:
			if warn != nil {
				warn(fmt.Sprintf("%s is not copied: it has %d bytes", path, info.Size()))
			}
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		f.Close()
		paths = append(paths, path)
	}
	return paths, nil
}

func copyCompanions(dst *atomicfile.Dir, paths []string, p *Plan) error {
	for _, path := range paths {
		if err := copyCompanion(dst.Path(filepath.Base(path)), path, p); err != nil {
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
