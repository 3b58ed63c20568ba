package doctor

import (
	"fmt"
	"strings"

	"github.com/demi-weights/demi/internal/hfconfig"
	"github.com/demi-weights/demi/internal/shardset"
	"github.com/demi-weights/demi/tensor"
)

// model looks at all tensors of a model.
func (e *examiner) model(files []*weights) {
	scaled := make(map[string]bool) // modules that have a scale
	for _, w := range files {
		for _, in := range w.infos {
			if module, leaf := splitName(in.Name); strings.Contains(strings.ToLower(leaf), "scale") {
				scaled[module] = true
			}
		}
	}
	for _, w := range files {
		var bare []string
		for _, in := range w.infos {
			if module, leaf := splitName(in.Name); fp8(in.DType) && !strings.Contains(strings.ToLower(leaf), "scale") && !scaled[module] && !scaled[in.Name] {
				bare = append(bare, fmt.Sprintf("%q", in.Name))
			}
		}
		if len(bare) == 0 {
			continue
		}
		f := Finding{File: w.path, Text: fmt.Sprintf("%d FP8 tensors have no scale: %s", len(bare), shardset.Listed(bare))}
		if len(scaled) == 0 { // as the files of image models that were cast as they are
			f.Severity, f.Text = Note, f.Text+"; no tensor has one"
		}
		e.add("fp8-no-scale", f)
	}
}

// fp8 tells the types that weights are stored in; F8_E8M0 is a scale itself.
func fp8(d tensor.DType) bool {
	return d.IsSmallFloat() && d.Bits() == 8 && d != tensor.F8E8M0
}

// splitName divides a name at its last dot.
func splitName(name string) (module, leaf string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:]
}

// config compares the element types that a configuration names with those of
// the model: its own and that of its text part with the type of most elements,
// others with any type that there is.
func (e *examiner) config(path string, model []*weights) {
	text, err := readUpTo(path, hfconfig.MaxSize)
	if err != nil {
		e.unreadable(path, err)
		return
	}
	if len(text) == hfconfig.MaxSize {
		e.add("too-large", Finding{File: path, Text: fmt.Sprintf("the configuration has %d bytes or more", len(text)), Fix: again})
		return
	}
	values, err := hfconfig.DTypes(text)
	if err != nil || len(text) == 0 {
		f := Finding{File: path, Text: "the file is empty"}
		if err != nil {
			f = refusal(path, err)
		}
		e.add("bad-config", f)
		return
	}
	best, elements := majority(model)
	if best == tensor.Invalid || strings.Contains(string(text), `"quantization_config"`) {
		return // the type is that of the values after a scale
	}
	var lies []hfconfig.Value
	for _, v := range values {
		if n := elements[v.DType]; n == 0 || leading(v.Path) && n < elements[best] {
			lies = append(lies, v)
		}
	}
	for _, v := range lies {
		f := Finding{File: path, Offset: int64(v.Start), Text: fmt.Sprintf("%s is %q, the weights are %v", v.Path, v.Text, best)}
		if !isLink(path) {
			f.repair = configRepair(path, text, lies, best)
		}
		e.add("config-dtype", f)
	}
}

// leading reports whether a value speaks of the model as a whole, or of its text
// part.
func leading(path string) bool {
	module, _ := splitName(path)
	return module == "" || module == "text_config"
}

// majority counts the elements of each floating-point type, and returns that of
// most; Invalid if there is none, or if tensors are quantised.
func majority(model []*weights) (best tensor.DType, elements map[tensor.DType]int64) {
	elements = make(map[tensor.DType]int64)
	for _, w := range model {
		for _, in := range w.infos {
			if in.DType.IsSmallFloat() || in.DType == tensor.Opaque {
				return tensor.Invalid, elements
			}
			if in.DType.IsFloat() {
				elements[in.DType] += in.Elements()
			}
		}
	}
	for d := tensor.Invalid; d <= tensor.Opaque; d++ {
		if elements[d] > elements[best] {
			best = d
		}
	}
	return best, elements
}
